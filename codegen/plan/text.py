"""Edited text: edits made, rustfmt's wishes taken where they touch our own lines, and who made which line."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from codegen.plan.model import Region

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codegen.plan.model import Edit, Origin


@dataclass(frozen=True, slots=True)
class EditedText:
    """A file after its edits."""

    text: str
    regions: tuple[Region, ...]


def edited(pristine: bytes, edits: Sequence[Edit]) -> EditedText:
    """The file with its edits made; `edits` are sorted and do not overlap."""
    pieces: list[str] = []
    regions: list[Region] = []
    position = line = 0
    for edit in edits:
        kept = pristine[position : edit.start].decode()
        pieces += [kept, edit.text]
        line += kept.count("\n")
        leading = len(edit.text) - len(edit.text.lstrip("\n"))
        trailing = len(edit.text) - len(edit.text.rstrip("\n"))
        first = line + leading + 1
        line += edit.text.count("\n")
        regions.append(Region(first, max(first, line + 1 - trailing), edit.origin))
        position = edit.end
    pieces.append(pristine[position:].decode())
    return EditedText("".join(pieces), tuple(regions))


def formatted(text: EditedText, rustfmt: Callable[[str], str]) -> EditedText:
    """The text with rustfmt's changes, those only that touch generated lines: the rest stays byte-identical."""
    wished = rustfmt(text.text)
    if wished == text.text:
        return text
    old, new = text.text.splitlines(keepends=True), wished.splitlines(keepends=True)
    result: list[str] = []
    moved: list[tuple[int, int]] = []  # (old line index, shift from there on)
    shift = 0
    for tag, a, b, c, d in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        ours = tag != "equal" and any(r.first - 1 <= b and a <= r.last for r in text.regions)
        if tag != "equal" and ours:
            result += new[c:d]
            shift += (d - c) - (b - a)
            moved.append((b, shift))
        else:
            result += old[a:b]
    regions = tuple(
        Region(r.first + _shift(moved, r.first - 1), r.last + _shift(moved, r.last), r.origin) for r in text.regions
    )
    return EditedText("".join(result), regions)


def _shift(moved: list[tuple[int, int]], line: int) -> int:
    found = 0
    for start, shift in moved:
        if start <= line:
            found = shift
    return found


def whole(text: str, origin: Origin) -> EditedText:
    """A new file: every line has one origin."""
    return EditedText(text, (Region(1, max(1, text.count("\n")), origin),))


def changed_lines(before: str, after: str, origin: Origin) -> tuple[Region, ...]:
    """Regions of a file that was rewritten as a whole: the lines that differ."""
    old, new = before.splitlines(), after.splitlines()
    opcodes = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return tuple(Region(c + 1, max(c + 1, d), origin) for tag, _, _, c, d in opcodes if tag != "equal")
