"""Which op has a kernel for which element type, beside what Candle's CPU backend has: the table in docs/kernels.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.kernels.dtypes import DTYPES, DType, Kind, expand, moved_as

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.kernels.loader import LoadedFamily
    from codegen.kernels.model import Op

DATA_ROLES = ("dtype", "value", "src")
"""Roles whose type is the tensor's, the first that an op has; other roles are types of indices and conditions."""


@dataclass(frozen=True, slots=True)
class Row:
    """One op."""

    family: str
    op: str
    also: tuple[str, ...]
    """More of Candle's ops that its kernels compute, or the one that they are a part of."""
    kernels: int
    """Number of symbols."""
    cells: tuple[str, ...]
    """For each of `DTYPES`: `yes`, `more` (the CPU backend lacks it), `hole`, or nothing (neither has it)."""
    others: tuple[str, ...]
    """Types of the op's other roles: `ids: u8, u32, i64`."""


def table(families: Iterable[LoadedFamily]) -> tuple[Row, ...]:
    """A row for every op, in the order of the specs."""
    return tuple(_row(loaded, op) for loaded in families for op in loaded.family.ops)


def covered(op: Op) -> frozenset[DType]:
    """The element types for which the op has kernels; a kernel that moves bits serves every type of its width."""
    made = expand(op.types[_data_role(op)])
    widths = {t for t in made if t.kind is Kind.BITS}
    return frozenset(t for t in DTYPES if t in made or moved_as(t) in widths)


def holes(op: Op) -> frozenset[DType]:
    """The element types for which Candle's CPU backend has the op and we do not."""
    return frozenset(expand(op.cpu)) - covered(op)


def _data_role(op: Op) -> str:
    return next((role for role in DATA_ROLES if role in op.types), next(iter(op.types)))


def _row(loaded: LoadedFamily, op: Op) -> Row:
    made, cpu = covered(op), expand(op.cpu)
    cells = tuple(("yes" if t in cpu else "more") if t in made else ("hole" if t in cpu else "") for t in DTYPES)
    data = _data_role(op)
    others = [f"{role}: {', '.join(t.name for t in expand(names))}" for role, names in op.types.items() if role != data]
    count = sum(kernel.op.name == op.name for kernel in loaded.kernels)
    also = (f"part of {op.part_of}",) if op.part_of else op.serves
    return Row(loaded.name, op.name, also, count, cells, tuple(others))
