"""The kernel tests, run on other sources, each time in a process of its own that has everything imported already.

A process that imports numpy, pytest, hypothesis and the tests takes seconds to start, much longer than the test that
finds a fault. `python -m mutations.kernel_tests` imports all of it once, reads requests, one JSON object a line, and
forks for each; only the forked process loads the HIP libraries.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from codegen.kernels.loader import load_families
from codegen.paths import repository_root

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_SECONDS = 600
OPTIONS = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist")
TESTS = Path("tests/kernels")


@dataclass(frozen=True, slots=True)
class Request:
    """Which tests to run on which sources."""

    module: str
    """`reduce` of test_reduce.py."""
    expression: str
    """For pytest's -k."""
    folder: str
    """Where the sources are, and where the tests' output goes."""

    @property
    def log(self) -> Path:
        """pytest's output."""
        return Path(self.folder, "pytest.log")

    def run(self) -> int:
        """pytest's exit status."""
        tests = str(TESTS / f"test_{self.module}.py")
        return int(pytest.main([*OPTIONS, "--kernel-sources", self.folder, "-k", self.expression, tests]))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How pytest ended: its exit status, or a signal's negated number; and what it printed."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class KernelTests:
    """The process that runs requests."""

    requests: IO[str]
    statuses: IO[str]

    def run(self, request: Request) -> Outcome:
        """Hand over a request and wait. Raises ValueError if the process is gone."""
        print(json.dumps(asdict(request)), file=self.requests, flush=True)
        return Outcome(int(self.statuses.readline()), request.log.read_text(encoding="utf-8", errors="replace"))


@contextmanager
def started() -> Iterator[KernelTests]:
    """A running process, which ends when its input does."""
    folders = [str(repository_root() / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=repository_root(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None, "opened as a pipe"
        assert process.stdout is not None, "opened as a pipe"
        yield KernelTests(process.stdin, process.stdout)


def serve(requests: IO[str], statuses: IO[str]) -> None:
    """Answer each request with pytest's exit status, until there are no more."""
    for name in ("conftest", "kernels.conftest", *(f"kernels.{path.stem}" for path in TESTS.glob("test_*.py"))):
        import_module(name)
    load_families()
    for line in requests:
        print(_forked(Request(**json.loads(line))), file=statuses, flush=True)


def _forked(request: Request) -> int:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    with request.log.open("wb") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    # Not with signal.alarm: pytest-timeout has its own use for that timer.
    limit = threading.Timer(LIMIT_SECONDS, os.kill, (os.getpid(), signal.SIGKILL))
    limit.daemon = True
    limit.start()
    status = pytest.ExitCode.INTERNAL_ERROR.value
    try:
        status = request.run()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
