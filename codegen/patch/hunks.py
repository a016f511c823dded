"""Hunks: the part of a diff that shows changed lines between unchanged ones, as git writes it.

Where an insertion could stand at several places with the same result, it is put where its `Region` is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.patch.replacements import Replacement, replacements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CONTEXT = 3
"""Unchanged lines shown around a change, as git does."""

_NO_NEWLINE = "\n\\ No newline at end of file"


def hunks(before: str, after: str, starts: set[int]) -> Iterator[str]:
    """The hunks that turn `before` into `after`, line by line (each with its line end).

    `starts` are the lines of `after` (from 0) where an insertion begins with preference.
    """
    old_lines, new_lines = _lines(before), _lines(after)
    edits = _settled(old_lines, new_lines, replacements(old_lines, new_lines), starts)
    heading, searched = "", 0
    for group in _grouped(edits):
        first, last = group[0], group[-1]
        lead = min(CONTEXT, first.start)
        trail = min(CONTEXT, len(old_lines) - last.end)
        old = _range(first.start - lead, last.end + trail)
        new = _range(first.new_start - lead, last.new_end + trail)
        at = first.start - lead
        heading, searched = _heading(old_lines, searched, at) or heading, at
        yield f"@@ -{old} +{new} @@{heading}\n"
        for edit in group:
            yield from _marked(" ", old_lines[at : edit.start])
            yield from _marked("-", old_lines[edit.start : edit.end])
            yield from _marked("+", new_lines[edit.new_start : edit.new_end])
            at = edit.end
        yield from _marked(" ", old_lines[at : at + trail])


def _lines(text: str) -> list[str]:
    """Lines without their ends; a last line that has none carries git's remark, and so differs from one that has."""
    lines = text.split("\n")
    last = lines.pop()
    if last:
        lines.append(last + _NO_NEWLINE)
    return lines


def _marked(mark: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.endswith(_NO_NEWLINE):
            yield f"{mark}{line.removesuffix(_NO_NEWLINE)}\n"
            yield f"{_NO_NEWLINE[1:]}\n"
        else:
            yield f"{mark}{line}\n"


def _grouped(edits: Iterable[Replacement]) -> Iterator[list[Replacement]]:
    """Edits whose context would touch share a hunk."""
    group: list[Replacement] = []
    for edit in edits:
        if group and edit.start - group[-1].end > 2 * CONTEXT:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _range(start: int, end: int) -> str:
    """Lines from 1; an empty range names the line before it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _heading(lines: Sequence[str], start: int, end: int) -> str:
    """The last of the lines `start..end` that begins an item, as git shows it behind the numbers of a hunk."""
    for at in range(end - 1, start - 1, -1):
        line = lines[at]
        if line[:1].isalpha() or line[:1] in ("_", "$"):
            return f" {line.removesuffix(_NO_NEWLINE)[:80].rstrip()}"
    return ""


def _settled(
    before: Sequence[str], after: Sequence[str], edits: Sequence[Replacement], starts: set[int]
) -> Iterator[Replacement]:
    """Each pure insertion at that place, among those that give the same text, where a region starts.

    Without such a region it is the lowest place, as in git.
    """
    top = 0
    for index, edit in enumerate(edits):
        bottom = edits[index + 1].start if index + 1 < len(edits) else len(before)
        if edit.start == edit.end:
            edit = _raised(after, _lowered(after, edit, bottom), top, starts)
        top = edit.end
        yield edit


def _lowered(after: Sequence[str], edit: Replacement, bottom: int) -> Replacement:
    step = 0
    while edit.end + step < bottom and after[edit.new_start + step] == after[edit.new_end + step]:
        step += 1
    return _shifted(edit, step)


def _raised(after: Sequence[str], edit: Replacement, top: int, starts: set[int]) -> Replacement:
    for step in range(edit.start - top + 1):
        if step and after[edit.new_start - step] != after[edit.new_end - step]:
            break
        if edit.new_start - step in starts:
            return _shifted(edit, -step)
    return edit


def _shifted(edit: Replacement, by: int) -> Replacement:
    return Replacement(edit.start + by, edit.end + by, edit.new_start + by, edit.new_end + by)
