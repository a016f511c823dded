"""The variants of an enum of a Candle release, read from Candle's own declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, UnknownSite
from codegen.syntax.constructs import name_of
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node


def enum_variants(source: bytes, name: str, *, path: str) -> tuple[str, ...]:
    """The variants of the enum `name` of a Rust file, in source order; `path` is for messages.

    Raises UnknownSite when the file has no such enum.
    """
    found = variants_of(Source.parse(path, source), name)
    if found is not None:
        return tuple(map(name_of, found))
    raise UnknownSite(
        Problem(f"no enum {name} in this file", Location.in_text(path, source.decode(), 1)),
        remedy="Candle renamed or moved it: the templates that are rendered from its variants have to follow.",
    )


def variants_of(source: Source, name: str) -> tuple[Node, ...] | None:
    """The nodes of the variants of an enum at file level, in source order; None where the file has no such enum."""
    node = enum_node(source, name)
    return None if node is None else tuple(_variants(node))


def enum_node(source: Source, name: str) -> Node | None:
    """The enum of that name at file level; None where the file has no such enum."""
    found = (node for node in source.root.named_children if node.type == "enum_item" and name_of(node) == name)
    return next(found, None)


def _variants(enum: Node) -> Iterator[Node]:
    body = enum.child_by_field_name("body")
    yield from (child for child in (body.named_children if body else ()) if child.type == "enum_variant")
