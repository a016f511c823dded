"""Which sources a code object was made of, as the backend's loader asks: `<family>.origin` beside `<family>.hsaco`.

It has one line: the hash of the sources, which a patched Candle computes too (kernels/hash.rs), and the length of the
code object in bytes, by which a copy that broke off is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codegen.kernels.render import Source, Sources

ORIGIN = ".origin"
"""Suffix of the file."""

_EMPTY = 0x6C62272E07BB014262B821756295C58D
_PRIME = 0x0000000001000000000000000000013B
_MASK = (1 << 128) - 1


def fnv1a(content: bytes, start: int = _EMPTY) -> int:
    """FNV-1a with 128 bits (draft-eastlake-fnv) of what was hashed before, followed by the content."""
    state = start
    for byte in content:
        state = (state ^ byte) * _PRIME & _MASK
    return state


def hash_fields(texts: Iterable[str], start: int = _EMPTY) -> int:
    """The hash of the texts, each behind its length in bytes: `Hash128::field` of the backend."""
    state = start
    for text in texts:
        content = text.encode()
        state = fnv1a(len(content).to_bytes(8, "little") + content, state)
    return state


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of code objects that are made of the same headers."""

    headers: int
    """Hash of their names and texts."""

    @classmethod
    def with_headers_of(cls, sources: Sources) -> Origins:
        """For families of these sources."""
        return cls(hash_fields(text for header in sources.headers for text in (header.path, header.text)))

    def of(self, source: Source, code: Path) -> str:
        """What `<family>.origin` says of a family's code object. Raises OSError if that cannot be read."""
        hashed = hash_fields((source.path, source.text), self.headers)
        return f"{hashed:032x} {code.stat().st_size}\n"
