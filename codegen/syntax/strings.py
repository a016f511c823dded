"""The strings that an expression can be: `"a"`, the arms of a match, `format!("{name}_f32")`, a name bound to these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.syntax.constructs import callee, macro_name, name_of
from codegen.syntax.matches import arms_of
from codegen.syntax.source import is_comment, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source

FILLED_IN = "*"
"""Stands for what a `format!` fills in when the program runs."""
MOST_STEPS, MOST_DEPTH, MOST_LETTERS = 2_000, 50, 500
"""Nodes that are looked at for one expression, names and calls that lead from one to the next, letters of a string:
what has more cannot be read. Candle's longest takes 130 steps."""

_BYTES_A_STEP = 100
_STRINGS = frozenset({"string_literal", "raw_string_literal"})
_LEAVES = frozenset({"return_expression", "break_expression", "continue_expression"})
_FAILS = frozenset({"bail", "panic", "unreachable", "unimplemented", "todo"})
_SAME = frozenset({"as_ref", "as_str", "clone", "into", "to_owned", "to_string"})
"""Methods whose result has the receiver's text."""
_BLOCKS = frozenset({"block", "source_file", "declaration_list"})
_BINDERS = frozenset({"closure_expression", "for_expression", "if_expression", "match_arm", "while_expression"})
_HOLE = re.compile(r"\{\{|\}\}|\{([^{}:]*)(?::[^{}]*)?\}")


@dataclass(frozen=True, slots=True)
class Spelled:
    """One string that an expression can be."""

    text: str | None
    """With `FILLED_IN` where it depends on more; None where nothing is known of it."""
    node: Node
    """The literal that tells it from the expression's other strings, or what cannot be read."""


def strings_of(source: Source, expression: Node) -> tuple[Spelled, ...]:
    """The strings that the expression can be, in source order; paths that leave the function have none."""
    return tuple(_Reader(source).read(_Value(expression), MOST_DEPTH))


@dataclass(frozen=True, slots=True)
class _Value:
    """An expression, or a part of the tuple that it is: `(1, 0)` is the first of its second member."""

    node: Node
    part: tuple[int, ...] = ()


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.left = MOST_STEPS

    def read(self, value: _Value, depth: int) -> Iterator[Spelled]:
        """The strings that a value can be, at most so many steps away from it."""
        node = value.node
        self.left -= 1
        if self.left < 0 or depth == 0:
            yield Spelled(None, node)
        elif (inner := self._inner(node, value.part)) is not None:
            for each in inner:
                yield from self.read(each, depth - 1)
        elif node.type in _STRINGS and not value.part:
            yield Spelled(_content(node), node)
        elif node.type == "macro_invocation" and macro_name(node) == "format" and not value.part:
            yield from self._formatted(node, depth)
        elif not _never(node):
            yield Spelled(None, node)

    def _inner(self, node: Node, part: tuple[int, ...]) -> list[_Value] | None:
        """The values that are the node's, each with the part that counts; None where it has its own."""
        match node.type:
            case "reference_expression" | "parenthesized_expression" | "unsafe_block" | "else_clause":
                return [_Value(child, part) for child in _members(node)[-1:]]
            case "block" | "expression_statement":
                return [_Value(child, part) for child in _members(node)[-1:]]
            case "match_expression":
                values = (arm.child_by_field_name("value") for arm in arms_of(node))
                return [_Value(value, part) for value in values if value is not None]
            case "if_expression":
                branches = (node.child_by_field_name(name) for name in ("consequence", "alternative"))
                return [_Value(branch, part) for branch in branches if branch is not None]
            case "tuple_expression" if part and part[0] < len(_members(node)):
                return [_Value(_members(node)[part[0]], part[1:])]
            case "identifier":
                bound = self._bound(text_of(node), node)
                return None if bound is None else [_Value(bound.node, (*bound.part, *part))]
            case "call_expression" if not part:
                same = _same_text(node)
                return None if same is None else [_Value(same)]
        return None

    def _bound(self, name: str, at: Node) -> _Value | None:
        """What a name stands for at a node; None where no `let` or `const` says so."""
        chain = self.source.chain(at.start_byte, at.end_byte)
        self.left -= len(chain)
        local = True
        for node in reversed(chain):
            if self.left < 0:
                return None
            if node.type in _BLOCKS:
                item = self._binding(node, name, at, local=local)
                if item is not None:
                    return _value_of(item, name)
            elif local and node.type in _BINDERS | {"function_item"} and self._takes(node, name, at):
                return None
            local = local and node.type != "function_item"
        return None

    def _binding(self, block: Node, name: str, at: Node, *, local: bool) -> Node | None:
        """The last `let` in front of a node that binds the name, or the `const` of that name."""
        items = block.named_children
        self.left -= len(items)
        for item in reversed(items):
            if item.type == "let_declaration":
                if local and item.end_byte <= at.start_byte and _has_word(item.child_by_field_name("pattern"), name):
                    return item
            elif item.type in ("const_item", "static_item") and name_of(item) == name:
                return item
        return None

    def _takes(self, binder: Node, name: str, at: Node) -> bool:
        """Whether a function, closure, arm, loop or `if let` binds the name in front of its body."""
        holders = [binder]
        condition = binder.child_by_field_name("condition")
        if condition is not None:
            holders += condition.named_children if condition.type == "let_chain" else [condition]
        fields = (holder.child_by_field_name(field) for holder in holders for field in ("parameters", "pattern"))
        heads = [head for head in fields if head is not None and head.end_byte <= at.start_byte]
        self.left -= len(holders) + sum(head.end_byte - head.start_byte for head in heads) // _BYTES_A_STEP
        return any(_has_word(head, name) for head in heads)

    def _formatted(self, macro: Node, depth: int) -> Iterator[Spelled]:
        """The strings of a `format!`: each hole has those of what is filled in, where they are known."""
        tokens = next((child for child in macro.children if child.type == "token_tree"), None)
        inside = [child for child in tokens.children[1:-1] if not is_comment(child)] if tokens is not None else []
        if not inside or inside[0].type not in _STRINGS:
            yield Spelled(None, macro)
            return
        literal, values = inside[0], _arguments(inside[1:])
        template, made, at = _content(literal), [Spelled("", literal)], 0
        for hole in _HOLE.finditer(template):
            escaped = hole[0] in ("{{", "}}")
            filled = [Spelled(hole[0][0], literal)] if escaped else self._filled(hole[1], values, literal, depth)
            self.left -= len(made) * len(filled)
            if self.left < 0:
                yield Spelled(None, macro)
                return
            made = _joined(made, [Spelled(template[at : hole.start()], literal)], literal)
            made = _joined(made, filled, literal)
            at = hole.end()
        yield from _joined(made, [Spelled(template[at:], literal)], literal)

    def _filled(self, hole: str, values: list[tuple[str, Node | None]], literal: Node, depth: int) -> list[Spelled]:
        """What a hole may be filled with: a name in scope, or the argument of that name or the next one."""
        unknown = [Spelled(FILLED_IN, literal)]
        name, at = hole.strip(), literal
        given = dict(values).get(name, literal) if name else values.pop(0)[1] if values else None
        if given is None:
            return unknown
        if given is not literal:
            name, at = text_of(given), given
        bound = self._bound(name, at) if name.isidentifier() else None
        found = list(self.read(bound, depth - 1)) if bound is not None else []
        return unknown if not found or any(each.text is None for each in found) else found


def _members(node: Node) -> list[Node]:
    return [child for child in node.named_children if not is_comment(child) and child.type != "mutable_specifier"]


def _content(literal: Node) -> str:
    """What stands between the quotes, as it is written."""
    return re.sub(r'^[a-z]*#*"|"#*$', "", text_of(literal))


def _joined(fronts: list[Spelled], backs: list[Spelled], literal: Node) -> list[Spelled]:
    """Each front with each back; the place that counts is that of what is filled in, not of the format's literal."""
    texts = ((f"{front.text}{back.text}", front, back) for front in fronts for back in backs)
    return [
        Spelled(text if len(text) <= MOST_LETTERS else FILLED_IN, front.node if back.node == literal else back.node)
        for text, front, back in texts
    ]


def _arguments(tokens: list[Node]) -> list[tuple[str, Node | None]]:
    """The arguments behind a format string with the names they are given; None for one that is no single name."""
    pieces: list[list[Node]] = []
    for token in tokens:
        if token.type == ",":
            pieces.append([])
        elif pieces:
            pieces[-1].append(token)
    found: list[tuple[str, Node | None]] = []
    for piece in filter(None, pieces):
        named = len(piece) > 2 and piece[1].type == "="
        value = piece[2:] if named else piece
        found.append((text_of(piece[0]) if named else "", value[0] if len(value) == 1 else None))
    return found


def _never(node: Node) -> bool:
    """Whether the expression has no value: it returns, fails or ends the program."""
    if node.type in _LEAVES:
        return True
    if node.type == "macro_invocation":
        return macro_name(node) in _FAILS
    if node.type == "try_expression":
        inner = _members(node)[:1]
        return bool(inner) and inner[0].type == "call_expression" and callee(inner[0]) == "Err"
    return False


def _same_text(call: Node) -> Node | None:
    """What has the text of the call's result: `name` in `name.to_string()` and in `String::from(name)`."""
    function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    if function is None or arguments is None:
        return None
    if function.type == "field_expression" and callee(call) in _SAME and not _members(arguments):
        return function.child_by_field_name("value")
    if text_of(function) == "String::from" and len(_members(arguments)) == 1:
        return _members(arguments)[0]
    return None


def _path_to(name: str, pattern: Node | None) -> tuple[int, ...] | None:
    """Where a pattern binds the name: `(1,)` for the second member of a tuple; None where it does not."""
    if pattern is None:
        return None
    if pattern.type == "identifier":
        return () if text_of(pattern) == name else None
    if pattern.type == "tuple_pattern":
        for index, member in enumerate(_members(pattern)):
            path = _path_to(name, member)
            if path is not None:
                return (index, *path)
    return None


def _value_of(item: Node, name: str) -> _Value | None:
    """What a `let` or `const` says that the name is; None where it does not yet, or another may follow."""
    value = item.child_by_field_name("value")
    path = _path_to(name, item.child_by_field_name("pattern")) if item.type == "let_declaration" else ()
    changes = item.type == "let_declaration" and any(child.type == "mutable_specifier" for child in item.children)
    return None if value is None or path is None or changes else _Value(value, path)


def _has_word(node: Node | None, word: str) -> bool:
    return node is not None and re.search(rf"\b{re.escape(word)}\b", text_of(node)) is not None
