"""What a Rust file says about tests: functions, modules, macros and the attributes that decide over them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from codegen.syntax.grammar import rust_parser
from codegen.syntax.source import attributes_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

_ATTRIBUTE = re.compile(r"#!?\[\s*(?P<path>[\w:]+)\s*(?P<rest>.*)\]$", re.DOTALL)
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """`#[path(arguments)]` or `#[path = arguments]`."""

    path: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A function at the level of items: libtest sees no others."""

    name: str
    attributes: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """`mod name;`, whose `items` are None, or `mod name { items }`."""

    name: str
    attributes: tuple[Attribute, ...]
    items: tuple[Item, ...] | None


@dataclass(frozen=True, slots=True)
class Invocation:
    """A macro call that stands where items do."""

    name: str
    attributes: tuple[Attribute, ...]
    text: str
    """What is between its brackets."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The text, parted at commas that stand in no brackets."""
        return split_at_commas(self.text)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a `macro_rules!`."""

    parameters: tuple[str, ...] | None
    """The names of `$name: fragment, ...`; None for a pattern that is not such a list."""
    body: str

    def expanded(self, arguments: Sequence[str]) -> str | None:
        """The body with the arguments in it; None if they do not fit."""
        if self.parameters is None or len(self.parameters) != len(arguments):
            return None
        values = dict(zip(self.parameters, arguments, strict=True))
        return re.sub(r"\$(\w+)", lambda use: values.get(use[1], use[0]), self.body)


@dataclass(frozen=True, slots=True)
class Macro:
    """A `macro_rules!`."""

    name: str
    attributes: tuple[Attribute, ...]
    rules: tuple[Rule, ...]


Item = Function | Module | Invocation | Macro


@dataclass(frozen=True, slots=True)
class Items:
    """A file, or what a macro expands to."""

    attributes: tuple[Attribute, ...]
    """The file's own ones, such as `#![cfg(...)]`."""
    items: tuple[Item, ...]


@lru_cache(maxsize=4096)
def items_of(text: bytes) -> Items:
    """The items of a file, or of a macro's expansion. Releases share most files, so what was parsed is kept."""
    root = rust_parser().parse(text).root_node
    inner = (child for child in root.children if child.type == "inner_attribute_item")
    return Items(tuple(_attributes(inner)), tuple(_items(root)))


def split_at_commas(text: str) -> tuple[str, ...]:
    """The parts of `a, f(b, c), d` between commas outside brackets and strings; a trailing comma adds none."""
    parts, depth, start, quoted = [], 0, 0, False
    for at, character in enumerate(text):
        if character == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return (*parts, last) if last else tuple(parts)


def _items(parent: Node) -> Iterator[Item]:
    for node in parent.children:
        if node.type == "function_item":
            yield Function(_name(node), tuple(_attributes(attributes_of(node))))
        elif node.type == "mod_item":
            body = node.child_by_field_name("body")
            items = tuple(_items(body)) if body is not None else None
            inner = [] if body is None else [each for each in body.children if each.type == "inner_attribute_item"]
            yield Module(_name(node), tuple(_attributes([*attributes_of(node), *inner])), items)
        elif node.type == "macro_definition":
            rules = tuple(_rule(child) for child in node.named_children if child.type == "macro_rule")
            yield Macro(_name(node), tuple(_attributes(attributes_of(node))), rules)
        elif (call := _macro_call(node)) is not None:
            yield _invocation(call, tuple(_attributes(attributes_of(node))))
        elif node.type == "ERROR":
            # Syntax that the grammar does not know; the items in it are whole.
            yield from _items(node)


def _macro_call(node: Node) -> Node | None:
    if node.type == "expression_statement" and node.named_children:
        node = node.named_children[0]
    return node if node.type == "macro_invocation" else None


def _invocation(node: Node, attributes: tuple[Attribute, ...]) -> Invocation:
    path = node.child_by_field_name("macro")
    name = text_of(path).rpartition("::")[2] if path is not None else ""
    tree = next((text_of(child) for child in node.named_children if child.type == "token_tree"), "()")
    return Invocation(name, attributes, tree[1:-1])


def _rule(node: Node) -> Rule:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    pattern = text_of(left)[1:-1] if left is not None else ""
    names = [re.fullmatch(r"\$(\w+)\s*:\s*\w+", part) for part in split_at_commas(pattern)]
    found = tuple(name[1] for name in names if name is not None)
    body = text_of(right)[1:-1] if right is not None else ""
    return Rule(found if len(found) == len(names) else None, body)


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def _attributes(nodes: Iterator[Node] | Sequence[Node]) -> Iterator[Attribute]:
    for node in nodes:
        match = _ATTRIBUTE.match(text_of(node).strip())
        if match is not None:
            yield Attribute(match["path"], _arguments(match["rest"].strip()))


def _arguments(text: str) -> str:
    if text.startswith("=") and not text.startswith("=="):
        return text[1:].strip().strip('"')
    return text[1:-1].strip() if text[:1] in _OPENING and text else ""
