"""Which of Candle's tests wait for a phase."""

from __future__ import annotations

from pathlib import Path

from codegen.spec.model import PhaseSpec, PhaseTests
from codegen.verify.expected_failures import NOT_YET, WaitingTest, summary, waiting_tests

ALWAYS = PhaseTests(id="a.always", names=("one::rocm", "two::rocm"), reason="for want of a phase")
LATER = PhaseTests(id="a.later", names=("new::rocm",), reason="for want of a phase", since="0.11.0")
PHASES = (
    PhaseSpec(phase=1, name="core", summary="Core."),
    PhaseSpec(phase=2, name="two", summary="Two.", tests=(ALWAYS, LATER)),
)


def names(release: str, *present: int) -> list[str]:
    return [test.name for test in waiting_tests(PHASES, release, present)]


def test_tests_wait_for_a_phase_that_is_missing() -> None:
    assert waiting_tests(PHASES[:2], "0.9.1", (0, 1)) == (
        WaitingTest("one::rocm", 2, "a.always"),
        WaitingTest("two::rocm", 2, "a.always"),
    )
    assert names("0.11.1", 1) == ["one::rocm", "two::rocm", "new::rocm"]


def test_nothing_waits_when_the_phase_is_there() -> None:
    assert names("0.11.1", 1, 2) == []


def test_each_phase_is_counted() -> None:
    tests = [WaitingTest("c", 5, "x"), WaitingTest("a", 2, "x"), WaitingTest("b", 2, "x")]
    assert summary(tests) == "2 wait for phase 2, 1 wait for phase 5"
    assert summary([]) == ""


def test_the_generated_error_says_what_is_looked_for() -> None:
    source = "templates/candle/1-core/candle-core/src/rocm_backend/rocm_error.rs"
    assert NOT_YET in (Path(__file__).parents[3] / source).read_text(encoding="utf-8")
