"""Runs tests, and says what is known of a mutant from how they ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.verify.libtest import CLOSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ENDED = re.compile(r"^test (?P<name>\S+)(?: - .*?)? \.\.\. (?P<how>ok|FAILED|ignored)")
"""A line about a test; where a message of another library stands between, the last word comes on a line of its own."""
SKIPPED = re.compile(r"(?:^|\.\.\. )SKIPPED: (\w[\w:]*: .+)$")
"""What generated tests say past libtest's capture, perhaps behind the test's name."""
OWN_SIGNALS = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
)
"""What a process gets for what it did itself. Other signals come from outside, and say nothing of a mutant."""


class Verdict(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    TIMEOUT = "timeout"
    SURVIVED = "survived"
    UNREACHED = "not reached"
    """No test runs the code: it survives without being tried."""
    UNVIABLE = "unviable"
    ERROR = "error"
    """Nothing is known: a test program was ended from outside, or would not start."""

    @property
    def counts_as_caught(self) -> bool:
        """A test that hangs is red, too."""
        return self in (Verdict.CAUGHT, Verdict.TIMEOUT)

    @property
    def survived(self) -> bool:
        """No test was red."""
        return self in (Verdict.SURVIVED, Verdict.UNREACHED)


@dataclass(frozen=True, slots=True)
class Ended:
    """A test program that ended."""

    status: int | None
    """As subprocess has it; None if it would not start."""
    failed: str = ""
    """The test that failed first; the program was ended then."""
    passed: frozenset[str] = frozenset()
    skipped: tuple[str, ...] = ()
    closing: bool = False
    """Whether it said what came of all tests."""
    timed_out: bool = False
    seconds: float = 0.0
    output: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one program says of a mutant: a verdict, or None where it says nothing against it."""

    verdict: Verdict | None
    by: str = ""


def judged(ended: Ended, wanted: frozenset[str]) -> Outcome:
    """What a program that was to run the tests `wanted` says of a mutant."""
    if ended.failed:
        return Outcome(Verdict.CAUGHT, ended.failed)
    if ended.timed_out:
        return Outcome(Verdict.TIMEOUT, f"after {ended.seconds:.0f} s, with {len(ended.passed)} tests done")
    if ended.status is None:
        return Outcome(Verdict.ERROR, "the program would not start")
    if ended.status < 0 and -ended.status not in OWN_SIGNALS:
        return Outcome(Verdict.ERROR, f"ended from outside by signal {-ended.status}")
    if ended.status == 0 and ended.closing and ended.passed == wanted and not ended.skipped:
        return Outcome(None)
    if ended.status < 0:
        return Outcome(Verdict.CAUGHT, f"crashed with {signal.Signals(-ended.status).name}")
    if ended.skipped:
        return Outcome(Verdict.CAUGHT, f"no device: {ended.skipped[0]}")
    return Outcome(Verdict.CAUGHT, f"exit status {ended.status}, {len(ended.passed)} of {len(wanted)} tests passed")


@dataclass(slots=True)
class Reader:
    """Follows what libtest prints of tests that run one after another."""

    passed: set[str] = field(default_factory=set)
    failed: str = ""
    skipped: list[str] = field(default_factory=list)
    closing: bool = False
    lines: list[str] = field(default_factory=list)
    running: str = ""

    def read(self, line: str) -> None:
        """One line of stdout or stderr."""
        self.lines.append(line)
        if (skipped := SKIPPED.search(line)) is not None:
            self.skipped.append(skipped[1])
        if (ended := ENDED.match(line)) is not None:
            self._end(ended["name"], ended["how"])
        elif line.startswith("test ") and " ... " in line:
            self.running = line.split()[1]
        elif self.running and line in ("ok", "FAILED"):
            self._end(self.running, line)
        if CLOSING.search(line):
            self.closing = True

    def _end(self, name: str, how: str) -> None:
        self.running = ""
        if how == "ok":
            self.passed.add(name)
        elif how == "FAILED":
            self.failed = self.failed or name


def run_tests(
    program: str | Path,
    tests: Sequence[str],
    environment: Mapping[str, str],
    *,
    cwd: Path,
    timeout: float,
    to_the_end: bool = False,
) -> Ended:
    """Run these tests of a libtest program, one after another, until one fails; ends it and its children then.

    `to_the_end` lets it say why the test failed.
    """
    command = [str(program), "--exact", "--test-threads=1", *tests]
    return run_lines(command, environment, cwd=cwd, timeout=timeout, to_the_end=to_the_end)


def run_lines(
    command: Sequence[str], environment: Mapping[str, str], *, cwd: Path, timeout: float, to_the_end: bool = True
) -> Ended:
    """Run a program and follow its lines."""
    reader, started, expired = Reader(), time.monotonic(), threading.Event()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Ended(None, output=str(error))

    def expire() -> None:
        expired.set()
        _end(process)

    watchdog = threading.Timer(timeout, expire)
    watchdog.daemon = True
    watchdog.start()
    try:
        assert process.stdout is not None
        for line in process.stdout:
            reader.read(line.rstrip("\n"))
            if reader.failed and not to_the_end:
                _end(process)
        status = process.wait()
    finally:
        _end(process)
        watchdog.cancel()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return Ended(
        status=status,
        failed=reader.failed,
        passed=frozenset(reader.passed),
        skipped=tuple(reader.skipped),
        closing=reader.closing,
        timed_out=expired.is_set(),
        seconds=time.monotonic() - started,
        output="\n".join(reader.lines[-60:]),
    )


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
