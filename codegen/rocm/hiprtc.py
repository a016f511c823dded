"""Compiles HIP sources through the real libhiprtc, as a program does that compiles its kernels at first use.

It works on a machine without a GPU, because the architecture is named. libhiprtc is loaded by processes of its own: the
one from Debian's packages needs another C library than this machine has, and a crash of it must not be ours.
"""

from __future__ import annotations

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from codegen import programs
from codegen.errors import ToolchainMissing
from codegen.rocm.toolchain import HOW_TO_GET_ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from subprocess import Popen

    from codegen.rocm.toolchain import HipRtc, Toolchain

_COMGR_FOLDER = re.compile(r"/\S*?/comgr-[^/\s]+/(?:input|include)/")
"""Where libhiprtc unpacks a program for the compiler; a log is of use without it."""
_PROGRAM = Path(__file__).with_name("hiprtc_program.py")


@dataclass(frozen=True, slots=True)
class HipRtcRequest:
    """One source to compile for one architecture."""

    name: str
    """How the log names it, `unary.hip`."""
    source: str
    architecture: str
    code: Path
    """Where the code object goes."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Text by the name in `#include`."""
    options: tuple[str, ...] = ()
    """More than the architecture."""


@dataclass(frozen=True, slots=True)
class HipRtcResult:
    """What libhiprtc made of a request."""

    request: HipRtcRequest
    status: int
    meaning: str
    """`HIPRTC_SUCCESS`, `HIPRTC_ERROR_COMPILATION`."""
    log: str
    """The compiler's messages, with the names that the request gives to its files."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the code object was written."""
        return self.status == 0


def compile_with_hiprtc(
    requests: Sequence[HipRtcRequest],
    toolchain: Toolchain,
    *,
    jobs: int | None = None,
    progress: Callable[[HipRtcResult], None] = lambda _: None,
) -> tuple[HipRtcResult, ...]:
    """The result of each request, in their order; `jobs` processes (default: one per processor) share the work.

    Raises:
        ToolchainMissing: there is no libhiprtc, or it cannot be loaded.
        OSError: the folder of a code object cannot be made.
    """
    if toolchain.hiprtc is None:
        raise ToolchainMissing(f"{toolchain.origin} has no libhiprtc", remedy=HOW_TO_GET_ONE)
    for folder in {request.code.parent for request in requests}:
        folder.mkdir(parents=True, exist_ok=True)
    count = min(jobs or os.cpu_count() or 1, len(requests)) or 1
    with ExitStack() as stack, ThreadPoolExecutor(count) as pool:
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(count):
            idle.put(stack.enter_context(_started(toolchain.hiprtc)))

        def run(request: HipRtcRequest) -> HipRtcResult:
            worker = idle.get()
            try:
                result = worker.compile(request)
            finally:
                idle.put(worker)
            progress(result)
            return result

        return tuple(pool.map(run, requests))


@contextmanager
def _started(hiprtc: HipRtc) -> Iterator[_Worker]:
    """A running hiprtc_program.py, which ends when its standard input does."""
    # The interpreter itself, not a link or a launcher script: the loader starts ELF files only.
    command = [*hiprtc.loader, os.path.realpath(sys.executable), "-I", "-S", str(_PROGRAM), str(hiprtc.library)]
    # comgr would answer from ~/.cache and write there; a check must compile, and leave the home alone.
    variables = programs.environment(AMD_COMGR_CACHE="0", PYTHONIOENCODING="utf-8")
    with (
        TemporaryFile() as complaints,
        programs.start(
            command, variables=variables, stdin=programs.PIPE, stdout=programs.PIPE, stderr=complaints
        ) as process,
    ):
        yield _Worker(hiprtc.library, process, complaints)


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process that compiles one request after the other."""

    library: Path
    process: Popen[bytes]
    complaints: IO[bytes]
    """What it writes to standard error; a file, because nobody reads it while it runs."""

    def compile(self, request: HipRtcRequest) -> HipRtcResult:
        """Hand over one request and wait. Raises `ToolchainMissing` when the process is gone or died over it."""
        question = {
            "name": request.name,
            "source": request.source,
            "headers": dict(request.headers),
            "options": [f"--offload-arch={request.architecture}", *request.options],
            "code": str(request.code.absolute()),
        }
        answer = self._ask(question)
        return HipRtcResult(
            request, answer["status"], answer["meaning"], _COMGR_FOLDER.sub("", answer["log"]), answer["seconds"]
        )

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None, "opened as a pipe"
        assert self.process.stdout is not None, "opened as a pipe"
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            raise self._death(question["name"])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _death(self, name: str) -> ToolchainMissing:
        assert self.process.stdin is not None, "opened as a pipe"
        with suppress(BrokenPipeError):  # closing would write what the process did not take
            self.process.stdin.close()
        status = self.process.wait()
        self.complaints.seek(0)
        last = self.complaints.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        told = last or f"exit status {status}"
        return ToolchainMissing(f"{self.library} did not survive {name}: {told}", remedy=HOW_TO_GET_ONE)
