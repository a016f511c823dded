"""`use` declarations, ordered and laid out as rustfmt would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.render.function_head import MAX_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST = ("self", "super", "crate")


def use_declarations(paths: Iterable[str], *, visibility: str = "") -> tuple[str, ...]:
    """One declaration per parent path: `crate::DType` and `crate::Shape` give `use crate::{DType, Shape};`.

    `visibility` stands before each: `pub `.
    """
    groups: dict[str, set[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition("::")
        groups.setdefault(parent, set()).add(name)
    return tuple(
        _declaration(f"{visibility}use {parent}", sorted(names, key=_name_rank))
        for parent, names in sorted(groups.items(), key=_rank)
    )


def _rank(group: tuple[str, set[str]]) -> tuple[tuple[int, str], ...]:
    """rustfmt's order of paths, segment by segment; a brace list comes after everything else of its parent."""
    parent, names = group
    segments = [*parent.split("::"), "{" if len(names) > 1 else next(iter(names))]
    return tuple((_segment_class(segment), segment) for segment in segments)


def _segment_class(segment: str) -> int:
    if segment in _FIRST:
        return _FIRST.index(segment)
    return len(_FIRST) + (2 if segment == "{" else segment[:1].isupper())


def _name_rank(name: str) -> tuple[bool, bool, str]:
    """rustfmt's order inside braces: `self`, then what begins with a small letter, then the others."""
    return name != "self", name[:1].isupper(), name


def _declaration(start: str, names: list[str]) -> str:
    if len(names) == 1:
        return f"{start}::{names[0]};"
    line = f"{start}::{{{', '.join(names)}}};"
    # rustfmt keeps two columns free behind a brace list.
    if len(line) <= MAX_WIDTH - 2:
        return line
    rows = ["   "]
    for name in names:
        # rustfmt keeps a column free in all rows but the last.
        room = MAX_WIDTH - (name != names[-1])
        if len(rows[-1]) + len(f" {name},") > room:
            rows.append("   ")
        rows[-1] += f" {name},"
    return "\n".join([f"{start}::{{", *rows, "};"])
