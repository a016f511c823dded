"""Several commands at once on one tree: each does its work, or says that another is changing the tree."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from made_up import tree_hash

from codegen.errors import Conflict
from codegen.spec.kinds import Gating, Runtime
from codegen.workspace.apply import apply_phases, revert_phases
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

BUSY = "another candle-rocm is changing"
WRITERS = ("apply", "revert")
READERS = ("status", "check", "scan", "diff")


def start(command: str, tree: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "codegen", command, str(tree)]
    return subprocess.Popen(words, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("seed", range(4))
def test_processes(candle: Path, candle_rocm: CommandLine, seed: int) -> None:
    pristine = tree_hash(candle)
    candle_rocm.ok("apply", candle)
    patched = tree_hash(candle)
    dice = Random(seed)
    if dice.random() < 0.5:
        candle_rocm.ok("revert", candle)
    commands = [*WRITERS, *WRITERS, *dice.sample(READERS, 2)]
    dice.shuffle(commands)

    running = [(command, start(command, candle)) for command in commands]
    ended = [(command, *process.communicate(timeout=120), process.returncode) for command, process in running]

    for command, _, said, code in ended:
        assert code in (0, 1, 5), f"{command}: {said}"
        assert code != 5 or any(words in said for words in (BUSY, "is applied", "waits", "changed since")), said
        assert "Traceback" not in said
    assert [command for command, _, _, code in ended if code == 0 and command in WRITERS], "one of them won"
    assert tree_hash(candle) in (pristine, patched)
    candle_rocm.ok("apply", candle)
    candle_rocm.ok("check", candle)
    candle_rocm.ok("revert", candle)
    assert tree_hash(candle) == pristine


def test_threads(candle: Path, candle_rocm: CommandLine) -> None:
    """A lock that only told processes apart would let both of a process's threads in."""
    pristine = tree_hash(candle)
    candle_rocm.ok("apply", candle)
    patched = tree_hash(candle)
    candle_rocm.ok("revert", candle)

    def apply() -> str:
        try:
            workspace = open_workspace(candle, for_writing=True)
            apply_phases(workspace, phases=(), gating=Gating.DUMMY, runtime=Runtime.DYNAMIC)
        except Conflict as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(4) as pool:
        outcomes = [future.result() for future in [pool.submit(apply) for _ in range(4)]]
    assert "done" in outcomes
    assert all(outcome == "done" or BUSY in outcome for outcome in outcomes), outcomes
    assert tree_hash(candle) == patched
    revert_phases(open_workspace(candle, for_writing=True))
    assert tree_hash(candle) == pristine
