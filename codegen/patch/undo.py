"""Undo edits: how the text that a phase left becomes the one before it again.

A phase mostly inserts, so these edits are few and small, and a clone can take a patch out with the patched files and
the record alone. Offsets and lengths are bytes of the text that the phase left.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from codegen.patch.replacements import replacements

if TYPE_CHECKING:
    from collections.abc import Sequence

Undo = tuple[tuple[int, int, str], ...]
"""(offset, length, text): bytes `offset..offset+length` become `text`; ascending, and none touches another."""
MOST_TEXT = 1 << 16
"""Bytes of text that the edits of one file may give back; a file that lost more was written anew."""
LARGEST_FILE = 32 << 20


def undo_edits(before: bytes, after: bytes) -> Undo | None:
    """The edits that turn `after` into `before`; None where they would be large, or no text."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    old_at, new_at = _offsets(old), _offsets(new)
    edits = []
    size = 0
    for each in replacements([_text(line) for line in new], [_text(line) for line in old]):
        removed = before[old_at[each.new_start] : old_at[each.new_end]]
        size += len(removed)
        if size > MOST_TEXT:
            return None
        try:
            edits.append((new_at[each.start], new_at[each.end] - new_at[each.start], removed.decode()))
        except UnicodeDecodeError:
            return None
    return tuple(edits)


def undone(after: bytes, undo: Undo) -> bytes | None:
    """The text before; None where the edits do not lie within `after`."""
    pieces = []
    at = 0
    for offset, length, text in undo:
        if offset < at or offset + length > len(after):
            return None
        pieces += [after[at:offset], text.encode()]
        at = offset + length
    return b"".join((*pieces, after[at:]))


def _offsets(lines: Sequence[bytes]) -> list[int]:
    return list(accumulate(map(len, lines), initial=0))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")
