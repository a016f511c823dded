"""A file's diff as rows: what `candle-rocm diff` prints, with the origin of every hunk."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen.patch.git_format import replacements, unified_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.patch.changes import FileChange, Origin, Region

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)\n")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a hunk; the line number of a side that lacks it is None."""

    mark: str
    """Blank, `-` or `+`."""
    old: int | None
    new: int | None
    text: str
    """Without its line end."""


@dataclass(frozen=True, slots=True)
class Label:
    """Why lines `first..last` of the new file are there."""

    first: int
    last: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class Hunk:
    """Changed lines with three lines around them."""

    header: str
    """`@@ -1,2 +1,3 @@`."""
    heading: str
    """The item that the hunk lies in, as git shows it; may be empty."""
    rows: tuple[Row, ...]
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """All hunks of one file."""

    path: str
    new: bool
    hunks: tuple[Hunk, ...]

    @property
    def added(self) -> int:
        """Number of lines that only the new file has."""
        return sum(row.mark == "+" for hunk in self.hunks for row in hunk.rows)

    @property
    def removed(self) -> int:
        """Number of lines that only the old file has."""
        return sum(row.mark == "-" for hunk in self.hunks for row in hunk.rows)


def file_diff(change: FileChange) -> FileDiff:
    """The diff of one file. A file that is not UTF-8 has no hunks."""
    lines = unified_diff([change], color=False)
    return FileDiff(change.path, change.before is None, tuple(_hunks(lines, change.regions)))


def without_whitespace(change: FileChange) -> FileChange:
    """The change less what only moves whitespace within lines, as `git diff -w` shows it."""
    if change.before is None:
        return change
    try:
        before, after = change.before.decode(), change.after.decode()
    except UnicodeDecodeError:
        return change
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    result: list[str] = []
    at = 0
    for edit in replacements([_squeezed(line) for line in old], [_squeezed(line) for line in new]):
        result += new[at : edit.new_start]
        result += old[edit.start : edit.end]
        at = edit.new_end
    result += new[at:]
    return replace(change, before="".join(result).encode())


def _squeezed(line: str) -> str:
    return "".join(line.split())


def _hunks(lines: Iterable[str], regions: Iterable[Region]) -> Iterator[Hunk]:
    known = tuple(regions)
    rows: list[Row] = []
    title: tuple[str, str] | None = None
    old = new = 0
    for line in lines:
        head = _HUNK.fullmatch(line)
        if head is not None:
            if title is not None:
                yield _hunk(title, rows, known)
            old, new = int(head[1]), int(head[3])
            title, rows = (line[: line.index("@@", 2) + 2], head[5]), []
        elif title is not None and line[:1] in " -+":
            mark = line[0]
            rows.append(Row(mark, old if mark != "+" else None, new if mark != "-" else None, line[1:].rstrip("\r\n")))
            old += mark != "+"
            new += mark != "-"
    if title is not None:
        yield _hunk(title, rows, known)


def _hunk(title: tuple[str, str], rows: list[Row], regions: tuple[Region, ...]) -> Hunk:
    return Hunk(*title, tuple(rows), tuple(_labels(rows, regions)))


def _labels(rows: list[Row], regions: tuple[Region, ...]) -> Iterator[Label]:
    """The regions that hold an added line of the hunk; where nothing is added, those that touch the hunk."""
    added = {row.new for row in rows if row.mark == "+"} or {row.new for row in rows}
    for region in sorted(regions, key=lambda region: (region.first, region.last)):
        lines = range(region.first, region.last + 1)
        if any(line in added for line in lines):
            yield Label(region.first, region.last, region.origin)
