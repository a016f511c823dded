"""The kernel specs as the backend's table of kernels: what the backend's kernels/table.rs is rendered from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from codegen.kernels.architectures import ARCHITECTURES
from codegen.kernels.blocks import Block, load_blocks
from codegen.kernels.dtypes import DTYPES, GROUPS, WIDEST, WIDTHS, DType, dtype, expand
from codegen.kernels.layout import MAX_RANK
from codegen.kernels.tuning import longest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codegen.kernels.loader import LoadedFamily
    from codegen.kernels.model import Family, Op

Key = TypeVar("Key", int, str)

RUST_KEYWORDS = frozenset({"as", "do", "fn", "for", "if", "in", "loop", "match", "move", "type", "where", "while"})

ELEMENTS = (*DTYPES, *WIDTHS, WIDEST)
"""The types of kernels in the order of the backend's `Element`."""


@dataclass(frozen=True, slots=True)
class TableOp:
    """An op's row: everything needed to number its kernels without a search."""

    name: str
    about: str
    first: int
    """Number of its first kernel within the family."""
    types: tuple[str, ...]
    """Rust expressions for the set of types of each role."""
    variants: tuple[int, ...]
    """Numbers of its variants within the family, ascending."""
    distinct: bool

    @property
    def constant(self) -> str:
        """Name of the Rust constant."""
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class TableVariant:
    """A way in which a family's ops are instantiated."""

    name: str
    about: str
    constants: Mapping[str, int]

    @property
    def constant(self) -> str:
        """Name of the Rust constant; the empty name is the plain form."""
        return f"FORM_{self.name.upper() or 'PLAIN'}"


@dataclass(frozen=True, slots=True)
class TableFamily:
    """A kernel source and the ops in it."""

    number: int
    name: str
    about: str
    launch: Mapping[str, int]
    tuned: Mapping[str, tuple[int, ...]]
    """Numbers that depend on the architecture: the usual one, then one for each of the table's tunings."""
    variants: tuple[TableVariant, ...]
    ops: tuple[TableOp, ...]
    kernels: int
    """How many numbers its kernels take."""

    @property
    def module(self) -> str:
        """Name of the Rust module."""
        return f"r#{self.name}" if self.name in RUST_KEYWORDS else self.name


@dataclass(frozen=True, slots=True)
class KernelTable:
    """All families, and the headers that their sources share."""

    families: tuple[TableFamily, ...]
    headers: tuple[str, ...]
    """File names below `candle_rocm/`."""
    tunings: tuple[str, ...]
    """How the names of architectures begin for which some family has numbers of their own, longest first."""
    max_rank: int = MAX_RANK

    @classmethod
    def of(cls, families: Iterable[LoadedFamily], headers: Iterable[str]) -> KernelTable:
        """The table of the families in their order."""
        specs = tuple(loaded.family for loaded in families)
        tunings = longest_first({prefix for family in specs for prefix in family.tuned})
        rows = tuple(_family(number, family, tunings) for number, family in enumerate(specs))
        return cls(rows, tuple(headers), tunings)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The formats of quantized blocks, which are the variants of the families that have them."""
        return load_blocks()

    @property
    def elements(self) -> tuple[DType, ...]:
        """The types of kernels."""
        return ELEMENTS

    @property
    def sizes(self) -> tuple[tuple[int, str], ...]:
        """Bytes of an element, and a Rust pattern of the types that have so many."""
        return _patterns(lambda element: element.size)

    @property
    def wide_sizes(self) -> tuple[tuple[int, str], ...]:
        """Bytes of the type that an element is computed in, likewise."""
        return _patterns(lambda element: dtype(element.wide).size)

    @property
    def bits(self) -> tuple[tuple[str, str], ...]:
        """The type by width with which an element is moved, likewise."""
        return _patterns(lambda element: next(width.name for width in (*WIDTHS, WIDEST) if width.size == element.size))

    @property
    def architectures(self) -> tuple[str, ...]:
        """What kernels can be built for ahead of time."""
        return tuple(each.name for each in ARCHITECTURES)

    @property
    def groups(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Sets of types with a name: the Rust constant, and the types' names."""
        return tuple((_rust(name), names) for name, names in GROUPS.items())


def _patterns(key: Callable[[DType], Key]) -> tuple[tuple[Key, str], ...]:
    found: dict[Key, list[str]] = {}
    for element in ELEMENTS:
        found.setdefault(key(element), []).append(f"Self::{element.name.upper()}")
    return tuple((value, " | ".join(names)) for value, names in found.items())


def _family(number: int, family: Family, tunings: tuple[str, ...]) -> TableFamily:
    names = [variant.name for variant in family.variants]
    ops, first = [], 0
    for op in family.ops:
        row = _op(op, first, names)
        first += _combinations(op) * len(row.variants)
        ops.append(row)
    variants = tuple(TableVariant(v.name, v.about, v.constants) for v in family.variants)
    tuned = {
        name: tuple(numbers[name] for numbers in (family.launch, *map(family.numbers, tunings)))
        for name in family.tuned_numbers()
    }
    usual = {name: number for name, number in family.launch.items() if name not in tuned}
    return TableFamily(number, family.family, family.about, usual, tuned, variants, tuple(ops), first)


def _op(op: Op, first: int, variants: list[str]) -> TableOp:
    numbers = tuple(number for number, name in enumerate(variants) if op.variants is None or name in op.variants)
    types = tuple(_type_set(names) for names in op.types.values())
    return TableOp(op.name, op.about, first, types, numbers, op.distinct)


def _combinations(op: Op) -> int:
    """Combinations of the types of all roles; those that `distinct` leaves out have a number all the same."""
    total = 1
    for names in op.types.values():
        total *= len(expand(names))
    return total


def _type_set(names: tuple[str, ...]) -> str:
    """A group's constant, or the set of the types by name."""
    wanted = {element.name for element in expand(names)}
    for group, members in GROUPS.items():
        if wanted == set(members):
            return _rust(group)
    listed = ", ".join(f"Element::{element.name.upper()}" for element in ELEMENTS if element.name in wanted)
    return f"TypeSet::of(&[{listed}])"


def _rust(group: str) -> str:
    return group.replace("-", "_").upper()
