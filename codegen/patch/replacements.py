"""Replacements: which lines of a text become which lines of another one.

The line matching is our own: difflib needs seconds for Candle's larger files. Lines that occur once on both sides are
anchors (as in patience diff), equal lines next to anchors belong to them, and only the small gaps in between are left
to difflib.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import gt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP_LIMIT = 40_000
"""Product of line counts up to which difflib looks at a gap without anchors; a larger one is replaced as a whole."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Lines `start..end` of the old text become lines `new_start..new_end` of the new one (from 0, half-open)."""

    start: int
    end: int
    new_start: int
    new_end: int


def replacements(before: Sequence[str], after: Sequence[str]) -> list[Replacement]:
    """What turns `before` into `after`: ascending, disjoint, not adjacent to one another, and as a reader expects."""
    found: list[Replacement] = []
    old = new = 0
    for start, new_start, length in _runs(before, after):
        if start > old or new_start > new:
            found.append(Replacement(old, start, new, new_start))
        old, new = start + length, new_start + length
    return found


def _runs(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Maximal runs of matched lines, ascending: (start in `before`, start in `after`, length); an empty one at the end.

    A run may be followed directly by another on both sides; `replacements` takes them together.
    """
    gaps = [(0, len(before), 0, len(after))]
    while gaps:
        a, a_end, b, b_end = gaps.pop()
        length = _common_prefix(before, after, a, a_end, b, b_end)
        if length:
            yield a, b, length
            a, b = a + length, b + length
        tail = _common_suffix(before, after, a, a_end, b, b_end)
        if tail:
            a_end, b_end = a_end - tail, b_end - tail
            gaps.append((a_end, a_end + tail, b_end, b_end + tail))
        if a == a_end or b == b_end:
            continue
        anchors = _anchors(before[a:a_end], after[b:b_end])
        if not anchors:
            yield from _small_gap(before[a:a_end], after[b:b_end], a, b)
            continue
        # What lies between two anchors is a gap of its own. It begins with an anchor, so it is sure to shrink.
        points = [(a, b), *_corners(before, after, [(a + i, b + j) for i, j in anchors]), (a_end, b_end)]
        gaps += reversed([(i, i_end, j, j_end) for (i, j), (i_end, j_end) in pairwise(points)])
    yield len(before), len(after), 0


def _common_prefix(before: Sequence[str], after: Sequence[str], a: int, a_end: int, b: int, b_end: int) -> int:
    limit = min(a_end - a, b_end - b)
    length = 0
    while length < limit and before[a + length] == after[b + length]:
        length += 1
    return length


def _common_suffix(before: Sequence[str], after: Sequence[str], a: int, a_end: int, b: int, b_end: int) -> int:
    limit = min(a_end - a, b_end - b)
    length = 0
    while length < limit and before[a_end - 1 - length] == after[b_end - 1 - length]:
        length += 1
    return length


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that occur exactly once on both sides, the longest ascending choice of them."""
    places = {line: at for at, line in enumerate(after)}
    counts, old_counts = Counter(after), Counter(before)
    pairs = [(i, places[line]) for i, line in enumerate(before) if counts.get(line) == 1 and old_counts[line] == 1]
    positions = [j for _, j in pairs]
    if not any(map(gt, positions, positions[1:])):
        return pairs
    return [pairs[at] for at in _longest_ascending(positions)]


def _corners(before: Sequence[str], after: Sequence[str], anchors: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The anchors less those in the midst of equal lines: a file with few edits has many anchors and few corners."""
    corners: list[tuple[int, int]] = []
    for _, members in groupby(anchors, key=lambda anchor: anchor[1] - anchor[0]):
        stretch = list(members)
        (i, j), (i_last, j_last) = stretch[0], stretch[-1]
        corners += stretch[:1] if before[i:i_last] == after[j:j_last] else stretch
    return corners


def _longest_ascending(numbers: Sequence[int]) -> list[int]:
    """Indices of a longest strictly ascending subsequence (patience sorting)."""
    tops: list[int] = []
    indices: list[int] = []
    previous: list[int] = []
    for index, number in enumerate(numbers):
        pile = bisect_left(tops, number)
        previous.append(indices[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [number]
        indices[pile : pile + 1] = [index]
    chosen = []
    at = indices[-1] if indices else -1
    while at >= 0:
        chosen.append(at)
        at = previous[at]
    return chosen[::-1]


def _small_gap(before: Sequence[str], after: Sequence[str], a: int, b: int) -> Iterator[tuple[int, int, int]]:
    if len(before) * len(after) > _GAP_LIMIT:
        return
    import difflib

    for i, j, length in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        if length:
            yield a + i, b + j, length
