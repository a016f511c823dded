"""Patches: the text that `git apply`, `git am` and a reader take, made from file changes.

Format: the output of `git format-patch` (git-diff(1), "Generating patch text with -p"; git-format-patch(1)), with fixed
author, date and commit id, so that the same plan always gives the same bytes.

The line matching is our own: difflib needs seconds for Candle's larger files. Lines that occur once on both sides are
anchors (as in patience diff), equal lines next to anchors belong to them, and only the small gaps in between are left
to difflib. Where an insertion could stand at several places with the same result, it is put where its `Region` is.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import gt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.plan.model import FileChange

AUTHOR = "candle-rocm <candle-rocm@localhost>"
DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
CONTEXT = 3
"""Unchanged lines shown around a change, as git does."""

_WIDTH = 72
_GAP_LIMIT = 40_000
"""Product of line counts up to which difflib looks at a gap without anchors; a larger one is replaced as a whole."""
_NO_NEWLINE = "\n\\ No newline at end of file"
_NULL_ID = "0" * 40
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
# What makes `git mailinfo` believe that the message has ended, or that its headers go on.
_MAIL_SYNTAX = re.compile(r"---|diff -|Index: |>?From |(?:From|Date|Subject|MIME-Version|Content-[\w-]+):|\[PATCH")
_HEADER = re.compile(r"diff |index |new file |--- |\+\+\+ |GIT binary")
_COLORS = {"h": "\x1b[1m", "@": "\x1b[36m", "+": "\x1b[32m", "-": "\x1b[31m"}
_RESET = "\x1b[m"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Lines `start..end` of the old text become lines `new_start..new_end` of the new one (from 0, half-open)."""

    start: int
    end: int
    new_start: int
    new_end: int


def phase_patch(changes: Sequence[FileChange], *, phase: int, name: str, summary: str, release: str) -> str:
    """One phase as a mail that both `git am` and `git apply` take; the empty string when no file changes.

    To be written as UTF-8 without translation of line ends. Files that are not UTF-8, and those with CRLF (which
    `git am` strips from mails), are given as git's binary patches: exact, if not readable.
    """
    changed = _changed(changes)
    if not changed:
        return ""
    body = [marked for change in changed for marked in _marked_lines(_file_patch(change, mail=True))]
    marks = Counter(mark for mark, _ in body)
    count = f"{len(changed)} file{'s' * (len(changed) != 1)} changed"
    return "".join(
        [
            f"From {_NULL_ID} Mon Sep 17 00:00:00 2001\n",
            f"From: {AUTHOR}\n",
            f"Date: {DATE}\n",
            f"Subject: [PATCH] {_one_line(f'ROCm for Candle {release}, phase {phase}: {name}')}\n",
            "MIME-Version: 1.0\n",
            "Content-Type: text/plain; charset=UTF-8\n",
            "Content-Transfer-Encoding: 8bit\n\n",
            *(f"{line}\n" for line in _message(summary, changes)),
            "---\n",
            f" {count}, {marks['+']} insertions(+), {marks['-']} deletions(-)\n\n",
            *(line for _, line in body),
            "-- \ncandle-rocm\n\n",
        ]
    )


def unified_diff(changes: Iterable[FileChange], *, color: bool) -> Iterator[str]:
    """The changes as a diff in git's format, line by line (each with its line end), coloured as git does."""
    for change in _changed(changes):
        for mark, line in _marked_lines(_file_patch(change, mail=False)):
            yield f"{_COLORS[mark]}{line[:-1]}{_RESET}\n" if color and mark in _COLORS else line


def replacements(before: Sequence[str], after: Sequence[str]) -> list[Replacement]:
    """What turns `before` into `after`: ascending, disjoint, not adjacent to one another, and as a reader expects."""
    found: list[Replacement] = []
    old = new = 0
    for start, new_start, length in _runs(before, after):
        if start > old or new_start > new:
            found.append(Replacement(old, start, new, new_start))
        old, new = start + length, new_start + length
    return found


def _changed(changes: Iterable[FileChange]) -> list[FileChange]:
    return sorted((change for change in changes if change.before != change.after), key=lambda change: change.path)


# The mail around the diffs


def _message(summary: str, changes: Iterable[FileChange]) -> Iterator[str]:
    import textwrap

    for paragraph in re.split(r"\n\s*\n", summary.strip()):
        for line in textwrap.wrap(_printable(paragraph), _WIDTH, break_long_words=False, break_on_hyphens=False):
            yield f" {line}" if _MAIL_SYNTAX.match(line) else line
        yield ""
    rules = Counter(region.origin.rule for change in changes for region in change.regions)
    if rules:
        yield "Places written, by rule:"
        yield ""
        width = len(str(max(rules.values())))
        for rule, count in sorted(rules.items()):
            yield f"  {count:{width}}  {_one_line(rule)}"
        yield ""


def _one_line(text: str) -> str:
    return " ".join(_printable(text).split())


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


# One file


def _file_patch(change: FileChange, *, mail: bool) -> Iterator[str]:
    old_name, new_name = _quoted("a/", change.path), _quoted("b/", change.path)
    yield f"diff --git {old_name} {new_name}\n"
    if change.before is None:
        yield "new file mode 100644\n"
    old_id = _NULL_ID if change.before is None else _blob_id(change.before)
    yield f"index {old_id}..{_blob_id(change.after)}\n"
    before, after = _text(change.before or b"", mail=mail), _text(change.after, mail=mail)
    if before is None or after is None:
        yield "GIT binary patch\n"
        yield from _literal(change.after)
        yield from _literal(change.before or b"")
        return
    if not before and not after:
        return
    yield f"--- {'/dev/null' if change.before is None else _with_tab(old_name)}\n"
    yield f"+++ {_with_tab(new_name)}\n"
    starts = {region.first - 1 for region in change.regions}
    yield from _hunks(_lines(before), _lines(after), starts)


def _marked_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line of a diff with what it is: `+`, `-`, `@`, `h` for a header, a blank for the rest."""
    in_hunks = False
    for line in lines:
        in_hunks = line.startswith("@@") or (in_hunks and not line.startswith("diff "))
        if in_hunks:
            yield (line[0] if line[0] in "+-@" else " "), line
        else:
            yield ("h" if _HEADER.match(line) else " "), line


def _text(content: bytes, *, mail: bool) -> str | None:
    """None where the content must not stand in a diff as it is."""
    if b"\0" in content or (mail and b"\r\n" in content):
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    """Lines without their ends; a last line that has none carries git's remark, and so differs from one that has."""
    lines = text.split("\n")
    last = lines.pop()
    if last:
        lines.append(last + _NO_NEWLINE)
    return lines


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _quoted(side: str, path: str) -> str:
    """A path as git writes it with core.quotePath: in C syntax where it holds anything unusual."""
    name = os.fsencode(side + path)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in name):
        return name.decode()
    return '"' + "".join(_ESCAPES.get(c) or (chr(c) if 0x20 <= c < 0x7F else f"\\{c:03o}") for c in name) + '"'


def _with_tab(name: str) -> str:
    """Git ends an unquoted name with blanks by a tab, or readers take what follows the blank for a date."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _literal(content: bytes) -> Iterator[str]:
    """A whole content in a binary patch: deflated, base85, 52 bytes a line, the first letter giving their number."""
    yield f"literal {len(content)}\n"
    packed = zlib.compress(content, 9)
    for at in range(0, len(packed), 52):
        piece = packed[at : at + 52]
        size = chr(ord("A") + len(piece) - 1) if len(piece) <= 26 else chr(ord("a") + len(piece) - 27)
        yield f"{size}{base64.b85encode(piece, pad=True).decode()}\n"
    yield "\n"


# Hunks


def _hunks(before: list[str], after: list[str], starts: set[int]) -> Iterator[str]:
    edits = _settled(before, after, replacements(before, after), starts)
    heading, searched = "", 0
    for group in _grouped(edits):
        first, last = group[0], group[-1]
        lead = min(CONTEXT, first.start)
        trail = min(CONTEXT, len(before) - last.end)
        old = _range(first.start - lead, last.end + trail)
        new = _range(first.new_start - lead, last.new_end + trail)
        at = first.start - lead
        heading, searched = _heading(before, searched, at) or heading, at
        yield f"@@ -{old} +{new} @@{heading}\n"
        for edit in group:
            yield from _marked(" ", before[at : edit.start])
            yield from _marked("-", before[edit.start : edit.end])
            yield from _marked("+", after[edit.new_start : edit.new_end])
            at = edit.end
        yield from _marked(" ", before[at : at + trail])


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


# Matching lines


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
