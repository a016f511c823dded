"""The declarations of one Rust file: items, their members and their signatures, modules and `use`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from codegen.syntax.source import attributes_of, cfg_predicate, is_comment, predicates_in, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

KINDS = {
    "function_item": "fn",
    "function_signature_item": "fn",
    "struct_item": "struct",
    "union_item": "union",
    "enum_item": "enum",
    "trait_item": "trait",
    "const_item": "const",
    "static_item": "static",
    "type_item": "type",
    "associated_type": "type",
    "macro_definition": "macro",
    "mod_item": "mod",
}
TYPES = frozenset({"struct", "union", "enum", "trait", "type"})
"""Kinds that have members, or stand for a type that has."""
_ATTRIBUTE = "attribute_item"
_CLOSING = frozenset(")]>}")
_SPACED = frozenset({",", ":", "=", "+", "->"})
"""A blank follows."""
_PIECE = re.compile(r"'?\w+|::|->|[^\w\s]")
_QUALIFIED = re.compile(r"(?:::)?(?:\b\w+::)+(?=\w)")


@dataclass(frozen=True, slots=True)
class Declared:
    """An item of a file, or a member of a type or trait: a method, a constant, a variant, a field."""

    kind: str
    """`fn`, `struct`, `enum`, `trait`, `variant` and so on."""
    name: str
    public: bool
    gate: str
    """Its own `cfg` predicates, joined by `, `; empty where it has none."""
    exported: bool
    """Whether it is a macro that stands at the root of the crate."""
    node: Node

    @property
    def signature(self) -> str:
        """What a caller has to know besides the name: types without their paths, no names of parameters, no values."""
        return _signature(self.kind, self.node)

    @property
    def members(self) -> Iterator[Declared]:
        """Public fields, variants, and what a trait declares."""
        body = self.node.child_by_field_name("body")
        if body is None or self.kind not in TYPES:
            return
        if self.kind == "trait":
            for child in body.named_children:
                if child.type in KINDS:
                    yield declared(child, public=True)
        elif self.kind == "enum":
            for child in body.named_children:
                if child.type == "enum_variant":
                    yield _part("variant", child, public=True)
        else:
            yield from _fields(body)


@dataclass(frozen=True, slots=True)
class Used:
    """One name that a `use` brings in."""

    alias: str
    """What it is called here; `*` for all names of a module."""
    target: tuple[str, ...]
    """The segments of its path; of `a::*`, those of `a`."""
    public: bool
    gate: str
    node: Node


@dataclass(frozen=True, slots=True)
class Impl:
    """`impl Type { .. }`, which is no implementation of a trait."""

    target: tuple[str, ...]
    """The path of the type, without its arguments."""
    gate: str
    members: tuple[Declared, ...]


def is_public(node: Node) -> bool:
    """Whether the item says `pub` without limits."""
    return any(child.type == "visibility_modifier" and text_of(child) == "pub" for child in node.children)


def own_gate(root: Node) -> str:
    """The predicates of a file's `#![cfg(..)]`, joined by `, `."""
    return predicates_in(child for child in root.named_children if child.type == "inner_attribute_item")


def items_in(container: Node) -> Iterator[Declared | Used | Impl]:
    """What a file, or the body of a module, declares. Text that macros make when Rust compiles it is not seen."""
    for node in container.named_children:
        if node.type in KINDS:
            yield declared(node, public=is_public(node))
        elif node.type == "use_declaration":
            argument = node.child_by_field_name("argument")
            if argument is not None:
                public, gate = is_public(node), cfg_predicate(node)
                for alias, target in _used(argument, ()):
                    yield Used(alias, target, public, gate, node)
        elif node.type == "impl_item" and node.child_by_field_name("trait") is None:
            owner, body = node.child_by_field_name("type"), node.child_by_field_name("body")
            if owner is not None and body is not None:
                inside = (each for each in body.named_children if each.type in KINDS)
                members = tuple(declared(each, public=is_public(each)) for each in inside)
                yield Impl(path_of(owner), cfg_predicate(node), members)


def declared(node: Node, *, public: bool) -> Declared:
    """The declaration that a node makes."""
    return _part(KINDS[node.type], node, public=public)


def _part(kind: str, node: Node, *, public: bool) -> Declared:
    exported = kind == "macro" and any("macro_export" in text_of(each) for each in attributes_of(node))
    return Declared(kind, _name(node), public, cfg_predicate(node), exported, node)


def _name(node: Node) -> str:
    named = node.child_by_field_name("name")
    return text_of(named) if named is not None else ""


def path_of(node: Node) -> tuple[str, ...]:
    """The segments of a type's or an item's path; of a generic type, without its arguments."""
    if node.type == "generic_type":
        inner = node.child_by_field_name("type")
        return path_of(inner) if inner is not None else ()
    if node.type in ("identifier", "type_identifier", "crate", "self", "super"):
        return (text_of(node),)
    if node.type in ("scoped_identifier", "scoped_type_identifier"):
        head, name = node.child_by_field_name("path"), node.child_by_field_name("name")
        return (*(path_of(head) if head is not None else ()), text_of(name) if name is not None else "")
    return ()


def _used(node: Node, prefix: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Alias and path of each name in the tree of a `use`."""
    match node.type:
        case "use_list":
            for child in node.named_children:
                if not is_comment(child):
                    yield from _used(child, prefix)
        case "scoped_use_list":
            head, inner = node.child_by_field_name("path"), node.child_by_field_name("list")
            if inner is not None:
                yield from _used(inner, (*prefix, *(path_of(head) if head is not None else ())))
        case "use_as_clause":
            path, alias = node.child_by_field_name("path"), node.child_by_field_name("alias")
            if path is not None and alias is not None:
                yield text_of(alias), _without_self((*prefix, *path_of(path)))
        case "use_wildcard":
            yield "*", (*prefix, *(path_of(node.named_children[0]) if node.named_children else ()))
        case _:
            target = _without_self((*prefix, *path_of(node)))
            if target:
                yield target[-1], target


def _without_self(path: tuple[str, ...]) -> tuple[str, ...]:
    """`a::self` is `a`."""
    return path[:-1] if len(path) > 1 and path[-1] == "self" else path


def _signature(kind: str, node: Node) -> str:
    match kind:
        case "fn":
            return _function(node)
        case "struct" | "union" | "enum":
            return plain(_texts(node, "type_parameters"))
        case "trait":
            return plain(_texts(node, "type_parameters", "bounds"))
        case "type":
            return plain(_texts(node, "type_parameters", "bounds", "type"))
        case "const" | "static":
            return plain(_texts(node, "type"))
        case "variant":
            return _fields_of(node.child_by_field_name("body"))
        case "field":
            return plain(_texts(node, "type") if node.type == "field_declaration" else text_of(node))
    return ""


def _function(node: Node) -> str:
    listed = node.child_by_field_name("parameters")
    types: list[str] = []
    for child in listed.named_children if listed is not None else ():
        if child.type == "self_parameter":
            types.append(text_of(child).removeprefix("mut "))
        elif child.type == "parameter":
            types.append(_texts(child, "type"))
    modifiers = " ".join(text_of(child) for child in node.children if child.type == "function_modifiers")
    where = " ".join(text_of(child) for child in node.children if child.type == "where_clause")
    returns = _texts(node, "return_type")
    arrow = f" -> {returns}" if returns else ""
    return plain(f"{modifiers} fn{_texts(node, 'type_parameters')}({', '.join(types)}){arrow} {where}")


def _texts(node: Node, *fields: str) -> str:
    return " ".join(text_of(child) for field in fields if (child := node.child_by_field_name(field)) is not None)


def plain(text: str) -> str:
    """Rust text in one spelling: no paths before names, no white space or commas that mean nothing."""
    kept: list[str] = []
    for piece in _PIECE.findall(text):
        if piece in _CLOSING and kept and kept[-1] == ",":
            kept.pop()
        kept.append(piece)
    if kept and kept[-1] == ",":
        kept.pop()
    spaced = (f" {piece}" if _parted(last, piece) else piece for last, piece in pairwise(("", *kept)))
    return _QUALIFIED.sub("", "".join(spaced))


def _parted(last: str, piece: str) -> bool:
    """Whether a blank stands between two pieces."""
    if not last or piece in _CLOSING or piece == ",":
        return False
    if last in _SPACED or piece in ("->", "=", "+"):
        return True
    return _is_word(piece) and (_is_word(last) or last in (">", ")"))


def _is_word(piece: str) -> bool:
    return piece[0].isalnum() or piece[0] in "_'"


def _fields_of(body: Node | None) -> str:
    """The types of a variant's fields; with their names where they have some."""
    if body is None:
        return ""
    if body.type == "ordered_field_declaration_list":
        types = [each for each in body.named_children if not is_comment(each) and each.type != _ATTRIBUTE]
        return plain(f"({', '.join(text_of(each) for each in types if each.type != 'visibility_modifier')})")
    fields = [each for each in body.named_children if each.type == "field_declaration"]
    return plain("{" + ", ".join(f"{_name(each)}: {_texts(each, 'type')}" for each in fields) + "}")


def _fields(body: Node) -> Iterator[Declared]:
    """The public fields of a struct; those of a tuple are called by their numbers."""
    if body.type == "field_declaration_list":
        for node in body.named_children:
            if node.type == "field_declaration" and is_public(node):
                yield _part("field", node, public=True)
        return
    number, public = 0, False
    for node in body.named_children:
        if node.type == "visibility_modifier":
            public = text_of(node) == "pub"
        elif not is_comment(node) and node.type != _ATTRIBUTE:
            if public:
                yield Declared("field", str(number), public, "", exported=False, node=node)
            number, public = number + 1, False
