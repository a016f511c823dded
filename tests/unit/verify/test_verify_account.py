"""What may be said of a line: only what the record has of its proofs."""

from __future__ import annotations

from typing import Any

import pytest

from codegen.spec.kinds import DEFAULT_RUNTIME
from codegen.verify.acceptance import Acceptance, Line, Seed
from codegen.verify.account import AccountOfLine, account_of, document
from codegen.verify.judge import Verdict
from codegen.verify.record import Record
from codegen.verify.results import FileRun, StepRun

TESTS, BUILD, FILE = "rocm-tests", "clippy-on", "tests/kernels/test_fill.py"
EMULATED = "emulator (gfx1100 and gfx90a)"


def ran(step: str = TESTS, **more: Any) -> StepRun:
    given = {"detail": "374 passed, 0 failed, 3 ignored", "ran_on": EMULATED if step == TESTS else None, **more}
    return StepRun.model_validate(
        {
            "step": step,
            "release": "0.11.1",
            "gating": "dummy",
            "runtime": DEFAULT_RUNTIME,
            "phase": 7,
            "at": "2026-11-20T10:00:00Z",
            "tool": "0.1.0",
            "verdict": Verdict.PASSED,
            **given,
        }
    )


def file(**more: Any) -> FileRun:
    return FileRun(**{"file": FILE, "at": "2026-11-21T10:00:00Z", "passed": 9, "failed": 0, "skipped": 0, **more})


def account(*runs: StepRun | FileRun, **proofs: tuple[str, ...]) -> AccountOfLine:
    line = Line.model_validate({"asks": "it is there", **(proofs or {"verify": (TESTS,)})})
    record = Record(
        steps=tuple(run for run in runs if isinstance(run, StepRun)),
        files=tuple(run for run in runs if isinstance(run, FileRun)),
    )
    seed = Seed(document="000", about="all", lines=(line,))
    ((found,),) = (each.lines for each in account_of(Acceptance(seeds=(seed,)), record))
    return found


def test_a_step_that_needs_a_device_shows_nothing_before_it_was_run() -> None:
    """The state came from a flag of the step once."""
    found = account()
    assert found.state == "not run"
    assert [(proof.command, proof.said) for proof in found.proofs] == [
        ("candle-rocm verify CANDLE --only rocm-tests", "not run")
    ]


def test_what_passed_says_on_what_when_and_how_many() -> None:
    found = account(ran(), ran(release="0.9.1", at="2026-11-22T10:00:00Z"), ran(BUILD))
    assert found.state == "on the emulated device"
    (proof,) = found.proofs
    assert proof.said == (
        "passed on 2026-11-22, emulator (gfx1100 and gfx90a): 374 passed, 0 failed, 3 ignored; passed in 2 builds"
    )


@pytest.mark.parametrize(
    ("device", "state"),
    [
        (EMULATED, "on the emulated device"),
        ("HIP on NVIDIA (NVIDIA H200)", "as HIP on NVIDIA"),
        ("nvidia (sm_90)", "as HIP on NVIDIA"),
        ("ROCm (gfx1100)", "on ROCm"),
        (None, "tested"),
    ],
)
def test_the_state_goes_by_what_the_libraries_said(device: str | None, state: str) -> None:
    assert account(ran(ran_on=device)).state == state
    assert account(file(ran_on=(device,) if device else ()), pytest=(FILE,)).state == state


def test_a_file_that_ran_on_two_devices_shows_the_less_of_both() -> None:
    found = account(file(ran_on=("ROCm (gfx1100)", "emulator (gfx90a)")), pytest=(FILE,))
    assert found.state == "on the emulated device"


def test_a_line_needs_all_of_its_proofs_and_counts_as_the_strongest() -> None:
    both = {"verify": (BUILD, TESTS), "pytest": (FILE,)}
    assert account(ran(BUILD), **both).state == "in part"
    assert account(ran(BUILD), ran(), **both).state == "in part"
    assert account(ran(BUILD), ran(), file(), **both).state == "on the emulated device"
    assert account(ran(BUILD), verify=(BUILD,)).state == "compiled"


def test_a_failure_anywhere_is_one() -> None:
    """On an older release, with other choices or of one crate, whatever passed elsewhere."""
    failed = ran(release="0.9.1", gating="cfg", packages=("candle-nn",), verdict=Verdict.FAILED, detail="")
    found = account(ran(), failed)
    assert found.state == "failed"
    assert found.proofs[0].command == "candle-rocm verify 0.9.1 --only rocm-tests --gating cfg -p candle-nn"
    assert found.proofs[0].said == "**failed** on 2026-11-20"
    assert account(file(failed=1), pytest=(FILE,)).state == "failed"


def test_what_was_skipped_was_not_run() -> None:
    skipped = ran("smoke", verdict=Verdict.SKIPPED, detail="SKIPPED: hipcc not found on PATH", ran_on=None)
    found = account(skipped, verify=("smoke",))
    assert (found.state, found.proofs[0].said) == ("not run", "not run: hipcc not found on PATH (2026-11-20)")
    found = account(verify=("smoke",))
    assert (found.state, found.proofs[0].said.startswith("not run: its kernel")) == ("not run", True)
    found = account(file(passed=0, skipped=9), pytest=(FILE,))
    assert (found.state, found.proofs[0].said) == ("not run", "not run: nothing passed on 2026-11-21, 9 skipped")


def test_a_run_of_one_crate_is_no_proof_of_the_step() -> None:
    assert account(ran(packages=("candle-core",))).state == "not run"


def test_the_page_counts_states_and_keeps_to_its_table() -> None:
    seed = Seed(document="000", about="all", lines=(Line(asks="it is there", verify=(TESTS,)),))
    text = document(Acceptance(seeds=(seed,)), Record(steps=(ran(detail="a|b\nc"),)))
    assert "| on the emulated device | 1 |" in text
    assert "| failed | 0 |" in text
    assert (
        "| it is there | on the emulated device | `candle-rocm verify 0.11.1 --only rocm-tests`: "
        "passed on 2026-11-20, emulator (gfx1100 and gfx90a): a\\|b |\n" in text
    )
    assert "- `candle-rocm verify CANDLE --only smoke`: its kernel is compiled by hipcc" in text
