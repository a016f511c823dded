"""The Rust grammar: the one place that makes tree-sitter objects."""

from __future__ import annotations

import time
from functools import cache

import tree_sitter_rust
from tree_sitter import Language, Parser, Query, Tree

MOST_SECONDS = 5.0
"""Of this thread's time; all of Candle takes 0.2. Text that is no Rust can take the square of its size."""


@cache
def rust_language() -> Language:
    """The tree-sitter grammar of Rust."""
    return Language(tree_sitter_rust.language())


@cache
def rust_parser() -> Parser:
    """A parser for Rust; parsers keep no state between files."""
    return Parser(rust_language())


_PIECE = 1 << 16
_MOST_READ = 16 << 20
"""Bytes that may be read again and again of a text, which tree-sitter keeps until the end."""


class TooSlow(Exception):
    """A file whose parsing takes too long."""


def parse_rust(text: bytes, *, seconds: float = MOST_SECONDS) -> Tree:
    """The syntax tree of a text. Raises `TooSlow` after so many seconds."""
    parser, deadline = rust_parser(), time.thread_time() + seconds
    left = _MOST_READ + 4 * len(text)

    def piece(at: int, _: object) -> bytes:
        nonlocal left
        left -= _PIECE
        return text[at : at + _PIECE]

    try:
        # Only text that is asked for piece by piece can be given up on; the tree has to know the whole of it.
        found = parser.parse(piece, progress_callback=lambda *_: left < 0 or time.thread_time() > deadline)
    except ValueError as cause:
        parser.reset()
        raise TooSlow from cause
    return parser.parse(text, found)


@cache
def rust_query(text: str) -> Query:
    """A compiled query; compiled once per process."""
    return Query(rust_language(), text)
