"""The variants of an enum of a Candle release, read from Candle's own declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, UnknownSite
from codegen.syntax.source import Source, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node


def enum_variants(source: bytes, name: str, *, path: str) -> tuple[str, ...]:
    """The variants of the enum `name` of a Rust file, in source order; `path` is for messages.

    Raises UnknownSite when the file has no such enum.
    """
    file = Source.parse(path, source)
    for node in file.root.named_children:
        if node.type == "enum_item" and _named(node) == name:
            return tuple(_named(variant) for variant in _variants(node))
    raise UnknownSite(
        Problem(f"no enum {name} in this file", Location.in_text(path, source.decode(), 1)),
        remedy="Candle renamed or moved it: the templates that are rendered from its variants have to follow.",
    )


def _variants(enum: Node) -> Iterator[Node]:
    body = enum.child_by_field_name("body")
    yield from (child for child in (body.named_children if body else ()) if child.type == "enum_variant")


def _named(node: Node) -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else text_of(name)
