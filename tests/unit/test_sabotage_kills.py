"""A kill counts as seen only if the verification failed for it, and named the program and the signal."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from sabotage.kills import judged, programs

from codegen.verify.judge import Verdict

if TYPE_CHECKING:
    from pathlib import Path

SAID = "candle-core rocm_basic on gfx1100: ended with signal 9 (SIGKILL); its last words: `running 26 tests`"


def document(*complaints: str, verdict: str = Verdict.FAILED, passed: bool = False) -> dict[str, Any]:
    return {"passed": passed, "steps": [{"id": "rocm-tests", "verdict": verdict, "complaints": list(complaints)}]}


def test_a_failed_step_that_names_the_program_and_the_signal_saw_it() -> None:
    assert judged(["rocm_basic"], document("something else", SAID)) == [SAID]


def test_each_kill_needs_a_line_of_its_own() -> None:
    other = SAID.replace("gfx1100", "gfx90a")

    assert judged(["rocm_basic", "rocm_basic"], document(SAID)) == [SAID, ""]
    assert judged(["rocm_basic", "rocm_basic"], document(SAID, other)) == [SAID, other]
    assert judged(["rocm_memory", "rocm_basic"], document(SAID)) == ["", SAID]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("rocm_basic", document()),
        ("rocm_basic", document(SAID.replace("SIGKILL", "SIGSEGV"))),
        ("rocm_basic", document("rocm_basic does not say what came of it, SIGKILL")),
        ("rocm_bas", document(SAID)),
        ("rocm_memory", document(SAID)),
        ("rocm_basic", document(SAID, verdict=Verdict.PASSED)),
        ("rocm_basic", document(SAID, passed=True)),
    ],
)
def test_anything_else_is_no_sight_of_it(program: str, found: dict[str, Any]) -> None:
    assert judged([program], found) == [""]


def test_only_programs_of_the_run_itself_are_killed(tmp_path: Path) -> None:
    """Another run may wait for the folder, or be waited for."""
    program = tmp_path / "debug/deps/rocm_basic-0123"
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60", "0"]) as process:
        try:
            assert list(programs(tmp_path, os.getpid())) == [(process.pid, "rocm_basic")]
            assert list(programs(tmp_path, os.getpid() + 1)) == []
        finally:
            process.kill()
