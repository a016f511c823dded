"""Where a site begins and ends: bytes, lines and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.syntax.site import Site


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start..end` of a file; lines and columns count from 1, columns in characters; the end is exclusive."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


class Spans:
    """Spans of the sites of one tree; each file is read once."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._texts: dict[str, bytes] = {}

    def text(self, path: str) -> bytes:
        """The pristine content of a file."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def of(self, site: Site) -> Span:
        """The site's span. A Cargo feature, which the scan knows by its line only, spans that line."""
        text = self.text(site.path)
        start, end = site.start, site.end
        if start == end:
            start, end = _line_bounds(text, site.line)
        end_line, end_column = _position(text, end)
        line, column = _position(text, start)
        return Span(start, end, line, column, end_line, end_column)


def _position(text: bytes, offset: int) -> tuple[int, int]:
    line_start = text.rfind(b"\n", 0, offset) + 1
    return text.count(b"\n", 0, offset) + 1, len(text[line_start:offset].decode(errors="replace")) + 1


def _line_bounds(text: bytes, line: int) -> tuple[int, int]:
    """Bytes of a line from 1, without its newline."""
    start = 0
    for _ in range(line - 1):
        found = text.find(b"\n", start)
        if found < 0:
            break
        start = found + 1
    end = text.find(b"\n", start)
    return start, len(text) if end < 0 else end
