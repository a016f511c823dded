"""Runs cargo: streams its messages, keeps the whole log, and returns what happened as data."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from codegen.errors import InputOutputError, ToolchainMissing
from codegen.verify.diagnostics import (
    TEST_FAILED,
    TEST_OUTPUT,
    TEST_OUTPUTS_END,
    TEST_RESULT,
    TEST_SKIPPED,
    Diagnostic,
    TestTally,
    read_diagnostic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

STATUS = re.compile(
    r"^\s*(Checking|Compiling|Downloading|Downloaded|Running|Doc-tests|Updating|Locking|Blocking) (.+)$"
)
NOT_INSTALLED = re.compile(
    r"no such command: `(?P<command>[\w-]+)`|'cargo-(?P<component>[\w-]+)(?:\.exe)?' is not installed"
)
INSTALL = {
    "cargo": "install Rust with rustup (https://rustup.rs), or your system's package `cargo`",
    "rustc": "install Rust with rustup (https://rustup.rs), or your system's package `rustc`",
    "rustfmt": "run `rustup component add rustfmt`, or install your system's package `rustfmt`",
    "clippy": "run `rustup component add clippy`, or install your system's package `rust-clippy`",
}
GRACE_SECONDS = 5.0
STDERR_LINES_KEPT = 60


@dataclass(frozen=True, slots=True)
class CargoRun:
    """One finished cargo process."""

    arguments: tuple[str, ...]
    returncode: int
    """cargo's own exit code; negative when a signal ended it."""
    diagnostics: tuple[Diagnostic, ...]
    """Each once, even where cargo compiles the same file for several targets."""
    test_results: tuple[str, ...]
    """libtest's closing lines, verbatim, one per test binary."""
    failed_tests: tuple[str, ...]
    complaint: str
    """What cargo itself wrote to stderr from its first `error:` on; empty when it only relayed rustc."""
    seconds: float
    log: Path
    timed_out: bool = False
    skipped_tests: tuple[str, ...] = ()
    """`name: reason` of each test that could not run and said so."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """What each failed test printed, by its name."""

    @property
    def ok(self) -> bool:
        """True when cargo ended by itself with exit code 0."""
        return self.returncode == 0 and not self.timed_out

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(one for one in self.diagnostics if one.is_error)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are warnings."""
        return tuple(one for one in self.diagnostics if one.level == "warning")

    @property
    def tally(self) -> TestTally:
        """Sums over the closing lines of all test binaries."""
        return TestTally.of(self.test_results, self.skipped_tests)


def cargo_environment(target_dir: Path, **extra: str) -> dict[str, str]:
    """Variables for every cargo run of ours: optimised enough to test, no debug info, one shared target folder.

    A cold check of candle-core and candle-nn takes 20-35 s and 370 MB on two cores; all releases share the folder.
    """
    return {
        "CARGO_TARGET_DIR": str(target_dir.resolve()),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_TERM_COLOR": "never",
        "CARGO_TERM_PROGRESS_WHEN": "never",
        **extra,
    }


def require_programs(programs: Iterable[str], *, which: Callable[[str], str | None] = shutil.which) -> None:
    """Check that the programs are on PATH.

    Raises ToolchainMissing naming every missing one and how to install it.
    """
    missing = [program for program in programs if which(program) is None]
    if missing:
        raise ToolchainMissing(
            f"{_listed(missing)} not found on PATH",
            remedy="; ".join(INSTALL.get(program, f"install `{program}`") for program in missing),
        )


def run_cargo(
    root: Path,
    arguments: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    on_message: Callable[[str], None] = lambda _line: None,
    timeout: float | None = None,
) -> CargoRun:
    """Run `cargo ARGUMENTS` in `root` and return what it said.

    `environment` is laid over the process's own; `on_message` receives short progress lines such as
    "checking candle-core 0.11.1"; `log` gets everything, rustc's messages in their readable form. On Ctrl-C, or after
    `timeout` seconds, cargo and everything it started are ended.

    Raises ToolchainMissing when cargo or the subcommand is not installed, InputOutputError when the log cannot be
    written.
    """
    require_programs(["cargo"])
    command = ["cargo", arguments[0], "--message-format=json", *arguments[1:]]
    started = time.monotonic()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = log.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InputOutputError(
            f"cannot write the log {log}: {error.strerror}", remedy="choose a writable folder with --work"
        ) from error
    with stream:
        stream.write(f"$ cargo {' '.join(arguments)}\n")
        transcript = _Transcript(str(root), stream, on_message)
        with subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            timed_out = _follow(process, transcript, timeout)
    run = transcript.result(arguments, process.returncode, time.monotonic() - started, log, timed_out=timed_out)
    _refuse_missing_component(run)
    return run


def _follow(process: subprocess.Popen[str], transcript: _Transcript, timeout: float | None) -> bool:
    """Feed both streams to the transcript until cargo ends; True when it was ended for taking too long."""
    assert process.stdout is not None
    assert process.stderr is not None
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        _end_group(process)

    watchdog = threading.Timer(timeout, expire) if timeout is not None else None
    status = threading.Thread(target=transcript.read_stderr, args=(process.stderr,), daemon=True)
    status.start()
    if watchdog is not None:
        watchdog.daemon = True
        watchdog.start()
    try:
        transcript.read_stdout(process.stdout)
        process.wait()
    except BaseException:
        _end_group(process)
        raise
    finally:
        status.join()
        if watchdog is not None:
            watchdog.cancel()
    return expired.is_set()


def _end_group(process: subprocess.Popen[str]) -> None:
    """End cargo and the rustc, linker and test processes that it started: ask first, then insist."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)


class _Transcript:
    """Collects what one cargo process says, while writing the log."""

    def __init__(self, root: str, log: IO[str], on_message: Callable[[str], None]) -> None:
        self._root = root
        self._log = log
        self._lock = threading.Lock()
        self._on_message = on_message
        self._diagnostics: dict[tuple[object, ...], Diagnostic] = {}
        self._test_results: list[str] = []
        self._failed_tests: list[str] = []
        self._skipped_tests: list[str] = []
        self._outputs: dict[str, list[str]] = {}
        self._output: list[str] | None = None
        self._stderr: list[str] = []
        self._complaint: list[str] = []

    def read_stdout(self, lines: Iterable[str]) -> None:
        for line in lines:
            text = line.rstrip("\n")
            message = _json_object(text)
            if message is None:
                self._test_line(text)
            elif message.get("reason") == "compiler-message":
                self._compiler_message(message)

    def read_stderr(self, lines: Iterable[str]) -> None:
        for line in lines:
            text = line.rstrip("\n")
            self._write(text)
            if (skipped := TEST_SKIPPED.match(text)) is not None:
                self._skipped_tests.append(skipped[1])
            if self._complaint or text.startswith("error"):
                if len(self._complaint) < STDERR_LINES_KEPT:
                    self._complaint.append(text)
            elif (status := STATUS.match(text)) is not None:
                self._on_message(progress_line(status[1], status[2]))

    def _compiler_message(self, message: Mapping[str, object]) -> None:
        inner = message["message"]
        assert isinstance(inner, dict)
        diagnostic = read_diagnostic(inner, root=self._root)
        if diagnostic is None:
            return
        self._write(diagnostic.rendered)
        key = (diagnostic.level, diagnostic.code, diagnostic.message, diagnostic.span, diagnostic.expanded_from)
        self._diagnostics.setdefault(key, diagnostic)

    def _test_line(self, text: str) -> None:
        self._write(text)
        if (output := TEST_OUTPUT.match(text)) is not None:
            self._output = self._outputs.setdefault(output["name"], [])
        elif text == TEST_OUTPUTS_END:
            self._output = None
        elif self._output is not None:
            self._output.append(text)
        elif TEST_RESULT.search(text):
            self._test_results.append(text)
            self._on_message(text)
        elif (failed := TEST_FAILED.match(text)) is not None:
            self._failed_tests.append(failed["name"])

    def _write(self, text: str) -> None:
        with self._lock:
            self._log.write(text + "\n")

    def result(
        self, arguments: Sequence[str], returncode: int, seconds: float, log: Path, *, timed_out: bool
    ) -> CargoRun:
        return CargoRun(
            arguments=tuple(arguments),
            returncode=returncode,
            diagnostics=tuple(self._diagnostics.values()),
            test_results=tuple(self._test_results),
            skipped_tests=tuple(self._skipped_tests),
            failed_tests=tuple(self._failed_tests),
            complaint="\n".join(self._complaint),
            seconds=seconds,
            log=log,
            timed_out=timed_out,
            failures={name: "\n".join(lines).strip() for name, lines in self._outputs.items()},
        )


def progress_line(verb: str, rest: str) -> str:
    """cargo's status line in lower case and without paths: "checking candle-core 0.11.1"."""
    words = re.sub(r" \([^()]*\)", "", rest)
    words = re.sub(r" v(?=\d)", " ", words)
    return f"{verb.lower()} {words}"


def _json_object(text: str) -> dict[str, object] | None:
    if not text.startswith('{"'):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "reason" in value else None


def _refuse_missing_component(run: CargoRun) -> None:
    found = NOT_INSTALLED.search(run.complaint) if run.returncode else None
    if found is not None:
        name = found["command"] or found["component"]
        raise ToolchainMissing(f"cargo has no subcommand `{name}`", remedy=INSTALL.get(name, f"install `cargo-{name}`"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
