"""Runs one test binary that cargo built, and returns what each of its tests did.

cargo's own summary is no evidence: a test that ends its process with code 0 takes the tests behind it along, and cargo
calls that a success. So the binary is asked for its tests first, and each of them has to end by itself.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from typing import TYPE_CHECKING

from codegen.verify.process import run_watched
from codegen.verify.testrun import Outcome, TestBinary, TestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codegen.verify.process import Ended

RUNNING = re.compile(r"^running (\d+) tests?$")
TEST_ENDED = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<outcome>ok|FAILED|ignored)(?:, .*| <.*)?$")
SLOW = re.compile(r"^test (?P<name>\S+)(?: - should panic)? has been running for over (?P<seconds>\d+) seconds$")
CLOSING = re.compile(
    r"^test result: (?P<verdict>ok|FAILED)\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored; "
)
SKIPPED = re.compile(r"^SKIPPED: (?P<name>\w[\w:]*): (?P<reason>.+)$")
"""What a generated test prints, past libtest's capture, when it cannot run."""
OUTPUT = re.compile(r"^---- (?P<name>\S+) stdout ----$")
"""Begins what a failed test printed; the next such line, or the list of failures, ends it."""
OUTPUTS_END = "failures:"
LISTED = re.compile(r"^(?P<name>\S+): test$")
PASSED_ALONE = "test result: ok. 1 passed; 0 failed; 0 ignored; "
LIST_SECONDS = 120.0
ALONE_SECONDS = 120.0
"""How long a test that did not end gets when it is run by itself, to see what it prints."""
QUOTED = 200
NAMED = 3
FAILED_CODE = 101
"""What libtest ends with when a test failed."""


def list_tests(binary: TestBinary, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of a binary's tests, ignored ones too, in libtest's order.

    Raises OSError when the binary cannot be started, ValueError when it does not answer as libtest does.
    """
    lines: list[str] = []
    ended = _briefly(binary, ("--list", "--format", "terse"), environment, lines.append, LIST_SECONDS)
    if ended.returncode or ended.stopped:
        raise ValueError(f"`--list` ended with {ended.how}{f': {lines[-1]}' if lines else ''}")
    return tuple(found["name"] for line in lines if (found := LISTED.match(line)))


def run_tests(
    binary: TestBinary,
    environment: Mapping[str, str],
    *,
    limit: float,
    log: Callable[[str], None],
    choose: Callable[[str], bool] = lambda _name: True,
    on_message: Callable[[str], None] = lambda _line: None,
    stopped: Callable[[], bool] = lambda: False,
) -> TestRun:
    """Run those of a binary's tests that `choose` takes.

    A test may take `limit` seconds. One that takes longer is ended with the whole binary and all that it started, and
    so is the binary once `stopped` says so.
    """
    try:
        listed = list_tests(binary, environment)
    except (OSError, ValueError) as error:
        return TestRun(binary, (), doubts=(f"{binary} does not list its tests: {error}",))
    selected = tuple(filter(choose, listed))
    if not selected:
        return TestRun(binary, ())
    named = () if selected == listed else ("--exact", *selected)
    threads = max(2, os.cpu_count() or 2)  # with one thread libtest does not say which test is slow
    arguments = (f"--test-threads={threads}", *named)
    log(f"$ {binary}: {binary.executable.name} {' '.join(arguments)}")
    said = _Said(limit, log, on_message)

    def watch() -> str | None:
        return "verification was stopped" if stopped() else said.overdue()

    try:
        ended = _start(binary, arguments, environment, said.stdout, said.stderr, watch)
    except OSError as error:
        return TestRun(binary, selected, doubts=(f"{binary} cannot be started: {error.strerror}",))
    if stopped():
        return said.result(binary, selected, ended, {})
    began = said.unfinished(selected)[:threads]
    alone = {name: _alone(binary, name, environment, min(limit, ALONE_SECONDS), log) for name in began}
    return said.result(binary, selected, ended, alone)


def _start(
    binary: TestBinary,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdout: Callable[[str], None],
    stderr: Callable[[str], None],
    watch: Callable[[], str | None],
) -> Ended:
    return run_watched(
        (str(binary.executable), *arguments),
        cwd=binary.folder,
        environment={**environment, "CARGO_MANIFEST_DIR": str(binary.folder)},
        on_stdout=stdout,
        on_stderr=stderr,
        watch=watch,
    )


def _briefly(
    binary: TestBinary,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    on_line: Callable[[str], None],
    seconds: float,
) -> Ended:
    deadline = time.monotonic() + seconds

    def watch() -> str | None:
        return f"took over {seconds:.0f} s" if time.monotonic() > deadline else None

    return _start(binary, arguments, environment, on_line, on_line, watch)


def _alone(
    binary: TestBinary, name: str, environment: Mapping[str, str], seconds: float, log: Callable[[str], None]
) -> str:
    """What a test does when it is run by itself, with the last thing that it prints."""
    lines: list[str] = []
    log(f"$ {binary}: {name} alone")

    def take(line: str) -> None:
        log(line)
        own = line.removeprefix(f"test {name} ... ").strip()
        if own and not RUNNING.match(line):
            lines.append(own)

    try:
        ended = _briefly(binary, ("--exact", name, "--nocapture", "--test-threads=1"), environment, take, seconds)
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    said = f", having printed `{lines[-1][:QUOTED]}`" if lines else ""
    if ended.stopped:
        return f"alone it still runs after {seconds:.0f} s{said}"
    if ended.returncode == 0 and any(line.startswith(PASSED_ALONE) for line in lines):
        return "alone it passes"
    return f"alone it ends with {ended.how}{said}"


class _Said:
    """Reads libtest's lines as they come."""

    def __init__(self, limit: float, log: Callable[[str], None], on_message: Callable[[str], None]) -> None:
        self._limit = limit
        self._log = log
        self._on_message = on_message
        self._announced: int | None = None
        self._outcomes: dict[str, Outcome] = {}
        self._slow_since: dict[str, float] = {}
        self._outputs: dict[str, list[str]] = {}
        self._output: list[str] | None = None
        self._skipped: dict[str, str] = {}
        self._closing: str | None = None
        self._last_line = ""
        self._last_end = time.monotonic()

    def stdout(self, line: str) -> None:
        self._log(line)
        self._last_line = line or self._last_line
        if (output := OUTPUT.match(line)) is not None:
            self._output = self._outputs.setdefault(output["name"], [])
        elif line == OUTPUTS_END:
            self._output = None
        elif self._output is not None and not CLOSING.match(line):
            self._output.append(line)
        else:
            self._progress(line)

    def _progress(self, line: str) -> None:
        if (running := RUNNING.match(line)) is not None:
            self._announced = int(running[1])
        elif (ended := TEST_ENDED.match(line)) is not None:
            self._outcomes[ended["name"]] = Outcome(ended["outcome"])
            self._last_end = time.monotonic()
            self._closing = None
        elif (slow := SLOW.match(line)) is not None:
            self._slow_since[slow["name"]] = time.monotonic() - float(slow["seconds"])
            self._on_message(line)
        elif CLOSING.match(line):
            self._closing = line
            self._on_message(line)

    def stderr(self, line: str) -> None:
        self._log(line)
        self._last_line = line or self._last_line
        if (skipped := SKIPPED.match(line)) is not None:
            self._skipped[skipped["name"]] = skipped["reason"]

    def overdue(self) -> str | None:
        """Why the binary has to be ended now: a test that takes too long, or none that ends."""
        now = time.monotonic()
        late = [
            name for name, since in self._slow_since.items() if name not in self._outcomes and now - since > self._limit
        ]
        if late:
            return f"{', '.join(late)} took over {self._limit:.0f} s"
        if now - self._last_end > self._limit:
            return f"no test ended for {self._limit:.0f} s"
        return None

    def unfinished(self, selected: Sequence[str]) -> tuple[str, ...]:
        """Those of the tests of which no end was seen."""
        return tuple(name for name in selected if name not in self._outcomes)

    def result(self, binary: TestBinary, selected: tuple[str, ...], ended: Ended, alone: Mapping[str, str]) -> TestRun:
        return TestRun(
            binary,
            selected,
            returncode=ended.returncode,
            outcomes=dict(self._outcomes),
            outputs={name: "\n".join(lines).strip() for name, lines in self._outputs.items()},
            skipped={_whole(name, selected): reason for name, reason in self._skipped.items()},
            doubts=tuple(f"{binary} {doubt}" for doubt in self._doubts(selected, ended, alone)),
            seconds=ended.seconds,
        )

    def _doubts(self, selected: Sequence[str], ended: Ended, alone: Mapping[str, str]) -> Iterator[str]:
        failed = sum(outcome is Outcome.FAILED for outcome in self._outcomes.values())
        if ended.stopped is not None:
            yield f"was ended: {ended.stopped}; its last words: `{self._last_line[:QUOTED]}`"
        elif ended.returncode not in (0, FAILED_CODE):
            yield f"ended with {ended.how}; its last words: `{self._last_line[:QUOTED]}`"
        elif (ended.returncode == 0) != (failed == 0):
            yield f"ended with {ended.how}, although {failed} tests failed"
        yield from (f"{name} did not end; {what}" for name, what in alone.items())
        silent = [name for name in self.unfinished(selected) if name not in alone]
        if silent:
            more = f" and {len(silent) - NAMED} more" if len(silent) > NAMED else ""
            yield f"does not say what came of {', '.join(silent[:NAMED])}{more}"
        strange = [name for name in self._outcomes if name not in selected]
        if strange:
            yield f"speaks of tests that it does not list: {', '.join(strange[:NAMED])}"
        yield from self._doubts_of_the_sum(selected)

    def _doubts_of_the_sum(self, selected: Sequence[str]) -> Iterator[str]:
        """libtest counts twice: when it begins, and in its closing line."""
        closing = CLOSING.match(self._closing or "")
        if closing is None:
            yield "has no closing line"
            return
        seen = Counter(self._outcomes.values())
        said = (int(closing[key]) for key in ("passed", "failed", "ignored"))
        if tuple(said) != tuple(seen[outcome] for outcome in Outcome) or self._announced != len(selected):
            announced = "none" if self._announced is None else self._announced
            yield (
                f"lists {len(selected)} tests and announces {announced}; "
                f"the end of {len(self._outcomes)} was seen, and it closes with `{self._closing}`"
            )


def _whole(name: str, selected: Sequence[str]) -> str:
    """A test's name with its modules; generated tests give it without."""
    return next((each for each in selected if each == name or each.endswith(f"::{name}")), name)
