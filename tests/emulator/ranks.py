"""Ranks of the emulated librccl: each in a process of its own, or as threads of one. `rank_outputs` runs this module.

A scenario is a function here that gets a rank and returns what the test is to see, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.device.hip import Buffer, Device
from codegen.device.libraries import find_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codegen.device.libraries import Libraries

TYPES = {
    "int8": (0, np.int8),
    "uint8": (1, np.uint8),
    "int32": (2, np.int32),
    "uint32": (3, np.uint32),
    "int64": (4, np.int64),
    "uint64": (5, np.uint64),
    "float16": (6, np.float16),
    "float32": (7, np.float32),
    "float64": (8, np.float64),
}
"""RCCL's codes of the types that numpy has too."""
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
IN_PROGRESS = 7
COUNT = 5
LIMIT = 60.0
"""Seconds that a test waits for its ranks."""


class UniqueId(ctypes.Structure):
    """ncclUniqueId"""

    _fields_ = (("internal", c_char * 128),)


class Config(ctypes.Structure):
    """The first fields of ncclConfig_t."""

    _fields_ = (
        ("size", c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", c_int),
        ("rest", c_char * 52),
    )


class ResultError(Exception):
    """A function did not return ncclSuccess."""

    def __init__(self, function: str, result: int, problem: str = "") -> None:
        self.result = result
        super().__init__(f"{function} returned {result}: {problem}")


def numbers(rank: int, dtype: Any, times: int = 1) -> np.ndarray[Any, Any]:
    """Small whole numbers of a rank, of which every type has the sums and products."""
    return ((np.arange(COUNT * times) * (rank + 1)) % 3 + rank % 2).astype(dtype)


@dataclass
class Rank:
    """One rank, on the device of its number."""

    rank: int
    world: int
    folder: Path
    """Where the ranks find the id."""
    libraries: Libraries
    device: Device = field(init=False)
    stream: c_void_p = field(default_factory=c_void_p)
    comm: c_void_p = field(default_factory=c_void_p)

    def __post_init__(self) -> None:
        self.device = Device(self.rank, self.libraries)
        self.rccl = ctypes.CDLL(str(Path(self.device.libraries.folder or "") / "librccl.so"))
        self.rccl.ncclGetLastError.restype = c_char_p
        self.device.call("hipStreamCreateWithFlags", byref(self.stream), c_int(1))

    def status(self, function: str, *arguments: object) -> int:
        """What a function of RCCL returns."""
        self.device.call("hipSetDevice", c_int(self.rank))
        return int(getattr(self.rccl, f"nccl{function}")(*arguments))

    def call(self, function: str, *arguments: object) -> None:
        """Raises ResultError for any result but success."""
        if result := self.status(function, *arguments):
            raise ResultError(function, result, self.problem())

    def problem(self) -> str:
        """ncclGetLastError of the communicator."""
        return bytes(self.rccl.ncclGetLastError(self.comm) or b"").decode()

    def id(self) -> UniqueId:
        """Made by rank 0, taken from its file by the others."""
        file, unique = self.folder / "id", UniqueId()
        if self.rank == 0:
            self.call("GetUniqueId", byref(unique))
            unfinished = self.folder / "unfinished"
            unfinished.write_bytes(bytes(unique))
            unfinished.rename(file)
        while not file.exists():
            time.sleep(0.01)
        return UniqueId.from_buffer_copy(file.read_bytes())

    def join(self) -> None:
        """Comes to the others."""
        self.call("CommInitRank", byref(self.comm), c_int(self.world), self.id(), c_int(self.rank))

    def synchronize(self) -> None:
        """Waits for the rank's stream."""
        self.device.call("hipStreamSynchronize", self.stream)

    def upload(self, array: np.ndarray[Any, Any]) -> c_void_p:
        """An array on the device."""
        return c_void_p(self.device.upload(array.tobytes()).address)

    def empty(self, array: np.ndarray[Any, Any], times: int = 1) -> c_void_p:
        """Memory for so many arrays."""
        return c_void_p(self.device.allocate(array.nbytes * times).address)

    def download(self, memory: c_void_p, like: np.ndarray[Any, Any], times: int = 1) -> list[Any]:
        """What the memory holds."""
        data = self.device.download(Buffer(memory.value or 0, like.nbytes * times))
        elements: list[Any] = np.frombuffer(data, like.dtype).tolist()
        return elements

    def mine(self, dtype: Any, times: int = 1) -> np.ndarray[Any, Any]:
        """The numbers of this rank."""
        return numbers(self.rank, dtype, times)


def _results(rank: Rank, code: int, dtype: Any) -> dict[str, Any]:
    """Every call, on numbers of one type."""
    tail = (c_int(code), rank.comm, rank.stream)
    count, own, parts = c_size_t(COUNT), rank.mine(dtype), rank.mine(dtype, rank.world)
    found: dict[str, Any] = {}
    for name, op in OPS.items():
        received = rank.empty(own)
        rank.call("AllReduce", rank.upload(own), received, count, c_int(code), c_int(op), *tail[1:])
        rank.synchronize()
        found[f"all_reduce {name}"] = rank.download(received, own)
    in_place = rank.upload(own)
    rank.call("AllReduce", in_place, in_place, count, c_int(code), c_int(0), *tail[1:])
    received = rank.empty(own)
    rank.call("Reduce", rank.upload(own), received, count, c_int(code), c_int(2), c_int(1), *tail[1:])
    scattered = rank.empty(own)
    rank.call("ReduceScatter", rank.upload(parts), scattered, count, c_int(code), c_int(0), *tail[1:])
    gathered = rank.empty(own, rank.world)
    rank.call("AllGather", rank.upload(own), gathered, count, *tail)
    broadcast = rank.empty(own)
    rank.call("Broadcast", rank.upload(own), broadcast, count, c_int(code), c_int(rank.world - 1), *tail[1:])
    bcast = rank.upload(own)
    rank.call("Bcast", bcast, count, c_int(code), c_int(0), *tail[1:])
    rooted = rank.empty(own, rank.world)
    rank.call("Gather", rank.upload(own), rooted, count, c_int(code), c_int(0), *tail[1:])
    part = rank.empty(own)
    rank.call("Scatter", rank.upload(parts), part, count, c_int(code), c_int(0), *tail[1:])
    turned = rank.empty(own, rank.world)
    rank.call("AllToAll", rank.upload(parts), turned, count, *tail)
    ring = rank.empty(own)
    after, before = c_int((rank.rank + 1) % rank.world), c_int((rank.rank - 1) % rank.world)
    rank.call("GroupStart")
    rank.call("Send", rank.upload(own), count, c_int(code), after, *tail[1:])
    rank.call("Recv", ring, count, c_int(code), before, *tail[1:])
    rank.call("GroupEnd")
    # Rank r sends s + 1 elements to rank s, and receives r + 1 from each.
    sizes = [to + 1 for to in range(rank.world)]
    lists = c_size_t * rank.world
    to_all = rank.mine(dtype, rank.world)
    places = [sum(sizes[:to]) for to in range(rank.world)]
    pieces = rank.empty(to_all)
    own_size = rank.rank + 1
    rank.call(
        "AllToAllv",
        rank.upload(to_all),
        lists(*sizes),
        lists(*places),
        pieces,
        lists(*[own_size] * rank.world),
        lists(*[own_size * each for each in range(rank.world)]),
        *tail,
    )
    rank.synchronize()
    found |= {
        "in place": rank.download(in_place, own),
        "reduce max": rank.download(received, own) if rank.rank == 1 else None,
        "reduce_scatter": rank.download(scattered, own),
        "all_gather": rank.download(gathered, own, rank.world),
        "broadcast": rank.download(broadcast, own),
        "bcast": rank.download(bcast, own),
        "gather": rank.download(rooted, own, rank.world) if rank.rank == 0 else None,
        "scatter": rank.download(part, own),
        "all_to_all": rank.download(turned, own, rank.world),
        "ring": rank.download(ring, own),
        "all_to_all_v": rank.download(pieces, to_all)[: own_size * rank.world],
    }
    return found


def every_call(rank: Rank) -> dict[str, Any]:
    """Every call on numbers of every type."""
    rank.join()
    found = {name: _results(rank, code, dtype) for name, (code, dtype) in TYPES.items()}
    rank.call("CommDestroy", rank.comm)
    return found


def first_goes(rank: Rank) -> list[Any]:
    """The first rank has all that it wants while the others still have something for each other."""
    rank.join()
    if rank.rank == 0:
        return []
    time.sleep(0.5)
    own, other = np.array([rank.rank], dtype=np.int32), c_int(3 - rank.rank)
    sent, received = rank.upload(own), rank.empty(own)
    for function, memory in [("Send", sent), ("Recv", received)][:: 1 if rank.rank == 1 else -1]:
        rank.call(function, memory, c_size_t(1), c_int(2), other, rank.comm, rank.stream)
    rank.synchronize()
    return rank.download(received, own)


def sums(rank: Rank) -> list[str]:
    """Sums of random f32, as hexadecimal bytes, and what other ranks' streams do meanwhile."""
    rank.join()
    found = []
    for seed in range(8):
        own = np.random.default_rng([seed, rank.rank]).standard_normal(64).astype(np.float32)
        received = rank.empty(own)
        rank.call("AllReduce", rank.upload(own), received, c_size_t(64), c_int(7), c_int(0), rank.comm, rank.stream)
        rank.synchronize()
        found.append(rank.device.download(Buffer(received.value or 0, own.nbytes)).hex())
    return found


def scaled(rank: Rank) -> dict[str, Any]:
    """Sums of what each rank multiplies by its number and by one on the device."""
    rank.join()
    own = np.arange(4, dtype=np.int32) + rank.rank
    found: dict[str, Any] = {}
    for residence in ("host", "device"):
        factor = np.array([rank.rank + 2], dtype=np.int32)
        where = factor.ctypes.data_as(c_void_p) if residence == "host" else rank.upload(factor)
        op, received = c_int(), rank.empty(own)
        immediate = c_int(1 if residence == "host" else 0)
        rank.call("RedOpCreatePreMulSum", byref(op), where, c_int(2), immediate, rank.comm)
        rank.call("AllReduce", rank.upload(own), received, c_size_t(4), c_int(2), op, rank.comm, rank.stream)
        rank.synchronize()
        found[residence] = rank.download(received, own)
        rank.call("RedOpDestroy", op, rank.comm)
    found["destroyed"] = rank.status(
        "AllReduce", rank.upload(own), rank.empty(own), c_size_t(4), c_int(2), op, rank.comm, rank.stream
    )
    return found


def parted(rank: Rank) -> dict[str, Any]:
    """Halves of the communicator, in reverse order, and the last rank in none of them."""
    rank.join()
    color = -1 if rank.rank == rank.world - 1 else rank.rank % 2
    part, count, number = c_void_p(), c_int(), c_int()
    rank.call("CommSplit", rank.comm, c_int(color), c_int(-rank.rank), byref(part), None)
    if not part.value:
        return {"part": None}
    rank.call("CommCount", part, byref(count))
    rank.call("CommUserRank", part, byref(number))
    own, received = np.array([rank.rank], dtype=np.int32), rank.empty(np.zeros(count.value, np.int32))
    rank.call("AllGather", rank.upload(own), received, c_size_t(1), c_int(2), part, rank.stream)
    rank.synchronize()
    found = rank.download(received, np.zeros(count.value, np.int32))
    rank.call("CommDestroy", part)
    rank.call("CommDestroy", rank.comm)
    return {"part": color, "rank": number.value, "ranks": found}


def captured(rank: Rank) -> list[Any]:
    """A graph with a sum in it, launched three times."""
    rank.join()
    own = np.array([rank.rank + 1], dtype=np.int32)
    memory, graph, executable = rank.upload(own), c_void_p(), c_void_p()
    rank.synchronize()
    rank.device.call("hipStreamBeginCapture", rank.stream, c_int(1))
    rank.call("AllReduce", memory, memory, c_size_t(1), c_int(2), c_int(0), rank.comm, rank.stream)
    rank.device.call("hipStreamEndCapture", rank.stream, byref(graph))
    rank.device.call("hipGraphInstantiate", byref(executable), graph, None, None, c_size_t(0))
    found = rank.download(memory, own)
    for _ in range(3):
        rank.device.call("hipGraphLaunch", executable, rank.stream)
        rank.synchronize()
        found += rank.download(memory, own)
    return found


def two_streams(rank: Rank) -> list[Any]:
    """Calls of one communicator on two streams in turns: they are done in the order of the calls on all ranks."""
    rank.join()
    streams = [rank.stream, c_void_p()]
    rank.device.call("hipStreamCreateWithFlags", byref(streams[1]), c_int(1))
    memory = [rank.upload(np.array([rank.rank * 10 + each], dtype=np.int32)) for each in range(6)]
    for each, buffer in enumerate(memory):
        rank.call("AllReduce", buffer, buffer, c_size_t(1), c_int(2), c_int(0), rank.comm, streams[each % 2])
    for stream in streams:
        rank.device.call("hipStreamSynchronize", stream)
    return [rank.download(buffer, np.zeros(1, np.int32))[0] for buffer in memory]


def without_waiting(rank: Rank) -> dict[str, Any]:
    """Joins without being held up; calls before it has joined are refused."""
    config = Config(size=72, blocking=0)
    first = rank.status(
        "CommInitRankConfig", byref(rank.comm), c_int(rank.world), rank.id(), c_int(rank.rank), byref(config)
    )
    state = c_int(IN_PROGRESS)
    while state.value == IN_PROGRESS:
        rank.call("CommGetAsyncError", rank.comm, byref(state))
    own = np.array([1], dtype=np.int32)
    received = rank.empty(own)
    rank.call("AllReduce", rank.upload(own), received, c_size_t(1), c_int(2), c_int(0), rank.comm, rank.stream)
    rank.synchronize()
    return {"first": first, "then": state.value, "sum": rank.download(received, own)}


def _fails(rank: Rank) -> dict[str, Any]:
    """What a rank learns of a failure: the results, the text, and what it would have received."""
    own = np.array([1.0], dtype=np.float32)
    received = rank.empty(own)
    call = ("AllReduce", rank.upload(own), received, c_size_t(1), c_int(7), c_int(0), rank.comm, rank.stream)
    first = rank.status(*call)
    rank.synchronize()
    state = c_int()
    rank.call("CommGetAsyncError", rank.comm, byref(state))
    again, problem = rank.status(*call), rank.problem()
    value = rank.download(received, own)[0]
    rank.call("CommAbort", rank.comm)
    return {"first": first, "async": state.value, "again": again, "problem": problem, "received": str(value)}


def one_dies(rank: Rank) -> dict[str, Any]:
    """The last rank ends before the call."""
    rank.join()
    if rank.rank == rank.world - 1:
        os._exit(0)
    return _fails(rank)


def one_aborts(rank: Rank) -> dict[str, Any]:
    """The last rank aborts before the call."""
    rank.join()
    if rank.rank == rank.world - 1:
        rank.call("CommAbort", rank.comm)
        return {}
    return _fails(rank)


def one_is_late(rank: Rank) -> dict[str, Any]:
    """The last rank does not come to the call."""
    rank.join()
    if rank.rank == rank.world - 1:
        time.sleep(3)
        return {}
    return _fails(rank)


def another_count(rank: Rank) -> dict[str, Any]:
    """The last rank calls with another count."""
    rank.join()
    if rank.rank == rank.world - 1:
        own = np.zeros(2, np.float32)
        memory = rank.upload(own)
        rank.call("AllReduce", memory, memory, c_size_t(2), c_int(7), c_int(0), rank.comm, rank.stream)
    return _fails(rank)


def aborted_while_it_hangs(rank: Rank) -> dict[str, Any]:
    """The last rank ends; the others wait without end, and another thread aborts."""
    rank.join()
    if rank.rank == rank.world - 1:
        os._exit(0)
    own = np.array([1.0], dtype=np.float32)
    memory = rank.upload(own)
    rank.call("AllReduce", memory, memory, c_size_t(1), c_int(7), c_int(0), rank.comm, rank.stream)
    began = time.monotonic()
    aborting = threading.Timer(1.0, lambda: rank.status("CommAbort", rank.comm))
    aborting.start()
    rank.synchronize()
    aborting.join()
    return {"seconds": time.monotonic() - began}


def joining(rank: Rank) -> dict[str, Any]:
    """Only comes together, or not."""
    result = rank.status("CommInitRank", byref(rank.comm), c_int(rank.world), rank.id(), c_int(rank.rank))
    return {"result": result, "report": rank.device.report().strip()}


def same_device(rank: Rank) -> dict[str, Any]:
    """All ranks on the first device of their machine."""
    rank.device.call("hipSetDevice", c_int(0))
    result = int(rank.rccl.ncclCommInitRank(byref(rank.comm), c_int(rank.world), rank.id(), c_int(rank.rank)))
    return {"result": result, "report": rank.device.report().strip()}


def _ranks(scenario: str, ranks: Sequence[int], world: int, folder: Path) -> dict[int, Any]:
    """Runs ranks as threads of this process."""
    found: dict[int, Any] = {}
    libraries = find_libraries()

    def run(number: int) -> None:
        try:
            found[number] = globals()[scenario](Rank(number, world, folder, libraries))
        except Exception as error:
            found[number] = {"error": f"{type(error).__name__}: {error}"}

    threads = [threading.Thread(target=run, args=(number,)) for number in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def rank_outputs(
    scenario: str,
    folder: Path,
    world: int,
    *,
    processes: Sequence[Sequence[int]],
    environ: Mapping[str, str] | None = None,
    within: Sequence[Sequence[str]] = (),
) -> dict[int, Any]:
    """What each rank returns, where `processes` lists the ranks of each process. A process that ends early has none.

    `within` has a command for each process that runs the rest of its command line, such as `ip netns exec`.
    """
    cards = ",".join(("gfx1100", "gfx90a", "gfx942")[index % 3] for index in range(world))
    settings = {"CANDLE_ROCM_EMULATOR_DEVICES": cards, "CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT": "20"}
    environment = os.environ | settings | dict(environ or {})
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    program = [sys.executable, "-m", "emulator.ranks", scenario]
    running = [
        subprocess.Popen(
            [*before, *program, ",".join(map(str, ranks)), str(world), str(folder)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for ranks, before in zip_longest(processes, within, fillvalue=())
    ]
    found: dict[int, Any] = {}
    try:
        for process in running:
            output, _ = process.communicate(timeout=LIMIT)
            found |= {int(rank): result for rank, result in json.loads(output or "{}").items()}
    finally:
        for process in running:
            process.kill()
    return found


def main() -> None:
    """Runs the ranks that the command line names, and prints what they return."""
    scenario, ranks, world, folder = sys.argv[1:]
    found = _ranks(scenario, [int(rank) for rank in ranks.split(",")], int(world), Path(folder))
    print(json.dumps(found), flush=True)
    # As a C program ends: threads that wait without end would keep Python.
    ctypes.CDLL(None).exit(0)


if __name__ == "__main__":
    main()
