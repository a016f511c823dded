"""A statement in a function that names no backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.syntax.constructs import FUNCTIONS, item_name
from codegen.syntax.edit import TextEdit, indent_at, indented, with_newlines_of
from codegen.syntax.source import text_of, unit_start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source


def insert_statement(source: Source, function: str, before: str, statement: str) -> TextEdit | None:
    """Insert `statement` before the one of a function's body that begins with `before`.

    `function` is an item's path in the file, such as `Content::tensor`. None unless there is one such place.
    """
    bodies = (node.child_by_field_name("body") for node in _functions(source.root, function.split("::")))
    statements = [child for body in bodies if body is not None for child in body.named_children]
    places = [statement for statement in statements if text_of(statement).startswith(before)]
    if len(places) != 1:
        return None
    start = unit_start(places[0])
    indent = indent_at(source, start)
    [edit] = with_newlines_of(source, [TextEdit(start, start, f"{indented(statement.rstrip(), indent)}\n{indent}")])
    return edit


def _functions(node: Node, path: list[str]) -> Iterator[Node]:
    for child in node.named_children:
        if child.type == "declaration_list":
            yield from _functions(child, path)
        elif item_name(child) == path[0]:
            if len(path) == 1 and child.type in FUNCTIONS:
                yield child
            elif len(path) > 1:
                yield from _functions(child, path[1:])
