"""The Rust grammar: the one place that makes tree-sitter objects."""

from __future__ import annotations

from functools import cache

import tree_sitter_rust
from tree_sitter import Language, Parser, Query


@cache
def rust_language() -> Language:
    """The tree-sitter grammar of Rust."""
    return Language(tree_sitter_rust.language())


@cache
def rust_parser() -> Parser:
    """A parser for Rust; parsers keep no state between files."""
    return Parser(rust_language())


@cache
def rust_query(text: str) -> Query:
    """A compiled query; compiled once per process."""
    return Query(rust_language(), text)
