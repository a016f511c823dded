"""Renders kernel specs into HIP sources, and remembers which spec line made which line of a source.

A template marks the lines that an op makes with `//@ LINE` comments. They pass through clang-format and are taken out
afterwards, so that a source does not change when its spec only moves.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Location
from codegen.kernels.blocks import load_blocks
from codegen.kernels.dtypes import DTYPES, Kind
from codegen.kernels.layout import MAX_RANK
from codegen.kernels.loader import LoadedFamily, load_families
from codegen.kernels.tuning import macro, tunings
from codegen.paths import templates_dir
from codegen.render.clang_format import format_hip
from codegen.render.environment import render

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HEADERS = "candle_rocm"
"""Folder of the headers that the kernel sources share, below templates/hip/ and in `#include`s."""

_MARK = re.compile(r"[ \t]*//@ ([0-9]+)\n")


@dataclass(frozen=True, slots=True)
class KernelHeader:
    """What the first line of a rendered file says of its origin."""

    template: str
    spec: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A rendered file: `unary.hip`, or `candle_rocm/dtype.h`."""

    path: str
    text: str
    spec: str | None
    """File that it was made from, relative to the repository."""
    marks: tuple[tuple[int, int], ...]
    """First line of a region of the text, and the spec's line that made it, in order; lines count from 1."""

    def origin(self, line: int) -> Location | None:
        """The place in the spec that made a line of the text; None for the template's own lines."""
        at = bisect_right(self.marks, (line, 1 << 31)) - 1
        if self.spec is None or at < 0 or self.marks[at][1] == 0:
            return None
        return Location(self.spec, self.marks[at][1])


@dataclass(frozen=True, slots=True)
class Sources:
    """All rendered files."""

    headers: tuple[Source, ...]
    families: tuple[Source, ...]

    @property
    def all(self) -> tuple[Source, ...]:
        """Headers, then families."""
        return (*self.headers, *self.families)

    def has(self, name: str) -> bool:
        """Whether the source of a family is among them."""
        return any(source.path == f"{name}.hip" for source in self.families)

    def family(self, name: str) -> Source:
        """The source of a family. Raises KeyError."""
        for source in self.families:
            if source.path == f"{name}.hip":
                return source
        raise KeyError(name)


def render_sources(families: Iterable[LoadedFamily] | None = None, *, templates: Path | None = None) -> Sources:
    """Every header and every family's source, formatted. Raises TemplateInvalid and SpecInvalid."""
    families = tuple(load_families() if families is None else families)
    root = templates or templates_dir()
    raw = {f"{HEADERS}/{path.name[:-3]}": _header(path.name, root) for path in _header_templates(root)}
    headers = len(raw)
    raw |= {f"{loaded.name}.hip": render_family(loaded, root) for loaded in families}
    specs = [None] * headers + [loaded.file for loaded in families]
    made = [_source(path, text, spec) for (path, text), spec in zip(format_hip(raw).items(), specs, strict=True)]
    return Sources(tuple(made[:headers]), tuple(made[headers:]))


def family_source(loaded: LoadedFamily, *, templates: Path | None = None) -> Source:
    """The source of one family, as `render_sources` makes it."""
    path = f"{loaded.name}.hip"
    return _source(path, format_hip({path: render_family(loaded, templates or templates_dir())})[path], loaded.file)


def template_contexts(families: Iterable[str], templates: Path) -> dict[str, frozenset[str]]:
    """The templates that `render_sources` renders for families of these names, and the names that each may use."""
    own = {family_template(name): FAMILY_NAMES for name in families}
    return own | {f"hip/{HEADERS}/{path.name}": HEADER_NAMES for path in _header_templates(templates)}


def family_template(name: str) -> str:
    """The template of a family's source, below `templates/`."""
    return f"hip/{name}.hip.j2"


HEADER_NAMES = frozenset({"header", "max_rank", "integers", "blocks"})
FAMILY_NAMES = frozenset({"header", "tunings", "family", "launch", "ops", "kernels", "line_of"})


def _header_templates(root: Path) -> list[Path]:
    return sorted((root / "hip" / HEADERS).glob("*.h.j2"))


def _header(name: str, root: Path) -> str:
    template = f"hip/{HEADERS}/{name}"
    integers = [element for element in DTYPES if element.kind is Kind.INTEGER]
    context = {
        "header": KernelHeader(f"templates/{template}"),
        "max_rank": MAX_RANK,
        "integers": integers,
        "blocks": load_blocks(),
    }
    return render(template, context, root=root)


def render_family(loaded: LoadedFamily, root: Path) -> str:
    """A family's source as its template gives it. Raises TemplateInvalid."""
    template = family_template(loaded.name)
    context = {
        "header": KernelHeader(f"templates/{template}", loaded.file),
        "tunings": tunings(loaded.family),
        "family": loaded.family,
        "launch": loaded.family.launch | {name: macro(name) for name in loaded.family.tuned_numbers()},
        "ops": loaded.family.ops,
        "kernels": loaded.kernels,
        "line_of": loaded.lines,
    }
    return render(template, context, root=root)


def _source(path: str, text: str, spec: str | None) -> Source:
    kept: list[str] = []
    marks = []
    for line in text.splitlines(keepends=True):
        if mark := _MARK.fullmatch(line):
            marks.append((len(kept) + 1, int(mark[1])))
        elif line != "\n" or kept[-1:] != ["\n"]:  # a mark between two empty lines leaves one
            kept.append(line)
    return Source(path, "".join(kept), spec, tuple(marks))
