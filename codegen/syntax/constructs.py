"""What the scan asks about single nodes: their names, and how far the construct they belong to reaches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.source import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source

FUNCTIONS = frozenset({"function_item", "function_signature_item"})
_NAMED_ITEMS = FUNCTIONS | {"trait_item", "mod_item", "enum_item", "struct_item", "macro_definition"}
_BOOLEANS = frozenset(
    {"binary_expression", "unary_expression", "parenthesized_expression", "let_chain", "let_declaration"}
)


def attribute_name(attribute: Node) -> str:
    """`cfg_attr` for `#[cfg_attr(...)]`."""
    return re.sub(r"^#!?\[\s*([\w:]*).*", r"\1", text_of(attribute), flags=re.DOTALL)


def macro_name(node: Node) -> str:
    """The last segment of a macro call's path, empty for any other node."""
    if node.type != "macro_invocation":
        return ""
    return text_of(node.child_by_field_name("macro") or node).split("::")[-1]


def name_of(node: Node) -> str:
    """The item's own name, or an empty string."""
    name = node.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def item_name(node: Node) -> str:
    """What the item contributes to the path of a site inside it: its name, or the type that an impl is for."""
    if node.type == "impl_item":
        target = node.child_by_field_name("type")
        return text_of(target).split("<")[0] if target is not None else ""
    return name_of(node) if node.type in _NAMED_ITEMS else ""


def callee(call: Node) -> str:
    """The last segment of what the call calls."""
    function = call.child_by_field_name("function")
    return re.split(r"::|\.", text_of(function).split("<")[0])[-1] if function is not None else ""


def covers(outer: Node, inner: Node) -> bool:
    """True if the one node lies in the other."""
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def has_let(condition: Node) -> bool:
    """True for the conditions of `if let`."""
    return condition.type in ("let_condition", "let_chain")


def condition_holder(chain: list[Node], depth: int) -> Node | None:
    """The `if` or `while` whose condition the `let` at `depth` of a chain is, or is a part of."""
    while depth and chain[depth - 1].type in ("let_chain", "parenthesized_expression", "binary_expression"):
        depth -= 1
    holder = chain[depth - 1] if depth else None
    if holder is not None and holder.type in ("if_expression", "while_expression"):
        return holder if holder.child_by_field_name("condition") == chain[depth] else None
    return None


def condition_end(source: Source, node: Node) -> int:
    """A condition claims its consequence when that names CUDA too: the two belong together.

    The `else` of a `let` does not belong to it: it runs on the other backends.
    """
    if node.type == "let_declaration":
        otherwise = node.child_by_field_name("alternative")
        return otherwise.start_byte if otherwise is not None else node.end_byte
    condition = node.child_by_field_name("condition")
    consequence = node.child_by_field_name("consequence") or node.child_by_field_name("body")
    if condition is None or consequence is None:
        return node.end_byte
    named = source.mentions("cuda", consequence.start_byte, consequence.end_byte)
    return consequence.end_byte if named else condition.end_byte


def boolean_around(chain: list[Node], depth: int) -> Node:
    """The largest boolean expression that the node at `depth` is an operand of, or the statement that is no more."""
    while depth and chain[depth - 1].type in _BOOLEANS:
        depth -= 1
    return chain[depth]


def statement_of(node: Node, chain: list[Node]) -> tuple[Node, list[Node]]:
    """The statement or impl-level item that the macro call is, or is the main part of, and what encloses it."""
    for index in range(len(chain) - 1, 0, -1):
        candidate, outer = chain[index], chain[:index]
        if candidate.type == "expression_statement":
            return candidate, outer
        if candidate is node and outer[-1].type in ("declaration_list", "source_file"):
            return node, outer
        if candidate.type in ("block", "let_declaration", "match_arm", "declaration_list"):
            break
    return node, chain[:-1]


def first_of_chain(chain: list[Node], depth: int) -> Node:
    """The first `if` of the `if` / `else if` chain that the one at `depth` is part of."""
    while depth > 1 and chain[depth - 1].type == "else_clause":
        depth -= 2
    return chain[depth]


def conditions_name_cuda(first: Node) -> bool:
    """True if any condition of the `if` / `else if` chain names CUDA."""
    return any("cuda" in text_of(condition).lower() for condition in _conditions(first))


def _conditions(node: Node | None) -> Iterator[Node]:
    while node is not None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            yield condition
        alternative = node.child_by_field_name("alternative")
        members = alternative.children if alternative is not None else []
        node = next((child for child in members if child.type == "if_expression"), None)
