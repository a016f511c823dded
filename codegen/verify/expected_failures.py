"""Candle's tests that wait for a phase which the tree does not have: each has to fail, and to say which phase it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.release import in_range

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from codegen.spec.model import PhaseSpec


NOT_YET = "is not available on ROCm yet: it comes with phase {phase} "
"""What RocmError::NotGenerated says (rocm_backend/rocm_error.rs); a test that returns the error prints it."""


@dataclass(frozen=True, slots=True)
class WaitingTest:
    """A test that cannot pass yet."""

    name: str
    phase: int
    rule: str
    crate: str = "candle-core"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A test run with waiting tests in it."""

    waiting: tuple[WaitingTest, ...]
    """Those that failed for want of their phase, as they should."""
    complaints: tuple[str, ...]
    """Waiting tests that passed, did not run, or failed for another reason."""


def waiting_tests(phases: Iterable[PhaseSpec], release: str, present: Collection[int]) -> tuple[WaitingTest, ...]:
    """The tests of a release that need a phase which is not among those in the tree."""
    return tuple(
        WaitingTest(name, phase.phase, tests.id, tests.crate)
        for phase in phases
        if phase.phase not in present
        for tests in phase.tests
        if in_range(release, tests.since, tests.until)
        for name in tests.names
    )


def judge_waiting(expected: Iterable[WaitingTest], failures: Mapping[str, str]) -> Judgement:
    """Compare what had to fail with what failed; `failures` has the output of each failed test.

    A test that fails for want of its phase prints the error that names the phase.
    """
    waiting, complaints = [], []
    for test in expected:
        output = failures.get(test.name)
        if output is None:
            complaints.append(f"{test.name} did not fail: take it off {test.rule}")
        elif NOT_YET.format(phase=test.phase) in output:
            waiting.append(test)
        else:
            complaints.append(f"{test.name} failed, but not for want of phase {test.phase}")
    return Judgement(tuple(waiting), tuple(complaints))


def summary(tests: Iterable[WaitingTest]) -> str:
    """`26 wait for phase 2`, one part for each phase."""
    counts: dict[int, int] = {}
    for test in tests:
        counts[test.phase] = counts.get(test.phase, 0) + 1
    return ", ".join(f"{count} wait for phase {phase}" for phase, count in sorted(counts.items()))
