"""What a program full of tests did: the same for libtest's binaries and for pytest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codegen.verify.device_use import DeviceUse
    from codegen.verify.target import DevicePass


@dataclass(frozen=True, slots=True, order=True)
class TestBinary:
    """A test binary that cargo built."""

    __test__ = False

    crate: str
    target: str
    """`candle_core` for the library's own tests, `rocm_basic` for tests/rocm_basic.rs."""
    kind: str
    """cargo's word: `lib`, `test`, `bin`, ..."""
    executable: Path
    folder: Path
    """The crate's: where cargo runs tests."""

    def __str__(self) -> str:
        return program_name(self.crate, self.kind, self.target)


def program_name(crate: str, kind: str, target: str) -> str:
    """What a test program is called: `candle-core rocm_basic`, `candle-core lib candle_core`."""
    return f"{crate} {target}" if kind == "test" else f"{crate} {kind} {target}"


class Outcome(StrEnum):
    """What libtest says of a test."""

    PASSED = "ok"
    FAILED = "FAILED"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of a test binary."""

    __test__ = False

    binary: TestBinary
    selected: tuple[str, ...]
    """The tests that it had to run, in libtest's order."""
    returncode: int | None = None
    """None when it was not started."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    """What each failed test printed."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Why tests returned early, by their names; libtest counts them as passed."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why tests were not run, by their names."""
    doubts: tuple[str, ...] = ()
    """What keeps the run from being a proof, which failed tests do not; empty when the end of each test was seen."""
    seconds: float = 0.0
    where: DevicePass | None = None
    """On which devices it ran; None for a step without one."""
    device: DeviceUse | None = None
    """What the device says that was done there; None where none keeps a record."""

    def named(self, outcome: Outcome) -> tuple[str, ...]:
        """The tests with an outcome."""
        return tuple(name for name, found in self.outcomes.items() if found is outcome)

    @property
    def passed(self) -> tuple[str, ...]:
        """The tests that passed, without those that returned early."""
        return tuple(name for name in self.named(Outcome.PASSED) if name not in self.skipped)


@dataclass(frozen=True, slots=True)
class TestTally:
    """How many tests came to what; a test that ran on several devices counts once, by its worst outcome."""

    __test__ = False

    passed: int = 0
    failed: int = 0
    ignored: int = 0
    skipped: tuple[str, ...] = ()
    """`name: reason` of each test that returned early wherever it ran; libtest counts them as passed."""

    @classmethod
    def of(cls, runs: Iterable[TestRun]) -> TestTally:
        """The sums over runs of test programs."""
        found: dict[tuple[TestBinary, str], set[str]] = {}
        reasons: dict[str, str] = {}
        for run in runs:
            for name, outcome in run.outcomes.items():
                early = outcome is Outcome.PASSED and name in run.skipped
                found.setdefault((run.binary, name), set()).add("skipped" if early else outcome.value)
                if early:
                    reasons.setdefault(name, run.skipped[name])
        ends = Counter(
            next(kind for kind in ("FAILED", "ok", "skipped", "ignored") if kind in kinds) for kinds in found.values()
        )
        absent = tuple(f"{name}: {reasons[name]}" for (_, name), kinds in found.items() if kinds == {"skipped"})
        return cls(ends["ok"], ends["FAILED"], ends["ignored"], absent)

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed, {self.ignored} ignored"
        if not self.skipped:
            return text
        reasons = sorted({line.partition(": ")[2] for line in self.skipped})
        return f"{text}, {len(self.skipped)} SKIPPED ({'; '.join(reasons)})"
