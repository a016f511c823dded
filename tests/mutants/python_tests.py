"""Files of Python tests as judges, beside programs of Rust's."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from codegen.paths import repository_root
from mutants.baseline import BaselineFailed, names_of
from mutants.trial import Ended, run_lines, run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mutants.building import Program

PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider", "-p", "no:randomly")
FAILED = re.compile(r"^(?:FAILED|ERROR) (?P<name>\S+)")
PASSED = re.compile(r"^(?P<count>\d+ passed(?:, \d+ skipped)?) in ")
TESTS_FAILED = 1
"""pytest's exit status; 2 to 5 mean that it could not run them."""


def run_either(
    program: str,
    tests: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path,
    timeout: float,
    to_the_end: bool = False,
) -> Ended:
    """Run tests of a program of Rust's, or a file of Python tests until one fails."""
    if not program.endswith(".py"):
        return run_tests(program, tests, environment, cwd=cwd, timeout=timeout, to_the_end=to_the_end)
    return read_pytest(run_lines([*PYTEST, program], environment, cwd=cwd, timeout=timeout), program)


def cases_of(
    programs: Sequence[Program], environment: Mapping[str, str], record: Path, say: Callable[[str], None]
) -> list[tuple[Program, str]]:
    """The unit tests, and each file of Python tests with the number of its tests that pass.

    `record` is a file to write to. Raises BaselineFailed if no file of Python tests asks for a mutant: then they used
    other libraries.
    """
    found = []
    record.write_text("", "ascii")
    for program in programs:
        if program.name.startswith("pytest/"):
            say(f"{program.name} once, to compile its kernels")
            variables = {**environment, "CANDLE_ROCM_REACHED": str(record)}
            ended = run_either(program.path, [], variables, cwd=repository_root(), timeout=1800)
            found += [(program, name) for name in ended.passed or {f"does not pass: {ended.output}"}]
        else:
            found += [(program, name) for name in names_of(program, environment)]
    if not record.read_text("ascii"):
        raise BaselineFailed("no file of Python tests reaches a mutant: they use other libraries")
    return found


def read_pytest(ended: Ended, program: str) -> Ended:
    """What pytest's last lines say: the first failure, or one `test` that stands for as many as passed."""
    lines = ended.output.splitlines()
    failures = [found["name"] for line in lines if (found := FAILED.match(line)) is not None]
    counts = [found["count"] for line in lines if (found := PASSED.match(line)) is not None]
    name = program.rsplit("/", maxsplit=1)[-1]
    return Ended(
        status=ended.status if ended.status in (0, TESTS_FAILED) or (ended.status or 0) < 0 else None,
        failed=failures[0] if failures and ended.status == TESTS_FAILED else "",
        passed=frozenset(f"{name} ({count})" for count in counts),
        closing=bool(counts),
        timed_out=ended.timed_out,
        seconds=ended.seconds,
        output=ended.output,
    )
