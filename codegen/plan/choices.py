"""Variants of Candle's enums that choose what is computed, held against what the kernels' specs answer.

`ReduceOp::ArgMax` is the operation `argmax` of the family `reduce`: a match in rocm_backend/ops says so. A unary or
binary operation is found by the `NAME` of Candle's implementation when the program runs, so that a renamed one would
compile, and fail on ROCm alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from codegen.errors import Problem
from codegen.kernels.blocks import FILE as BLOCKS
from codegen.kernels.blocks import load_blocks
from codegen.kernels.dtypes import DTYPES
from codegen.kernels.loader import load_family
from codegen.render.element_types import DTYPE
from codegen.spec.kinds import SiteKind
from codegen.syntax.enum_sites import enum_site, named_operations, variant_sites
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.candle.tree import CandleTree
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import Choice
    from codegen.syntax.site import Site

REMEDY = "correct the entry under `choices` in specs/candle.yaml"


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A variant, or a name, that no kernel of ours answers."""

    site: Site
    reason: str
    may_stay: bool
    """Whether ROCm can do without: it answers with an error. Else the backend would not compile."""


def unanswered(
    choice: Choice, tree: CandleTree, parsed: Mapping[str, Source]
) -> tuple[Source, tuple[Unanswered, ...]] | None:
    """The enum's file and what is not answered in it; None where the tree has no such file.

    `parsed` has files of the tree that need not be parsed again.
    """
    if not tree.exists(choice.file):
        return None
    source = _source(choice, tree, parsed)
    if choice.plain:
        return source, tuple(_formats(source, choice))
    if choice.family is None:
        found = tuple(_element_types(source, choice, tree))
        return (parsed_once(choice.file, tree.read(choice.file)) if found else source), found
    if choice.named_by is None:
        return source, tuple(_matched(source, choice, choice.family))
    return source, tuple(_named(source, choice, choice.family, choice.named_by))


def _source(choice: Choice, tree: CandleTree, parsed: Mapping[str, Source]) -> Source:
    known = parsed.get(choice.file)
    text = tree.read(choice.file)
    return known if known is not None else parsed_once(choice.file, text[: _end_of(choice, text)])


def _end_of(choice: Choice, text: bytes) -> int:
    """Where to stop parsing: behind the enum if nothing else is asked for, as Candle's cpu_backend/mod.rs is long."""
    name = re.escape(choice.enum.encode())
    declared = re.search(rb"(?ms)^(?:pub )?enum %s\b.*?^\}" % name, text) if choice.family is None else None
    return declared.end() if declared is not None and not choice.plain else len(text)


@lru_cache(maxsize=8)
def parsed_once(path: str, text: bytes) -> Source:
    """A parsed file, the same for all that ask about its enums: Candle's op.rs has four."""
    return Source.parse(path, text)


def missing_choices(tree: CandleTree, specs: LoadedSpecs, parsed: Mapping[str, Source]) -> tuple[Problem, ...]:
    """The enums under `choices` that are not where the specs say, in the crates that the tree has."""
    crates = {crate.path for crate in tree.crates}
    return tuple(
        Problem(f"Candle {tree.release} has no `enum {choice.enum}` in {choice.file} (renamed, or moved?)")
        for choice in specs.candle.choices
        if choice.file.split("/", 1)[0] in crates and not _is_there(choice, tree, parsed)
    )


def _is_there(choice: Choice, tree: CandleTree, parsed: Mapping[str, Source]) -> bool:
    return tree.exists(choice.file) and bool(
        enum_site(_source(choice, tree, parsed), choice.enum, kind=SiteKind.OPERATION)
    )


def _operations(family: str) -> tuple[str, ...]:
    return tuple(op.name for op in load_family(family).family.ops)


def _spelled(operation: str) -> str:
    """An operation as a variant spells it, but for the capitals: `geluerf` for `gelu_erf`."""
    return operation.replace("_", "")


def _matched(source: Source, choice: Choice, family: str) -> Iterator[Unanswered]:
    sites = variant_sites(source, choice.enum, kind=SiteKind.OPERATION)
    known = {_spelled(name): name for name in _operations(family)}
    named = {site.name.lower() for site in sites}
    gone = [name for spelled, name in known.items() if spelled not in named]
    new = [site for site in sites if site.name.lower() not in known]
    renamed = f"; no variant is {' or '.join(gone)} any more, was it renamed?" if gone else ""
    for site in new:
        reason = f"no operation of specs/kernels/{family}.yaml answers {choice.enum}::{site.name}{renamed}"
        yield Unanswered(site, reason, may_stay=False)
    whole = enum_site(source, choice.enum, kind=SiteKind.OPERATION)
    if gone and not new and whole is not None:
        reason = f"{choice.enum} has no variant for {', '.join(gone)} of specs/kernels/{family}.yaml any more"
        yield Unanswered(whole, reason, may_stay=False)


def _named(source: Source, choice: Choice, family: str, trait: str) -> Iterator[Unanswered]:
    known = _operations(family)
    operations = named_operations(source, trait, kind=SiteKind.OPERATION)
    for operation in operations:
        if operation.name not in known:
            called = f"{operation.name}, as {choice.enum}::{operation.variant} is"
            reason = f"no operation of specs/kernels/{family}.yaml is called {called}"
            yield Unanswered(operation.site, reason, may_stay=True)
    implemented = {operation.variant for operation in operations}
    for site in variant_sites(source, choice.enum, kind=SiteKind.OPERATION):
        if site.name not in implemented:
            reason = f"{choice.enum}::{site.name} has no implementation of {trait} here whose NAME can be read"
            yield Unanswered(site, reason, may_stay=True)


def _formats(source: Source, choice: Choice) -> Iterator[Unanswered]:
    """What has no kernels can be stored and loaded; the backend names all formats that have some."""
    sites = variant_sites(source, choice.enum, kind=SiteKind.OPERATION)
    known = {block.name for block in load_blocks()}
    for site in sites:
        if site.name.lower() not in known and site.name not in choice.plain:
            yield Unanswered(site, f"specs/{BLOCKS} has no format {choice.enum}::{site.name}", may_stay=True)
    gone = sorted(known - {site.name.lower() for site in sites})
    whole = enum_site(source, choice.enum, kind=SiteKind.OPERATION)
    if gone and whole is not None:
        reason = f"{choice.enum} has no variant for {', '.join(gone)} of specs/{BLOCKS} any more"
        yield Unanswered(whole, reason, may_stay=False)


def _element_types(source: Source, choice: Choice, tree: CandleTree) -> Iterator[Unanswered]:
    if not tree.exists(DTYPE):
        return
    dtypes = variant_sites(parsed_once(DTYPE, tree.read(DTYPE)), "DType", kind=SiteKind.OPERATION)
    known = {site.name for site in dtypes}
    sites = variant_sites(source, choice.enum, kind=SiteKind.OPERATION)
    for site in sites:
        if site.name not in known:
            yield Unanswered(site, f"{choice.enum}::{site.name} is no element type of `DType`", may_stay=False)
    computed = {dtype.name for dtype in DTYPES}
    missing = sorted(name for name in known - {site.name for site in sites} if name.lower() in computed)
    whole = enum_site(source, choice.enum, kind=SiteKind.OPERATION)
    if missing and whole is not None:
        reason = f"{choice.enum} has no variant {', '.join(missing)}, which `DType` has"
        yield Unanswered(whole, reason, may_stay=False)
