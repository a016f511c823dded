"""The tests without a mutant: they have to pass, and each says which mutants it reaches."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mutants.trial import Ended, judged, run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mutants.building import Program

PATIENCE = 1800.0
"""Seconds for one test without a mutant."""
WAITS = "is not available on ROCm yet: it comes with phase "
NEEDS_NONE = ": a device is there"
"""What tests say that are about a machine without a GPU."""


class BaselineFailed(Exception):
    """The tests do not pass without a mutant, so that nothing they say of one is worth anything."""


@dataclass(frozen=True, slots=True)
class Passing:
    """A test that passes, and what it reaches."""

    program: str
    name: str
    seconds: float
    reached: frozenset[int]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "reached": sorted(self.reached)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Passing:
        """From JSON."""
        return cls(**{**document, "reached": frozenset(document["reached"])})


Groups = tuple[tuple[str, tuple[Passing, ...]], ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What passes, and what says nothing: it waits for a phase that the release does not have, or wants no device."""

    tests: tuple[Passing, ...]
    left_out: tuple[str, ...]

    @property
    def reached(self) -> frozenset[int]:
        """The mutants that any test reaches."""
        return frozenset(number for test in self.tests for number in test.reached)

    def about(self, number: int) -> Groups:
        """The tests that reach a mutant, by program, those first that take the least time."""
        return _grouped(test for test in self.tests if number in test.reached)

    @property
    def about_any(self) -> Groups:
        """Likewise the tests that reach any mutant."""
        return _grouped(test for test in self.tests if test.reached)


def _grouped(tests: Iterable[Passing]) -> Groups:
    by_program: dict[str, list[Passing]] = {}
    for test in tests:
        by_program.setdefault(test.program, []).append(test)
    ordered = [(name, tuple(sorted(each, key=lambda test: test.seconds))) for name, each in by_program.items()]
    return tuple(sorted(ordered, key=lambda group: sum(test.seconds for test in group[1])))


def names_of(program: Program, environment: Mapping[str, str]) -> list[str]:
    """The names of the program's tests, but for those that are ignored."""
    listing = [
        subprocess.run(
            [program.path, "--list", "--format", "terse", *ignored],
            env={**os.environ, **environment},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for ignored in ((), ("--ignored",))
    ]
    names, without = (
        {line.removesuffix(": test") for line in each.splitlines() if line.endswith(": test")} for each in listing
    )
    return sorted(names - without)


def measured(
    cases: Sequence[tuple[Program, str]],
    environment: Mapping[str, str],
    *,
    folder_of: Callable[[Program], Path],
    records: Path,
    jobs: int,
    run: Callable[..., Ended] = run_tests,
    on_message: Callable[[str], None] = lambda _line: None,
) -> Baseline:
    """Run each test for itself. Raises BaselineFailed if one fails that waits for no phase, or none reaches one."""
    records.mkdir(parents=True, exist_ok=True)
    on_message(f"{len(cases)} tests without a mutant, each for itself")

    def one(numbered: tuple[int, tuple[Program, str]]) -> tuple[Passing | None, str]:
        number, (program, name) = numbered
        record = records / str(number)
        record.unlink(missing_ok=True)
        record.touch()
        variables = {**environment, "CANDLE_ROCM_REACHED": str(record)}
        ended = run(program.path, [name], variables, cwd=folder_of(program), timeout=PATIENCE, to_the_end=True)
        if judged(ended, frozenset([name])).verdict is None:
            reached = frozenset(int(word) for word in record.read_text("ascii").split())
            return Passing(program.name, name, round(ended.seconds, 3), reached), ""
        needs_none = ended.status == 0 and all(reason.endswith(NEEDS_NONE) for reason in ended.skipped)
        expected = WAITS in ended.output or (ended.skipped and needs_none)
        return None, "" if expected else f"{program.name} {name}:\n{ended.output}"

    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(one, enumerate(cases)))
    return _judged(results, [f"{program.name} {name}" for program, name in cases])


def _judged(results: Iterable[tuple[Passing | None, str]], names: Iterable[str]) -> Baseline:
    pairs = list(zip(results, names, strict=True))
    failures = [why for (test, why), _ in pairs if test is None and why]
    if failures:
        raise BaselineFailed(f"{len(failures)} tests fail without a mutant:\n" + "\n".join(failures[:3]))
    tests = tuple(test for (test, _), _ in pairs if test is not None)
    if not any(test.reached for test in tests):
        raise BaselineFailed("no test reaches a mutant: the programs have no switches in them")
    return Baseline(tests, tuple(name for (test, _), name in pairs if test is None))
