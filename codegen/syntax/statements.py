"""A statement in a function that names no backend."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from codegen.syntax.constructs import FUNCTIONS, item_name
from codegen.syntax.edit import TextEdit, indent_at, indented, with_newlines_of
from codegen.syntax.source import is_comment, text_of, unit_start

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source


def insert_statement(
    source: Source, function: str, before: str, statement: str, tails: Collection[str] = ()
) -> TextEdit | None:
    """Insert `statement` before the one of a function that begins with `before`, in its body or in a block of it.

    `function` is an item's path in the file, such as `Content::tensor`. None unless there is one such place, and, with
    `tails`, what follows there has one of these digests.
    """
    place = statement_at(source, function, before)
    if place is None or (tails and tail_digest(place) not in tails):
        return None
    start = unit_start(place)
    indent = indent_at(source, start)
    [edit] = with_newlines_of(source, [TextEdit(start, start, f"{indented(statement.rstrip(), indent)}\n{indent}")])
    return edit


def statement_at(source: Source, function: str, before: str) -> Node | None:
    """The only statement of a function that begins with `before`."""
    bodies = (node.child_by_field_name("body") for node in _functions(source.root, function.split("::")))
    statements = [statement for body in bodies if body is not None for statement in _statements(body)]
    places = [statement for statement in statements if text_of(statement).startswith(before)]
    return places[0] if len(places) == 1 else None


def tail_digest(statement: Node) -> str:
    """What stands for the text from a statement to the end of its block, whatever its blanks and comments are."""
    words: list[str] = []
    node: Node | None = statement
    while node is not None:
        words += _words(node)
        node = node.next_named_sibling
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def _words(node: Node) -> Iterator[str]:
    if is_comment(node):
        return
    if node.child_count == 0 or node.type == "string_literal":
        yield text_of(node)
    for child in node.children if node.type != "string_literal" else ():
        yield from _words(child)


def _statements(block: Node) -> Iterator[Node]:
    for child in block.named_children:
        yield child
        yield from _inner_statements(child)


def _inner_statements(node: Node) -> Iterator[Node]:
    """Those of the blocks below a statement, and not of functions in it."""
    for child in node.named_children:
        if child.type == "block":
            yield from _statements(child)
        elif child.type not in FUNCTIONS:
            yield from _inner_statements(child)


def _functions(node: Node, path: list[str]) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == "declaration_list":
            yield from _functions(child, path)
        elif item_name(child) == path[0]:
            if len(path) == 1 and child.type in FUNCTIONS:
                yield child
            elif len(path) > 1:
                yield from _functions(child, path[1:])
