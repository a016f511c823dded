"""A wave that executes instructions by themselves, by their names."""

from __future__ import annotations

from ctypes import Structure, byref, c_size_t, c_uint32, c_uint64
from typing import TYPE_CHECKING

import numpy as np
from kernels.machine_code import LANES, Region, library

from codegen.amdgpu.instruction_set import Kind, load
from rocm.pseudocode import stem

if TYPE_CHECKING:
    from collections.abc import Sequence

CARDS = {"rdna3": "gfx1100", "rdna4": "gfx1201", "cdna2": "gfx90a", "cdna3": "gfx942"}
END = {"rdna3": 0xBFB00000, "rdna4": 0xBFB00000, "cdna2": 0xBF810000, "cdna3": 0xBF810000}
"""S_ENDPGM."""
VECTORS = 64
"""Vector registers that can be set and looked at."""


class Registers(Structure):
    """Of a wave, before and after."""

    _fields_ = (
        ("exec", c_uint64),
        ("vcc", c_uint64),
        ("scc", c_uint32),
        ("lanes", c_uint32),
        ("scalars", c_uint32 * 106),
        ("vectors", c_uint32 * 64 * VECTORS),
    )


def problem() -> str:
    """Why the last call of `execute` failed."""
    return str(library().amdgpu_problem().decode())


def execute(
    name: str,
    words: Sequence[int],
    registers: Registers,
    memory: Sequence[np.ndarray[tuple[int], np.dtype[np.uint8]]] = (),
) -> int:
    """Executes words of an instruction set; how many instructions that were, or -1 and `problem`."""
    regions = [Region(*each) for each in sorted((each.ctypes.data, each.nbytes) for each in memory)]
    made = library().amdgpu_execute(
        CARDS[name].encode(),
        (c_uint32 * len(words))(*words),
        c_size_t(len(words)),
        byref(registers),
        (Region * max(len(regions), 1))(*regions),
        c_size_t(len(regions)),
    )
    return int(made)


class Wave:
    """Registers of a wave, as arrays, and memory that it may use."""

    def __init__(self, name: str, seed: int = 1) -> None:
        self.name, self.lanes = name, LANES[CARDS[name]]
        self.rng = np.random.default_rng(seed)
        self.vectors = self.rng.integers(1 << 32, size=(VECTORS, 64), dtype=np.uint32)
        self.scalars = self.rng.integers(1 << 32, size=106, dtype=np.uint32)
        self.exec = (1 << self.lanes) - 1
        self.memory: list[np.ndarray[tuple[int], np.dtype[np.uint8]]] = []

    def words(self, opcode: str, *, behind: int | None = None, **fields: int) -> list[int]:
        """An instruction by its name without that of its encoding, the shortest; fields are numbers."""
        forms = sorted(load(self.name).formats, key=lambda form: form.bits)
        found, number = next(
            (form, each.number) for form in forms for each in form.opcodes if stem(each.name) == opcode
        )
        bits = found.value
        for field in found.fields:
            bits |= (number if field.kind is Kind.OPCODE else fields.pop(field.name, 0)) << field.low
        assert not fields, "no such fields"
        return [bits >> place & 0xFFFFFFFF for place in range(0, found.bits, 32)] + ([] if behind is None else [behind])

    def run(self, opcode: str, *, behind: int | None = None, **fields: int) -> None:
        """Executes one."""
        self.execute(self.words(opcode, behind=behind, **fields))

    def execute(self, *instructions: list[int]) -> None:
        """Executes several. AssertionError says why that fails."""
        registers = Registers(exec=self.exec, lanes=self.lanes)
        registers.scalars[:] = self.scalars.tolist()
        for register, row in enumerate(self.vectors.tolist()):
            registers.vectors[register][:] = row
        words = [word for each in instructions for word in each]
        made = execute(self.name, [*words, END[self.name]], registers, self.memory)
        assert made > 0, problem()
        self.scalars = np.array(registers.scalars, np.uint32)
        self.vectors = np.array(registers.vectors, np.uint32)
