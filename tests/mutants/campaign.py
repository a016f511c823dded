"""Mutants one after another, each against the tests that reach it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mutants.results import Result, Results
from mutants.trial import Ended, Outcome, Verdict, judged, run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mutants.baseline import Baseline, Groups
    from mutants.building import Built, Compilation, Program
    from mutants.mutant import Mutant

LEAST = 40.0
"""Seconds that tests may take with a mutant at least; a loaded machine, or kernels compiled anew, are no hang."""
TIMES = 8.0
"""And this many times what they take without."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What trials need: programs with switches, and the tests that pass without."""

    built: Built
    baseline: Baseline
    environment: Mapping[str, str]
    folder_of: Callable[[Program], Path]
    results: Results
    plain: Callable[[Mutant], Compilation]
    """Compiles a mutant that has no switch."""
    jobs: int = 1
    run: Callable[..., Ended] = run_tests
    clock: Callable[[], float] = time.monotonic
    on_result: Callable[[Mutant, Result], None] = field(default=lambda _mutant, _result: None)

    def try_all(self, mutants: Sequence[Mutant]) -> dict[str, Result]:
        """The results of these mutants by their names: those that are known, and then the others, which are tried."""
        known = self.results.known()
        wanted = [mutant for mutant in mutants if mutant.name not in known]
        found = {mutant.name: known[mutant.name] for mutant in mutants if mutant.name in known}
        switches = [mutant for mutant in wanted if mutant.number not in self.built.unswitchable]
        with ThreadPoolExecutor(self.jobs) as pool:
            found |= {result.name: result for result in pool.map(self.result, switches)}
        # Each of the others is compiled for itself, one at a time.
        found |= {mutant.name: self.result(mutant) for mutant in wanted if mutant not in switches}
        return found

    def result(self, mutant: Mutant) -> Result:
        """Try one, and keep what came of it."""
        started = self.clock()
        outcome = self._compiled(mutant) if mutant.number in self.built.unswitchable else self._switched(mutant.number)
        verdict = outcome.verdict or Verdict.SURVIVED
        result = Result(mutant.name, verdict, outcome.by, round(self.clock() - started, 1))
        self.results.add(result)
        self.on_result(mutant, result)
        return result

    def _switched(self, number: int) -> Outcome:
        if number in self.built.unviable:
            return Outcome(Verdict.UNVIABLE, self.built.unviable[number])
        if number not in self.built.inside:
            return Outcome(Verdict.ERROR, "it is in no program")
        groups = self.baseline.about(number)
        if not groups:
            return Outcome(Verdict.UNREACHED, "no test runs it")
        return self._tested(self.built.programs, groups, {"CANDLE_ROCM_MUTANT": str(number)})

    def _compiled(self, mutant: Mutant) -> Outcome:
        """Of such a mutant nobody knows which tests reach it: all are run that reach any."""
        done = self.plain(mutant)
        if done.ok:
            return self._tested(done.programs, self.baseline.about_any, {"CANDLE_ROCM_MUTANT": str(mutant.number)})
        if done.errors:
            return Outcome(Verdict.UNVIABLE, str(done.errors[0]["message"]))
        return Outcome(Verdict.ERROR, done.output[-300:])

    def _tested(self, built: Iterable[Program], groups: Groups, variables: Mapping[str, str]) -> Outcome:
        programs = {program.name: program for program in built}
        for name, tests in groups:
            names = [test.name for test in tests]
            ended = self.run(
                programs[name].path,
                names,
                {**self.environment, **variables},
                cwd=self.folder_of(programs[name]),
                timeout=LEAST + TIMES * sum(test.seconds for test in tests),
            )
            outcome = judged(ended, frozenset(names))
            if outcome.verdict is not None:
                return Outcome(outcome.verdict, f"{name}: {outcome.by}")
        return Outcome(None, f"{sum(len(tests) for _, tests in groups)} tests reach it and pass")


def tally(results: Iterable[Result]) -> dict[Verdict, int]:
    """How many there are of each verdict."""
    counts = dict.fromkeys(Verdict, 0)
    for result in results:
        counts[result.verdict] += 1
    return counts
