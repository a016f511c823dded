"""Candle's element types, and the types by width that kernels use which only move bits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the bits of a type mean."""

    INTEGER = "integer"
    FLOAT = "float"
    BITS = "bits"


@dataclass(frozen=True, slots=True)
class DType:
    """An element type; `name` is Candle's `DType::as_str` and the kernels' type as well."""

    name: str
    size: int
    """Bytes."""
    kind: Kind

    @property
    def wide(self) -> str:
        """The type that values are computed and accumulated in."""
        return "f32" if self.kind is Kind.FLOAT and self.size < 4 else self.name

    @property
    def highest(self) -> str:
        """The largest number of an integer type, as C++ writes it."""
        signed = self.name.startswith("i")
        suffix = {4: "" if signed else "u", 8: "ll" if signed else "ull"}.get(self.size, "")
        return f"{(1 << (8 * self.size - signed)) - 1:#x}{suffix}"

    @property
    def lowest(self) -> str:
        """The smallest number of an integer type, likewise."""
        return f"-{self.highest} - 1" if self.name.startswith("i") else "0"

    def __str__(self) -> str:
        return self.name


DTYPES = (
    DType("u8", 1, Kind.INTEGER),
    DType("u32", 4, Kind.INTEGER),
    DType("i16", 2, Kind.INTEGER),
    DType("i32", 4, Kind.INTEGER),
    DType("i64", 8, Kind.INTEGER),
    DType("bf16", 2, Kind.FLOAT),
    DType("f16", 2, Kind.FLOAT),
    DType("f32", 4, Kind.FLOAT),
    DType("f64", 8, Kind.FLOAT),
    DType("f8e4m3", 1, Kind.FLOAT),
)
"""The element types that Candle computes with (candle-core/src/dtype.rs); its dummy types are storage only."""

WIDTHS = (DType("b8", 1, Kind.BITS), DType("b16", 2, Kind.BITS), DType("b32", 4, Kind.BITS), DType("b64", 8, Kind.BITS))
"""Elements of which only the bits count, by their number of bits: one kernel for all element types of a width."""

WIDEST = DType("b128", 16, Kind.BITS)
"""What a lane reads or writes at once at most: several elements that lie together (codegen/kernels/widths.py)."""

GROUPS = {
    "all": tuple(t.name for t in DTYPES),
    "integer": tuple(t.name for t in DTYPES if t.kind is Kind.INTEGER),
    "float": tuple(t.name for t in DTYPES if t.kind is Kind.FLOAT),
    "wide-float": ("bf16", "f16", "f32", "f64"),
    "index": ("u8", "u32", "i64"),
    "bits": tuple(t.name for t in WIDTHS),
    "packed-bits": tuple(t.name for t in (*WIDTHS, WIDEST)),
}
"""Names that stand for several types in a spec; `wide-float` is every float but f8e4m3; `packed-bits` is for
kernels whose host may take several elements as one."""

_BY_NAME = {t.name: t for t in (*DTYPES, *WIDTHS, WIDEST)}


def dtype(name: str) -> DType:
    """The type with this name. Raises KeyError."""
    return _BY_NAME[name]


def expand(names: tuple[str, ...]) -> tuple[DType, ...]:
    """The types that names of types and groups stand for, each once, in the order given.

    Raises ValueError for a name that is neither.
    """
    found: dict[str, DType] = {}
    for name in names:
        for member in GROUPS.get(name, (name,)):
            if member not in _BY_NAME:
                raise ValueError(f"'{name}' is neither an element type nor one of the groups {', '.join(GROUPS)}")
            found[member] = _BY_NAME[member]
    return tuple(found.values())


def moved_as(element: DType) -> DType:
    """The type by width as which kernels move elements of this type."""
    return next(width for width in WIDTHS if width.size == element.size)
