"""What the CUDA arms of a match answer with: a name or a number of CUDA's own is copied by mirroring, right or wrong.

`Device::Cuda(_) => 2` may be the number that another library has for CUDA, and `"cuda"` a name that others know. Both
compile when they are mirrored, so a person has to look.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.constructs import callee, macro_name
from codegen.syntax.matches import arms_of, descendants, names_backend, pattern_of
from codegen.syntax.source import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.site import Site
    from codegen.syntax.source import Source

MOST_NAMED = 3
"""Answers that are named of one site."""
_LONGEST = 40
_NUMBERS = frozenset({"integer_literal", "float_literal"})
_STRINGS = ("string_literal", "raw_string_literal")
_ERRORS = frozenset({"bail", "panic", "unimplemented", "todo", "unreachable", "anyhow", "ensure", "assert"})
_WRAPPERS = frozenset({"Ok", "Some"})
_NAMES_CUDA = re.compile("cuda", re.IGNORECASE)


def cuda_answers(source: Source, site: Site) -> tuple[str, ...]:
    """`"cuda:{}" at line 12`: what the site's CUDA arms answer with that is CUDA's own; errors are no answers."""
    if site.kind not in ("match", "match-str"):
        return ()
    found: list[str] = []
    for arm in arms_of(source.node_at(site.start, site.end, "match_expression")):
        value = arm.child_by_field_name("value")
        if value is not None and names_backend(pattern_of(arm), "cuda"):
            found += (f"{_quoted(each)} at line {source.line_of(each.start_byte)}" for each in _answers(value))
    more = len(found) - MOST_NAMED
    return (*found[:MOST_NAMED], *((f"{more} more",) if more > 0 else ()))


def _answers(value: Node) -> Iterator[Node]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if node.type in _NUMBERS or (node.type == "unary_expression" and node.children[-1].type in _NUMBERS):
            yield node
        elif _is_error(node):
            continue
        elif (inner := _inner_answers(node)) is not None:
            waiting += reversed(inner)
        else:
            yield from (text for text in descendants(node, *_STRINGS) if _NAMES_CUDA.search(text_of(text)))


def _inner_answers(node: Node) -> list[Node] | None:
    """The expressions that give the node its value; None for one that is looked at as a whole."""
    match node.type:
        case "block":
            return [node.named_children[-1]] if node.named_children else []
        case "parenthesized_expression" | "return_expression" | "expression_statement" | "else_clause":
            return list(node.named_children)
        case "tuple_expression":
            return list(node.named_children)
        case "call_expression" if callee(node) in _WRAPPERS:
            arguments = node.child_by_field_name("arguments")
            return list(arguments.named_children) if arguments is not None else []
        case "if_expression":
            branches = (node.child_by_field_name(name) for name in ("consequence", "alternative"))
            return [branch for branch in branches if branch is not None]
        case "match_expression":
            values = (arm.child_by_field_name("value") for arm in arms_of(node))
            return [value for value in values if value is not None]
    return None


def _is_error(node: Node) -> bool:
    if node.type == "macro_invocation":
        return (macro_name(node) or "").rpartition("::")[2] in _ERRORS
    if node.type == "call_expression":
        function = node.child_by_field_name("function")
        return function is not None and re.search(r"(^|::)(Err|Error::\w+|msg)$", text_of(function)) is not None
    return False


def _quoted(node: Node) -> str:
    text = " ".join(text_of(node).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
