"""A run that was interrupted: what passed is not done again, unless something that it depends on has changed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codegen.verify.expected_failures import WaitingTest
from codegen.verify.feature_examples import LeftOut
from codegen.verify.judge import StepResult, Verdict
from codegen.verify.kept import FILE, Kept, state_of
from codegen.verify.patched_tree import OnDisk, Subject
from codegen.verify.pins import Pinned
from codegen.verify.steps import PassCriterion, Step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEP = Step("check-on", "check, rocm on", "check", ("candle-core",), PassCriterion.BUILDS, 1)
PROGRAMS = {"cargo": "cargo 1.0", "rustc": "rustc 1.0"}


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.rs").write_text("a", encoding="utf-8")
    (root / "b.rs").write_text("b", encoding="utf-8")
    return Subject(root, OnDisk.UNPATCHED, patched={"b.rs": b"patched", "c.rs": b"new"})


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small candle-rocm, whose code and specs a test can change."""
    home = tmp_path / "home"
    for name in ("codegen/one.py", "specs/one.yaml"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name, encoding="utf-8")
    monkeypatch.setenv("CANDLE_ROCM_HOME", str(home))
    monkeypatch.setattr("codegen.plan.cache.__file__", str(home / "codegen/plan/cache.py"))
    return home


def state(subject: Subject, **variables: str) -> str:
    return state_of(subject, programs=PROGRAMS, variables=variables, more=("emulator",))


def kept(subject: Subject, tmp_path: Path, **variables: str) -> Kept:
    return Kept(tmp_path / "logs", tmp_path / "scratch", state(subject, **variables))


def keep(subject: Subject, tmp_path: Path, step: Step = STEP, **more: object) -> None:
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "scratch").mkdir(exist_ok=True)
    result = StepResult(step, Verdict.PASSED, "no warnings", seconds=35.0, ran_on="emulator (gfx1100)")
    kept(subject, tmp_path).keep(replace(result, **more))  # type: ignore[arg-type]


def test_a_step_that_passed_comes_back_with_all_that_was_said_of_it(subject: Subject, tmp_path: Path) -> None:
    waiting, left = WaitingTest("t", 3, "core.rule"), LeftOut("candle-examples", "llama", ("x",), "reason")
    pinned = Pinned("float8", "0.5.0", "0.5.0", "why")
    log = tmp_path / "check-on.log"
    keep(subject, tmp_path, waiting=(waiting,), left_out=(left,), pinned=(pinned,), log=log)

    found = kept(subject, tmp_path).find(STEP)

    assert found is not None
    assert found.earlier is not None
    assert (found.verdict, found.detail, found.seconds, found.ran_on) == (
        Verdict.PASSED,
        "no warnings",
        35.0,
        "emulator (gfx1100)",
    )
    assert (found.waiting, found.left_out, found.pinned, found.log) == ((waiting,), (left,), (pinned,), log)
    assert found.told == f"at {found.earlier.at}, in a run that was interrupted: no warnings"


def change_a_file(subject: Subject, own: Path) -> None:
    (subject.root / "a.rs").write_text("changed", encoding="utf-8")


def add_a_file(subject: Subject, own: Path) -> None:
    (subject.root / "d.rs").write_text("", encoding="utf-8")


def remove_a_file(subject: Subject, own: Path) -> None:
    (subject.root / "a.rs").unlink()


def change_our_code(subject: Subject, own: Path) -> None:
    (own / "codegen/one.py").write_text("changed", encoding="utf-8")


def change_a_spec(subject: Subject, own: Path) -> None:
    (own / "specs/one.yaml").write_text("changed", encoding="utf-8")


def change_the_lock(subject: Subject, own: Path) -> None:
    (own.parent / "scratch/Cargo.lock").write_text("another version", encoding="utf-8")


@pytest.mark.parametrize(
    "change", [change_a_file, add_a_file, remove_a_file, change_our_code, change_a_spec, change_the_lock]
)
def test_what_has_changed_is_done_again(
    subject: Subject, own: Path, tmp_path: Path, change: Callable[[Subject, Path], None]
) -> None:
    keep(subject, tmp_path)
    assert kept(subject, tmp_path).find(STEP) is not None
    change(subject, own)
    assert kept(subject, tmp_path).find(STEP) is None


def test_another_patch_step_program_device_or_variable_is_another_run(subject: Subject, tmp_path: Path) -> None:
    keep(subject, tmp_path)
    now = kept(subject, tmp_path)
    assert now.find(replace(STEP, features=("rocm",))) is None
    assert kept(replace(subject, patched={"b.rs": b"patched"}), tmp_path).find(STEP) is None
    assert kept(replace(subject, patched={"b.rs": None, "c.rs": b"new"}), tmp_path).find(STEP) is None
    assert kept(subject, tmp_path, CARGO_NET_OFFLINE="true").find(STEP) is None
    assert kept(subject, tmp_path, TERM="xterm").find(STEP) is not None
    about = {"variables": {}, "more": ("emulator",)}
    assert state_of(subject, programs={**PROGRAMS, "rustc": "rustc 2.0"}, **about) != state(subject)  # type: ignore[arg-type]
    assert state_of(subject, programs=PROGRAMS, variables={}, more=("ROCm (gfx1100)",)) != state(subject)


def test_a_library_of_the_device_that_was_built_anew_is_seen(subject: Subject, tmp_path: Path) -> None:
    library = tmp_path / "rocm/lib/libamdhip64.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"one")
    before = state(subject, ROCM_PATH=str(tmp_path / "rocm"))
    library.write_bytes(b"two")
    assert state(subject, ROCM_PATH=str(tmp_path / "rocm")) != before


def test_a_run_that_ends_forgets_its_own_steps_only(subject: Subject, tmp_path: Path) -> None:
    other = replace(STEP, id="clippy-on")
    keep(subject, tmp_path)
    keep(subject, tmp_path, other)
    run = kept(subject, tmp_path)
    assert run.find(STEP) is not None
    run.finish()
    assert kept(subject, tmp_path).find(STEP) is None
    assert kept(subject, tmp_path).find(other) is not None


def test_a_record_that_a_killed_process_left_half_written_is_read_as_far_as_it_goes(
    subject: Subject, tmp_path: Path
) -> None:
    keep(subject, tmp_path)
    file = tmp_path / "logs" / FILE
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole + whole[: len(whole) // 2], encoding="utf-8")
    assert kept(subject, tmp_path).find(STEP) is not None
    file.write_bytes(os.urandom(200))
    assert kept(subject, tmp_path).find(STEP) is None


def test_what_cannot_be_written_down_harms_nothing(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder", encoding="utf-8")
    run = kept(subject, tmp_path)
    run.keep(StepResult(STEP, Verdict.PASSED, ""))
    assert run.find(STEP) is None
    run.finish()


def test_the_record_holds_the_steps_json(subject: Subject, tmp_path: Path) -> None:
    keep(subject, tmp_path)
    line = json.loads((tmp_path / "logs" / FILE).read_text(encoding="utf-8"))
    assert (line["document"]["id"], line["document"]["verdict"]) == ("check-on", "passed")
