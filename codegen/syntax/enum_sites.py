"""Variants of enums that nothing of ours answers: each is a site, though it names neither CUDA nor Metal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.syntax.constructs import macro_name, name_of
from codegen.syntax.site import Site
from codegen.syntax.source import text_of
from codegen.syntax.variants import enum_node, variants_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source

_SNIPPET = 120
_NAME = "NAME"
"""The constant of Candle's operation traits by which a backend finds its kernel."""


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An implementation of an operation trait."""

    variant: str
    """The type that implements it, which is a variant of the operations' enum."""
    name: str
    """Its `NAME`: `gelu_erf`."""
    site: Site


def unexpected_variants(source: Source, enum: str, expected: Collection[str], *, kind: str) -> tuple[Site, ...]:
    """A site of the kind for each variant of a file's enum that is not among the expected ones."""
    return tuple(site for site in variant_sites(source, enum, kind=kind) if site.name not in expected)


def variant_sites(source: Source, enum: str, *, kind: str) -> tuple[Site, ...]:
    """A site of the kind for each variant of a file's enum, in source order; none where the file has no such enum."""
    return tuple(_site(source, variant, enum, name_of(variant), kind) for variant in variants_of(source, enum) or ())


def enum_site(source: Source, enum: str, *, kind: str) -> Site | None:
    """The enum itself as a site of the kind; None where the file has no such enum."""
    node = enum_node(source, enum)
    return None if node is None else _site(source, node, "", enum, kind)


def named_operations(source: Source, trait: str, *, kind: str) -> tuple[NamedOperation, ...]:
    """The implementations of an operation trait in a file with the `NAME` of each, as sites of the kind.

    Candle writes them as `impl UnaryOpT for Gelu`, or with a macro of the file that does:
    `unary_op!(Exp, "exp", ...)`, `bin_op!(Add, add, ...)`.
    """
    return tuple(_named(source, trait, kind))


def _named(source: Source, trait: str, kind: str) -> Iterator[NamedOperation]:
    nodes = source.root.named_children
    defined = (node for node in nodes if node.type == "macro_definition")
    macros = {name_of(node) for node in defined if f"impl {trait} for" in text_of(node)}
    for node in nodes:
        if node.type == "impl_item" and text_of(node.child_by_field_name("trait") or node) == trait:
            variant = text_of(node.child_by_field_name("type") or node)
            found = _constant(node)
        elif macro_name(_call(node)) in macros:
            tokens = [child for child in _call(node).children if child.type == "token_tree"]
            variant, found = _arguments(tokens[0]) if tokens else ("", None)
        else:
            continue
        if found is not None:
            yield NamedOperation(variant, text_of(found).strip('"'), _site(source, found, trait, variant, kind))


def _call(node: Node) -> Node:
    """The macro call that a statement is (any other node as it is)."""
    inner = node.named_children if node.type == "expression_statement" else []
    return inner[0] if inner and inner[0].type == "macro_invocation" else node


def _constant(implementation: Node) -> Node | None:
    """The value of `const NAME`, where it is a string."""
    body = implementation.child_by_field_name("body")
    for item in body.named_children if body is not None else ():
        if item.type == "const_item" and name_of(item) == _NAME:
            value = item.child_by_field_name("value")
            return value if value is not None and value.type == "string_literal" else None
    return None


def _arguments(tokens: Node) -> tuple[str, Node | None]:
    """The first two arguments of a macro call: the variant, and the name as a string or a bare word."""
    given = [child for child in tokens.named_children if child.type in ("identifier", "string_literal")]
    return (text_of(given[0]), given[1]) if len(given) > 1 else ("", None)


def _site(source: Source, node: Node, item: str, name: str, kind: str) -> Site:
    return Site(
        path=source.path,
        kind=kind,
        start=node.start_byte,
        end=node.end_byte,
        line=source.line_of(node.start_byte),
        column=source.column_of(node.start_byte),
        item=item,
        name=name,
        snippet=text_of(node).split("\n", 1)[0].strip()[:_SNIPPET],
    )
