"""A time limit for each test, and the end of what a test started when it is over the limit.

pytest-timeout interrupts the test with a signal, so that it fails by its name and the run goes on. Code of a library
that never comes back to Python does not see the signal: then the whole process ends, with the test's name and the
stacks of its threads. Either way nothing that the test started is left behind.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

VARIABLE = "PYTEST_TIMEOUT"
"""Seconds for each test instead of those of pyproject.toml; pytest-timeout reads it."""
LONGER = 4
"""Times the limit: tests that build a patched Candle (`cargo`)."""
GRACE_SECONDS = 60
"""From the signal to the end of the process."""
MARK = "CANDLE_ROCM_TESTS_OF"
"""In the environment of all that a process of pytest starts: tells its own from those of other runs."""


STDERR = pytest.StashKey[TextIO]()


def pytest_configure(config: pytest.Config) -> None:
    seconds(config)
    mark_children()
    config.stash[STDERR] = os.fdopen(os.dup(2), "w")  # nothing is captured here, as it is later


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[STDERR].close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives tests that build Candle more time."""
    for item in items:
        if item.get_closest_marker("cargo") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(seconds(config) * LONGER))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends the process if a test takes too long and cannot be interrupted."""
    with watched(item.nodeid, limit_of(item, seconds(item.config)), item.config.stash[STDERR]):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Ends what a test has left running when its time was up."""
    if call.excinfo is not None and str(call.excinfo.value).startswith("Timeout (>"):
        end_children()
    return (yield)


def seconds(config: pytest.Config) -> float:
    """The limit of a test that is not marked. Raises `pytest.UsageError` for none at all."""
    given = config.getoption("timeout", default=None) or os.environ.get(VARIABLE) or config.getini("timeout")
    try:
        limit = float(given)
    except ValueError:
        limit = 0
    if not limit > 0 or limit == float("inf"):
        raise pytest.UsageError(f"{given} is no time limit: {VARIABLE} is a number of seconds above 0")
    return limit


def limit_of(item: pytest.Item, usual: float) -> float:
    """Seconds that a test may take."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker and marker.args else usual


def mark_children() -> None:
    """Lets this process tell what it starts from now on; what started it can still tell that too."""
    os.environ[MARK] = "/".join(filter(None, (os.environ.get(MARK), uuid.uuid4().hex)))


@contextmanager
def watched(name: str, limit: float, out: TextIO) -> Iterator[None]:
    """Ends this process, by name, if the block takes `limit` seconds and the grace; nothing of it is left behind."""

    def overdue() -> None:
        print(f"\n{name} took more than {limit:.0f} s and could not be interrupted", file=out, flush=True)
        faulthandler.dump_traceback(out, all_threads=True)
        end_children()
        os._exit(pytest.ExitCode.TESTS_FAILED.value)

    watchdog = threading.Timer(limit + GRACE_SECONDS, overdue)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def end_children() -> tuple[int, ...]:
    """Ends what this process has started, in whichever session or process group it is; their process ids."""
    ended: set[int] = set()
    while found := {pid for pid in _children() if pid not in ended}:  # what is ended may have started more by then
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= found
    return tuple(sorted(ended))


def _children() -> Iterator[int]:
    """Processes with our mark: they inherited it, however far down they were started."""
    wanted = f"{MARK}={os.environ[MARK]}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with suppress(OSError):
                if any(entry.startswith(wanted) for entry in (folder / "environ").read_bytes().split(b"\0")):
                    yield int(folder.name)
