"""How a tree spells the variants of its backend enums, and what it means if it is a way that no spec has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem
from codegen.spec.kinds import BACKENDS
from codegen.syntax.constructs import name_of
from codegen.syntax.source import Source
from codegen.syntax.variants import variants_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codegen.candle.tree import CandleTree
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import BackendEnum, CandleSpec

REMEDY = (
    "if it was, add the new name to the list under `variants` in specs/candle.yaml, such as `Cuda: [Cuda, NewName]`"
)


@dataclass(frozen=True, slots=True)
class Declared:
    """A backend enum as a tree declares it."""

    enum: str
    location: Location
    variants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeSpellings:
    """What a tree calls the variants that it does not call as we do."""

    read_as: Mapping[str, str]
    """By the tree's name: ours."""
    written_as: Mapping[str, Mapping[str, str]]
    """By enum and our name: the tree's."""


def spellings(specs: CandleSpec) -> dict[str, str]:
    """Every other name that releases have for a variant, and ours."""
    return {name: ours for ours, names in specs.variants.items() for name in names if name != ours}


def tree_spellings(tree: CandleTree, specs: LoadedSpecs) -> TreeSpellings:
    """Those that the tree's own enums have. The enums are looked up only where the specs know other names at all."""
    known = spellings(specs.candle)
    if not known:
        return TreeSpellings({}, {})
    written = {}
    for enum in specs.candle.enums:
        for declared in _declared(tree, enum):
            own = {known[name]: name for name in declared.variants if name in known}
            if own:
                written[enum.name] = own
    used = {name for own in written.values() for name in own.values()}
    return TreeSpellings({name: ours for name, ours in known.items() if name in used}, written)


def renamed_variants(tree: CandleTree, specs: LoadedSpecs) -> Problem | None:
    """What a tree says that calls variants of backend enums as no spec does; None where all are known.

    An enum counts that lacks CUDA's variant, or another of Candle's, and has one that nobody knows instead.
    """
    known = {**{name: name for name in BACKENDS}, **spellings(specs.candle)}
    extra = {backend.name for backend in specs.tree.spec.backends} if specs.tree else set()
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Declared]] = {}
    for enum in specs.candle.enums:
        for declared in _declared(tree, enum):
            gone = tuple(name for name in BACKENDS if name not in map(known.get, declared.variants))
            new = tuple(name for name in declared.variants if name not in known and name not in extra)
            if new and gone:
                found.setdefault((gone, new), []).append(declared)
    if not found:
        return None
    first = next(iter(found.values()))
    told = [
        f"{_listed(f'{declared.enum}::{name}' for declared in each for name in names)} and no {_listed(missing)}"
        for (missing, names), each in found.items()
    ]
    return Problem(f"Candle {tree.release} has {'; '.join(told)}: was the variant renamed?", first[0].location)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _declared(tree: CandleTree, enum: BackendEnum) -> Iterator[Declared]:
    """The enum in the sources of its crate: one, or none."""
    pattern = re.compile(rb"\benum\s+" + re.escape(enum.name).encode() + rb"\b")
    for path in tree.rust_files():
        crate = tree.crate_of(path)
        if crate is None or crate.name != enum.crate or not pattern.search(text := tree.read(path)):
            continue
        source = Source.parse(path, text)
        variants = variants_of(source, enum.name)
        if variants:
            yield Declared(enum.name, source.location(variants[0].start_byte), tuple(map(name_of, variants)))
            return
