"""Kernels as AMD's compiler makes them, executed by amdgpu/: neither AMD's runtime nor a GPU takes part."""

from __future__ import annotations

import ctypes
import re
import struct
import subprocess
from ctypes import Structure, byref, c_char_p, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from rocm_toolchain import real_toolchain

from codegen.device.hip import Buffer, HipError
from codegen.device.kernels import Kernels
from codegen.kernels.code_object import read_arguments
from codegen.kernels.compile import compile_kernels
from codegen.kernels.render import Source, Sources
from codegen.paths import repository_root
from codegen.rocm.disassembler import find_disassembler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.device.hip import Launch
    from codegen.kernels.code_object import KernelArgument

LANES = {"gfx1100": 32, "gfx1151": 32, "gfx1201": 32, "gfx90a": 64, "gfx942": 64}
"""Of a wave, on the cards whose instructions are executed."""
MULTIPROCESSORS = 48
PATIENCE = 50_000_000
"""Instructions that a wave may execute from one barrier to the next."""
FAILED = 719
"""hipErrorLaunchFailure"""


class Region(Structure):
    """Memory that a kernel may use."""

    _fields_ = (("address", c_uint64), ("size", c_uint64))


@cache
def library() -> ctypes.CDLL:
    """What executes machine code. Skips the test if it is not built."""
    path = repository_root() / "build/amdgpu/release/libamdgpu.so"
    if not path.exists():
        pytest.skip("what executes machine code is not built (make amdgpu)")
    found = ctypes.CDLL(str(path))
    found.amdgpu_problem.restype = c_char_p
    found.amdgpu_instructions.restype = c_char_p
    found.amdgpu_hazards.restype = c_char_p
    found.amdgpu_load.restype = c_void_p
    found.amdgpu_launch.restype = c_int64
    found.amdgpu_execute.restype = c_int64
    return found


class Card:
    """A card with memory of this process, in place of a `Device`."""

    target = "machine code"

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.wave_size = LANES[architecture]
        self.multiprocessors = MULTIPROCESSORS
        self.patience = PATIENCE
        self.executed = 0
        """Instructions so far, each once for a wave."""
        self._reached: dict[str, list[int]] = {}
        self._memory: dict[int, tuple[Any, int]] = {}

    def allocate(self, size: int) -> Buffer:
        """Fresh memory of `size` bytes, at least one; all bits are 1."""
        memory = ctypes.create_string_buffer(b"\xff" * (size + 256), size + 256)
        address = -(-ctypes.addressof(memory) // 256) * 256
        self._memory[address] = memory, max(size, 1)
        return Buffer(address, size)

    def upload(self, data: bytes) -> Buffer:
        """Fresh memory with these bytes."""
        buffer = self.allocate(len(data))
        ctypes.memmove(buffer.address, data, len(data))
        return buffer

    def zeros(self, size: int) -> Buffer:
        """Fresh memory of `size` bytes, all of them 0."""
        return self.upload(bytes(size))

    def free(self, buffer: Buffer) -> None:
        """Gives memory back."""
        del self._memory[buffer.address]

    def download(self, buffer: Buffer) -> bytes:
        """The memory's bytes."""
        return ctypes.string_at(buffer.address, buffer.size)

    def synchronize(self) -> None:
        """Each launch has ended when it returns."""

    @property
    def reached(self) -> dict[str, list[int]]:
        """Of code objects given back, how many instructions of each name were executed, and how many there are."""
        return {name: list(numbers) for name, numbers in self._reached.items()}

    def note(self, reached: dict[str, list[int]]) -> None:
        """Adds what has been executed of a code object that is given back."""
        add_up(self._reached, reached)

    def regions(self) -> Any:
        """All of its memory, in the order of the addresses."""
        return (Region * len(self._memory))(*(Region(at, size) for at, (_, size) in sorted(self._memory.items())))


class MachineCode:
    """A code object of a card, in place of a `Module`; `sources` are what it was compiled of."""

    def __init__(self, card: Card, path: Path, sources: Sources | None = None) -> None:
        self._card = card
        self._path = path
        self._sources = sources
        self._arguments = read_arguments(path)
        code = path.read_bytes()
        self._code = c_void_p(library().amdgpu_load(card.architecture.encode(), code, c_size_t(len(code))))
        assert self._code.value, library().amdgpu_problem()

    def launch(self, launch: Launch) -> None:
        """Runs a kernel. Raises HipError if it fails."""
        packed = packed_arguments(self._arguments[launch.symbol], launch)
        sizes = (c_uint * 6)(*launch.grid, *launch.block)
        regions = self._card.regions()
        executed = library().amdgpu_launch(
            self._code,
            launch.symbol.encode(),
            sizes,
            c_size_t(launch.lds),
            packed,
            c_size_t(len(packed)),
            byref(regions),
            c_size_t(len(regions)),
            c_uint64(self._card.patience),
        )
        if executed < 0:
            raise HipError("hipModuleLaunchKernel", FAILED, self._with_line(library().amdgpu_problem().decode()))
        self._card.executed += executed

    def _with_line(self, problem: str) -> str:
        """A problem, with the line of the source behind the instruction's address where that is known."""
        address = re.search(r"at (0x[0-9a-f]+): ", problem)
        if address is None or self._sources is None:
            return problem
        line = source_line(self._sources, self._card.architecture, self._path, int(address[1], 16))
        return f"{problem[: address.end() - 2]} ({line}){problem[address.end() - 2 :]}" if line else problem

    def instructions(self) -> list[tuple[str, int, bool]]:
        """Name and bytes of each, one after another, and whether it has been executed."""
        lines = (line.split() for line in library().amdgpu_instructions(self._code).decode().splitlines())
        return [(name, int(size), reached == "1") for reached, size, name in lines]

    def reached(self) -> dict[str, list[int]]:
        """How many instructions of each name have been executed, and how many there are."""
        found: dict[str, list[int]] = {}
        for name, _, reached in self.instructions():
            add_up(found, {name: [int(reached), 1]})
        return found

    def unload(self) -> None:
        """Gives the code back."""
        self._card.note(self.reached())
        library().amdgpu_unload(self._code)


class Hazards(NamedTuple):
    """What stands too near in a code object, whether or not it is executed."""

    faults: list[str]
    """Addresses of instructions that come too early, and what about them."""
    waits: dict[int, bool]
    """Of S_NOPs, in bytes from the first instruction, whether something would come too early if they were shorter."""
    instructions: dict[int, str]
    """Names, by bytes from the first instruction."""


def hazards(code: bytes, architecture: str) -> Hazards:
    """What a code object of an architecture has that comes too early."""
    loaded = c_void_p(library().amdgpu_load(architecture.encode(), code, c_size_t(len(code))))
    assert loaded.value, library().amdgpu_problem()
    lines = library().amdgpu_hazards(loaded).decode().splitlines()
    sizes = [line.split() for line in library().amdgpu_instructions(loaded).decode().splitlines()]
    library().amdgpu_unload(loaded)
    places = accumulate((int(size) for _, size, _ in sizes), initial=0)
    names = {place: name for place, (_, _, name) in zip(places, sizes, strict=False)}
    first = text_address(code)
    waits = {int(parts[1], 16) - first: parts[2] == "1" for parts in map(str.split, lines) if parts[0] == "nop"}
    return Hazards([line for line in lines if not line.startswith("nop")], waits, names)


def source_line(sources: Sources, architecture: str, code: Path, address: int) -> str | None:
    """Which line of a kernel's source an instruction was made of, as FILE:LINE; None where the compiler does not say.

    What is executed has no table of lines, as what users run has none. So it is compiled once more with one, and has to
    come out the same.
    """
    toolchain = real_toolchain()
    with TemporaryDirectory() as folder:
        options = ("-gline-tables-only",)
        (told,) = compile_kernels(sources, [architecture], toolchain, Path(folder), options=options)
        if text_of(told.path.read_bytes()) != text_of(code.read_bytes()):
            return None
        span = (f"--start-address={address}", f"--stop-address={address + 4}")
        command = [str(find_disassembler(toolchain)), "--disassemble", "--line-numbers", *span, str(told.path)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^; (\S+:\d+)$", shown, re.MULTILINE)
    return lines[-1] if lines else None


def text_place(code: bytes) -> tuple[int, int]:
    """Where the instructions begin in the file of a code object, and end."""
    place, _, size = _text(code)
    return place, place + size


def text_address(code: bytes) -> int:
    """The address of the first instruction of a code object."""
    return _text(code)[1]


def _text(code: bytes) -> tuple[int, int, int]:
    """Place in the file, address and bytes of the instructions."""
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    for index in range(count):
        header = struct.unpack_from("<IIQQQQ", code, start + 64 * index)
        if header[1] == 1 and header[2] & 4:  # of the program, to be executed
            return header[4], header[3], header[5]
    raise AssertionError("no instructions")


def text_of(code: bytes) -> bytes:
    """The instructions of a code object."""
    first, end = text_place(code)
    return code[first:end]


def packed_arguments(declared: tuple[KernelArgument, ...], launch: Launch) -> bytes:
    """A kernel's arguments as it finds them in memory, with those that the compiler has added."""
    packed = bytearray(max((each.offset + each.size for each in declared), default=0))
    given = iter(launch.arguments)
    for each in declared:
        value = _hidden(each.kind, launch) if each.kind.startswith("hidden_") else next(given)
        # As HIP does, which reads as many bytes as the kernel has.
        value = value[: each.size]
        packed[each.offset : each.offset + len(value)] = value
    assert next(given, None) is None, "more arguments than the kernel has"
    return bytes(packed)


def _hidden(kind: str, launch: Launch) -> bytes:
    name, _, axis = kind.removeprefix("hidden_").rpartition("_")
    values = {"block_count": launch.grid, "group_size": launch.block}
    if axis not in "xyz" or name not in values:
        return b""
    return int(values[name]["xyz".index(axis)]).to_bytes(4 if name == "block_count" else 2, "little")


class CompiledKernels(Kernels):
    """Every family's kernels, compiled by AMD's compiler for a card."""

    def __init__(self, architecture: str, instead: Sources | None = None) -> None:
        super().__init__(Card(architecture), instead)  # type: ignore[arg-type]  # what it is asked for, it has

    def _compiled(self, sources: Sources, name: str, text: str) -> MachineCode:  # type: ignore[override]
        alone = Sources(sources.headers, (Source(name, text, None, ()),))
        (code,) = compile_kernels(alone, [self.device.architecture], real_toolchain())
        return MachineCode(self.device, code.path, alone)  # type: ignore[arg-type]

    def executed(self) -> dict[str, Any]:
        """What has been executed: instructions, each once for a wave, and of each name how many there are."""
        card: Card = self.device  # type: ignore[assignment]
        reached = card.reached
        for module in self._modules.values():
            add_up(reached, module.reached())  # type: ignore[attr-defined]
        return {"card": card.architecture, "executed": card.executed, "reached": reached}


def add_up(to: dict[str, list[int]], more: dict[str, list[int]]) -> None:
    """Adds the numbers of each name to those that are there."""
    for name, numbers in more.items():
        to[name] = [a + b for a, b in zip(to.get(name, [0, 0]), numbers, strict=True)]


def summary(parts: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Lines that say what several processes have executed together."""
    cards: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        cards.setdefault(part["card"], []).append(part)
    for card, of_card in cards.items():
        reached: dict[str, list[int]] = {}
        for part in of_card:
            add_up(reached, part["reached"])
        seen = [name for name, (some, _) in reached.items() if some]
        yield f"machine code of {card}: {sum(part['executed'] for part in of_card):,} instructions executed,"
        some, every = (sum(numbers) for numbers in zip((0, 0), *reached.values(), strict=True))
        opcodes = f"{len(seen)} of the code objects' {len(reached)} opcodes reached"
        yield f"{opcodes}, {some:,} of their {every:,} instructions"
        if left := sorted(set(reached) - set(seen)):
            yield f"not reached: {', '.join(left)}"
