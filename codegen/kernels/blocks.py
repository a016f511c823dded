"""GGML's quantized block formats, which `specs/blocks.yaml` lists: what kernels, plans and references know of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from codegen.errors import SpecInvalid
from codegen.paths import specs_dir
from codegen.spec.document import read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from pathlib import Path

FILE = "blocks.yaml"
"""Below `specs/`."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")]
FieldName = Annotated[str, Field(pattern=r"^[a-z]+$")]
Packed = Literal["one", "affine", "bytes", "nibbles", "six_bits", "pairs"]

_FLOATS = {"f16": 2, "f32": 4}

_NEEDED: dict[str, dict[str, int | None]] = {
    "one": {"d": None},
    "affine": {"d": None, "m": None},
    "bytes": {"d": None, "scales": 1},
    "nibbles": {"d": None, "dmin": None, "scales": 1},
    "six_bits": {"d": None, "dmin": None, "scales": 12},
    "pairs": {"d": None, "scales": 12},
}
"""By the way that scales are packed: the fields they take, and their bytes; 1 is one byte a group, None a float."""


class Plane(Model):
    """Some bits of each element's quant."""

    field: FieldName
    bits: Literal[1, 2, 4, 8]
    run: Annotated[int, Field(ge=1)]
    """Elements so far apart share a byte, the first in its lowest bits."""

    @property
    def chunk(self) -> int:
        """Elements that `run` bytes hold."""
        return self.run * 8 // self.bits


class Scales(Model):
    """How the scale, and the offset, of a group of elements are packed."""

    packed: Packed
    group: Annotated[int, Field(ge=16)]
    """Elements that share them."""


class Block(Model):
    """A block format."""

    name: Name
    elements: Literal[32, 256]
    fields: dict[FieldName, Literal["f16", "f32"] | Annotated[int, Field(ge=1)]]
    """A float, or a number of bytes."""
    quants: Annotated[tuple[Plane, ...], Field(min_length=1)]
    bias: Annotated[int, Field(ge=0, le=128)] = 0
    scales: Scales
    at_once: Literal[1, 2] = 2
    """Rows of blocks that a wave multiplies at a time with one row of numbers, if the architecture has so many."""

    @property
    def bytes(self) -> int:
        """Of a block."""
        return sum(map(self.size, self.fields))

    @property
    def cpp(self) -> str:
        """Name of the C++ type."""
        return self.name.upper()

    @property
    def signed(self) -> bool:
        """Whether quants are signed bytes."""
        return self.quants[0].bits == 8

    @property
    def halves_share(self) -> bool:
        """Whether elements 16 apart have their lowest bits in the same byte."""
        return self.quants[0].run == 16

    @property
    def has_offset(self) -> bool:
        """Whether groups have an offset beside their scale."""
        return self.scales.packed in {"affine", "nibbles", "six_bits"}

    def size(self, field: str) -> int:
        """Bytes of a field."""
        declared = self.fields[field]
        return declared if isinstance(declared, int) else _FLOATS[declared]

    def offset(self, field: str) -> int:
        """Where a field begins, in bytes from the block's start."""
        names = list(self.fields)
        return sum(map(self.size, names[: names.index(field)]))

    def alignment(self, field: str) -> int:
        """The largest power of two, at most 16, of which the field's address is a multiple in any block."""
        return next(power for power in (16, 8, 4, 2, 1) if self.bytes % power == 0 and self.offset(field) % power == 0)

    @model_validator(mode="after")
    def _consistent(self) -> Block:
        for plane in self.quants:
            wanted = self.elements * plane.bits // 8
            if self.fields.get(plane.field) != wanted:
                raise ValueError(
                    f"{self.name}: {plane.bits} bits of each element are {wanted} bytes of '{plane.field}'"
                )
            if plane.chunk > self.elements or (plane.run % 4 and (plane.run, plane.bits) != (1, 1)):
                raise ValueError(f"{self.name}: no kernel reads {plane.bits} bits with a run of {plane.run}")
        if sum(plane.bits for plane in self.quants) > 8:
            raise ValueError(f"{self.name}: a quant has at most 8 bits")
        for field, size in _NEEDED[self.scales.packed].items():
            have = self.fields.get(field)
            groups = self.elements // self.scales.group
            if (have not in _FLOATS) if size is None else have != (groups if size == 1 else size):
                raise ValueError(f"{self.name}: scales packed as {self.scales.packed} need another field '{field}'")
        return self


class _Blocks(Model):
    source: str
    """Where Candle defines them."""
    blocks: Annotated[tuple[Block, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> _Blocks:
        names = [block.name for block in self.blocks]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"block format {twice[0]} is listed twice")
        return self


def load_blocks(root: Path | None = None) -> tuple[Block, ...]:
    """The formats in `specs/blocks.yaml`, or of the specs below `root`. Raises SpecInvalid with all that is wrong."""
    return read_blocks(((root or specs_dir()) / FILE).read_bytes())


@cache  # YAML is slow to read, and one process may ask for the specs often
def read_blocks(content: bytes) -> tuple[Block, ...]:
    """The formats in a file of that content. Raises SpecInvalid."""
    document = read_document(f"specs/{FILE}", content)
    found, problems = validate(document, _Blocks)
    if found is None or document.problems:
        raise SpecInvalid([*document.problems, *problems], remedy="codegen/kernels/blocks.py explains the keys.")
    return found.blocks
