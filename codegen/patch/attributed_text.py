"""Edited text: edits made, rustfmt's wishes taken where they touch our own lines, and who made which line."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from codegen.patch.changes import Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codegen.patch.changes import Edit, Origin


_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class EditedText:
    """A file after its edits: every line that is not as in the pristine file lies in a region."""

    text: str
    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Lines `old_start..old_end` became lines `new_start..new_end` (from 0, half-open)."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def growth(self) -> int:
        return (self.new_end - self.new_start) - (self.old_end - self.old_start)

    def touches(self, region: Region) -> bool:
        """Whether it changes lines of the region or lines right beside it."""
        return region.first - 1 <= self.old_end and self.old_start <= region.last


def _newline(pristine: bytes) -> str:
    return "\r\n" if b"\r\n" in pristine else "\n"


def in_own_line_ends(pristine: bytes, edits: Sequence[Edit]) -> list[Edit]:
    """The edits in the line endings of the file."""
    newline = _newline(pristine)
    return [replace(edit, text=edit.text.replace("\r\n", "\n").replace("\n", newline)) for edit in edits]


def edited(pristine: bytes, edits: Sequence[Edit]) -> EditedText:
    """The file with its edits made, in its own line endings; `edits` are sorted and do not overlap."""
    newline = _newline(pristine)
    pieces: list[str] = []
    regions: list[Region] = []
    position = line = 0
    for edit in in_own_line_ends(pristine, edits):
        kept = pristine[position : edit.start].decode()
        text = edit.text
        pieces += [kept, text]
        line += kept.count("\n")
        # A newline at an end of the text only sets it apart from a pristine line that stays as it is.
        set_apart_before = text.startswith(newline) and _ends_line(pristine, edit.start, newline.encode())
        set_apart_behind = text.endswith("\n") and pristine[edit.end - 1 : edit.end] in (b"\n", b"")
        if set_apart_before and edit.start == edit.end:  # on an empty line: only one newline can be its own
            set_apart_behind = False
        first = line + 1 + set_apart_before
        line += text.count("\n")
        regions.append(Region(first, line + 1 - set_apart_behind, edit.origin))
        position = edit.end
    pieces.append(pristine[position:].decode())
    whole_text = "".join(pieces)
    return EditedText(whole_text, _within(regions, len(_lines(whole_text))))


def formatted(text: EditedText, wished: str) -> EditedText:
    """The text with those changes of `wished`, rustfmt's form of it, that touch generated lines.

    The rest stays byte-identical: rustfmt's opinion of Candle's own lines is not ours to carry out, nor is that of
    its line endings.
    """
    wished = wished.replace("\r\n", "\n")
    if "\r\n" in text.text:
        wished = wished.replace("\n", "\r\n")
    if wished == text.text:
        return text
    old, new = _lines(text.text), _lines(wished)
    wishes = _hunks(old, new)
    touching = [hunk for hunk in wishes if any(hunk.touches(region) for region in text.regions)]
    result: list[str] = []
    taken: list[_Hunk] = []
    position = 0
    for wish in _with_other_halves(touching, wishes, old, new):
        result += old[position : wish.old_start]
        taken.append(replace(wish, new_start=len(result), new_end=len(result) + wish.new_end - wish.new_start))
        result += new[wish.new_start : wish.new_end]
        position = wish.old_end
    result += old[position:]
    elsewhere = [hunk for hunk in taken if not any(hunk.touches(region) for region in text.regions)]
    regions = [_grown(region, _moved(region, taken), taken) for region in text.regions]
    if elsewhere:
        regions = [region for region in regions if region.first <= region.last]  # all of its lines went there
    for hunk in elsewhere:
        nearest = min(text.regions, key=lambda region: abs(region.first - hunk.old_start))
        regions.append(Region(hunk.new_start + 1, hunk.new_end, nearest.origin))
    return EditedText("".join(result), _within(regions, len(result)))


def rewritten(before: EditedText, after: str, origin: Origin) -> EditedText:
    """A file that was rewritten as a whole: the lines that differ have one origin, known regions move along."""
    old, new = _lines(before.text), _lines(after)
    hunks = _hunks(old, new)
    known = (_moved(region, hunks) for region in before.regions)
    own = (Region(hunk.new_start + 1, hunk.new_end, origin) for hunk in hunks)
    return EditedText(after, _within((*known, *own), len(new)))


def _ends_line(pristine: bytes, offset: int, newline: bytes) -> bool:
    """Whether a line ends at the offset, also the last one of a file that lacks its newline."""
    if offset < len(pristine):
        return pristine.startswith(newline, offset)
    return bool(pristine) and not pristine.endswith(b"\n")


def whole(text: str, origin: Origin) -> EditedText:
    """A new file: every line has one origin."""
    return EditedText(text, _within([Region(1, len(_lines(text)), origin)], len(_lines(text))))


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a newline ends one (`str.splitlines` also splits at form feeds and the like)."""
    return list(io.StringIO(text, newline="\n"))


def _hunks(old: Sequence[str], new: Sequence[str]) -> list[_Hunk]:
    opcodes = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return [_Hunk(a, b, c, d) for tag, a, b, c, d in opcodes if tag != "equal"]


def _with_other_halves(
    chosen: Iterable[_Hunk], wishes: Sequence[_Hunk], old: Sequence[str], new: Sequence[str]
) -> list[_Hunk]:
    """The chosen hunks and those that they make sense with only, in order.

    rustfmt also sorts imports and modules. A line that moves is two hunks: one without the other would lose the line,
    or have it twice.
    """

    def gained(hunk: _Hunk) -> Counter[str]:
        words = Counter(_WORD.findall("".join(new[hunk.new_start : hunk.new_end])))
        words.subtract(_WORD.findall("".join(old[hunk.old_start : hunk.old_end])))
        return words

    taken = set(chosen)
    balance: Counter[str] = Counter()
    for hunk in taken:
        balance.update(gained(hunk))
    while any(balance.values()):
        others = [hunk for hunk in wishes if hunk not in taken]
        halves = [hunk for hunk in others if any(balance[word] * count < 0 for word, count in gained(hunk).items())]
        if not halves:
            break
        nearest = min(halves, key=lambda hunk: min(abs(hunk.old_start - each.old_start) for each in taken))
        taken.add(nearest)
        balance.update(gained(nearest))
    return sorted(taken, key=lambda hunk: hunk.old_start)


def _moved(region: Region, hunks: Sequence[_Hunk]) -> Region:
    """Where the region is after the hunks; lines added right before or behind it do not become part of it.

    It ends before it begins where none of its lines is left.
    """
    start, end = region.first - 1, region.last
    new_start = start + sum(hunk.growth for hunk in hunks if hunk.old_end <= start)
    new_end = end + sum(hunk.growth for hunk in hunks if hunk.old_end <= end and hunk.old_start < end)
    for hunk in hunks:
        if hunk.old_start < start < hunk.old_end:
            new_start = hunk.new_start
        if hunk.old_start < end < hunk.old_end:
            new_end = hunk.new_end
    return Region(new_start + 1, new_end, region.origin)


def _grown(before: Region, after: Region, hunks: Iterable[_Hunk]) -> Region:
    """The moved region with all lines of the hunks that touched it."""
    first, last = after.first, after.last
    for hunk in hunks:
        if hunk.touches(before):
            first, last = min(first, hunk.new_start + 1), max(last, hunk.new_end)
    return Region(first, last, before.origin)


def _within(regions: Iterable[Region], lines: int) -> tuple[Region, ...]:
    """The regions, each with at least one line of the file: where lines were only deleted, the one that took over."""
    found = []
    for region in regions:
        first = min(region.first, max(1, lines))
        found.append(Region(first, max(first, min(region.last, lines)), region.origin))
    return tuple(found)
