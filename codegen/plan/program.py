"""The backend sites of a program that uses Candle, and what stands beside CUDA's arms there.

No spec knows somebody else's program, so nothing is left alone and nothing is unknown: a site is mirrored by the verb
that its kind has in Candle itself, or a person has to look at it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.candle.toml_text import decode
from codegen.patch.attributed_text import edited
from codegen.patch.changes import Edit, FileChange, Origin
from codegen.plan.spellings import spellings
from codegen.spec.kinds import Gating
from codegen.syntax import verbs
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source, names_backend_at_all
from codegen.syntax.verbs import CannotMirror, Style, TextEdit

if TYPE_CHECKING:
    from codegen.candle.program import Program
    from codegen.spec.loaded import LoadedSpecs
    from codegen.syntax.site import Site

_ITEMS = frozenset({"enum", "fn", "fwd", "if-let"})
"""Kinds that get a copy beside them."""
_WITHIN = frozenset({"match", "match-str", "condition"})
"""Kinds that get something inside them."""


@dataclass(frozen=True, slots=True)
class ProgramSite:
    """A site, and what is to be done there."""

    site: Site
    demanded: bool
    """A match that a patched Candle stops from compiling: it is exhaustive over an enum of Candle's."""
    edits: tuple[Edit, ...]
    by_hand: str = ""
    """Why nothing can be made there."""

    @property
    def done(self) -> bool:
        """Whether ROCm's text is there already."""
        return not self.edits and not self.by_hand


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """All sites of a program, and its files with the mirrored text in them."""

    sites: tuple[ProgramSite, ...]
    changes: tuple[FileChange, ...]


def plan_program(program: Program, specs: LoadedSpecs, *, gating: Gating = Gating.DUMMY) -> ProgramPlan:
    """The sites of the program, in order of path and position. Nothing is written.

    Raises `NotACandleTree` for a Rust file that is not UTF-8, and `InputOutputError`.
    """
    candles = frozenset(enum.name for enum in specs.candle.enums)
    style = Style(cfg=gating is Gating.CFG, protected=frozenset(specs.candle.protected), replace={})
    sites: list[ProgramSite] = []
    changes: list[FileChange] = []
    read_as = spellings(specs.candle)
    for path in program.rust_files():
        text = program.read(path)
        if not names_backend_at_all(text) and not any(name.encode() in text for name in read_as):
            continue
        decode(text, path)
        source = Source.parse(path, text, spellings=read_as)
        found = [_planned(source, site, style, candles) for site in find_sites(source)]
        sites += found
        edits = sorted((edit for each in found for edit in each.edits), key=lambda edit: (edit.start, edit.end))
        if edits:
            changes.append(_change(path, text, edits))
    return ProgramPlan(tuple(sites), tuple(changes))


def _planned(source: Source, site: Site, style: Style, candles: frozenset[str]) -> ProgramSite:
    demanded = site.exhaustive and site.kind == "match" and not candles.isdisjoint(site.enums)
    try:
        made = _mirrored(source, site, style)
    except CannotMirror as error:
        return ProgramSite(site, demanded, (), str(error))
    around = source.slice(site.start, site.end) if site.kind in _WITHIN else source.text.decode()
    if all(edit.text.strip() in around for edit in made):
        return ProgramSite(site, demanded=False, edits=())
    origin = Origin(f"program.{site.kind}", "", 1)
    return ProgramSite(site, demanded, tuple(_edit(source, each, origin) for each in made))


def _edit(source: Source, made: TextEdit, origin: Origin) -> Edit:
    """The edit at the offsets of the file as it is."""
    return Edit(source.path, source.original(made.start), source.original(made.end), made.text, origin)


def _mirrored(source: Source, site: Site, style: Style) -> list[TextEdit]:
    if site.within is not None:
        raise CannotMirror("it lies in another site")
    if site.metal_only:
        raise CannotMirror("only Metal is named there")
    if any(start < site.end and site.start < end for start, end in source.error_ranges()):
        raise CannotMirror("the Rust grammar cannot parse it")
    if site.kind in ("match", "match-str"):
        return verbs.mirror_match(source, site, style)
    if site.kind == "condition":
        return verbs.or_in_condition(source, site, style)
    if site.kind in _ITEMS:
        return verbs.mirror_item(source, site, style)
    raise CannotMirror("nothing can stand beside it")


def _change(path: str, before: bytes, edits: list[Edit]) -> FileChange:
    after = edited(before, edits)
    return FileChange(path, before, after.text.encode(), after.regions)
