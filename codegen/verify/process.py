"""Runs a program and reads what it says; whatever it started ends with it, in its process group or out of it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from subprocess import Popen

MARK = "CANDLE_ROCM_PROCESS_TREE"
"""A variable that every process of a tree inherits: by its value they are found when they have to end."""
GRACE_SECONDS = 5.0
"""How long a process has between SIGTERM and SIGKILL, and the streams to be read out once it has ended."""
LOOK_SECONDS = 0.2
"""How often the watch is asked."""
CHUNK = 1 << 16
PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    returncode: int
    """Its exit code; negative for the signal that ended it."""
    seconds: float
    stopped: str | None = None
    """Why it was ended; None when it ended by itself."""

    @property
    def how(self) -> str:
        """`exit code 3`, `signal 9 (SIGKILL)`."""
        return ending(self.returncode)


def ending(returncode: int) -> str:
    """An exit code in words; a negative one is the signal that ended the process."""
    if returncode >= 0:
        return f"exit code {returncode}"
    with contextlib.suppress(ValueError):
        return f"signal {-returncode} ({signal.Signals(-returncode).name})"
    return f"signal {-returncode}"


def run_watched(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_stdout: Callable[[str], None],
    on_stderr: Callable[[str], None],
    watch: Callable[[], str | None] = lambda: None,
) -> Ended:
    """Run `command` with exactly the variables of `environment`, and give each line to its function.

    `watch` is asked several times a second; when it returns a reason, the program and all that it started are ended.
    What is left of the tree when the program has ended is ended too, in another process group or session as well
    (where there is a /proc), and so is all of it on Ctrl-C. All three functions are called in the caller's thread.

    Raises OSError when the program cannot be started.
    """
    mark = uuid.uuid4().hex
    started = time.monotonic()
    variables = {**environment, MARK: mark}
    pipe = programs.PIPE
    with programs.start(command, cwd=cwd, variables=variables, stdout=pipe, stderr=pipe, own_session=True) as process:
        said = _Said(process, on_stdout, on_stderr)
        try:
            stopped = _wait(process, said, watch)
        finally:
            _end_tree(process, mark)
        said.finish()
    return Ended(process.returncode, time.monotonic() - started, stopped)


class _Said:
    """What comes through both streams, handed on line by line."""

    def __init__(
        self, process: Popen[bytes], on_stdout: Callable[[str], None], on_stderr: Callable[[str], None]
    ) -> None:
        self._selector = selectors.DefaultSelector()
        for stream, function in ((process.stdout, on_stdout), (process.stderr, on_stderr)):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ, _Lines(function))

    def give(self, seconds: float) -> bool:
        """Hand on what has come, or comes within `seconds`; False when nothing came."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            chunk = os.read(key.fd, CHUNK)
            key.data.take(chunk)
            if not chunk:
                self._selector.unregister(key.fileobj)
        return bool(ready)

    @property
    def open(self) -> bool:
        """Whether a stream is."""
        return bool(self._selector.get_map())

    def finish(self) -> None:
        """Hand on what is left; a process that nobody can end may hold a stream open, but not for ever."""
        while self.open and self.give(GRACE_SECONDS):
            pass
        for key in list(self._selector.get_map().values()):
            key.data.take(b"")
        self._selector.close()


class _Lines:
    """Cuts a stream into lines."""

    def __init__(self, function: Callable[[str], None]) -> None:
        self._function = function
        self._begun = b""

    def take(self, chunk: bytes) -> None:
        """Hand on the lines that a chunk completes; an empty one ends the stream, and the last line with it."""
        *lines, self._begun = (self._begun + chunk).split(b"\n")
        if not chunk and self._begun:
            lines, self._begun = [self._begun], b""
        for line in lines:
            self._function(line.decode("utf-8", "replace").rstrip("\r"))


def _wait(process: Popen[bytes], said: _Said, watch: Callable[[], str | None]) -> str | None:
    while process.poll() is None:
        if not said.give(LOOK_SECONDS) and not said.open:
            with contextlib.suppress(programs.TookTooLong):
                process.wait(LOOK_SECONDS)
        if (reason := watch()) is not None:
            return reason
    return None


def _end_tree(process: Popen[bytes], mark: str) -> None:
    """End the program and the rustc, linker and test processes that it started: ask first, then insist.

    A second Ctrl-C takes away their time, and nothing else.
    """
    again = None
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            left = [*_marked(mark)]
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
            for found in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(found, number)
            if process.poll() is None or left:
                _await_end(process, left)
        except KeyboardInterrupt as stop:
            again = stop
    if again is not None:
        raise again


def _await_end(process: Popen[bytes], others: Iterable[int]) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    with contextlib.suppress(programs.TookTooLong):
        process.wait(GRACE_SECONDS)
    while time.monotonic() < deadline and any(map(_runs, others)):
        time.sleep(LOOK_SECONDS / 10)


def _marked(mark: str) -> Iterator[int]:
    """The processes that inherited the mark, zombies left out; none where there is no /proc."""
    wanted = f"{MARK}={mark}".encode()
    for folder in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b") Z " not in (PROCESSES / str(pid) / "stat").read_bytes()
    return False
