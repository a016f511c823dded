"""Method signatures of a Candle release, read from Candle's own traits and impl blocks.

The generated backend is written from these, so a method that a future release adds shows up in the list by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, UnknownSite
from codegen.syntax.grammar import rust_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_COMMENTS = frozenset({"line_comment", "block_comment"})


@dataclass(frozen=True, slots=True)
class Method:
    """One function of a trait or impl block, as its author declared it."""

    name: str
    generics: str
    """`<B: UnaryOpT>` with the angle brackets, or empty."""
    receiver: str | None
    """`&self`, `&mut self`, `self: Arc<Self>`; None for an associated function."""
    params: tuple[str, ...]
    """Types of the parameters after the receiver."""
    returns: str | None
    """The return type, or None for `()`."""
    where_clause: tuple[str, ...]
    """Predicates, without commas."""
    modifiers: tuple[str, ...]
    """`unsafe`, `async`, `const`, `extern "C"`, in source order."""
    visibility: str
    attributes: tuple[str, ...]
    has_default_body: bool
    text: str
    """The declaration as written, without its body."""
    types: tuple[str, ...]
    """Names that the signature needs in scope (types, traits, first segments of paths), in order of appearance."""
    location: Location

    @property
    def is_unsafe(self) -> bool:
        """Whether callers need an `unsafe` block."""
        return "unsafe" in self.modifiers

    @property
    def is_fallible(self) -> bool:
        """Whether the method returns a `Result`, qualified or not."""
        return self.returns is not None and re.match(r"(\w+::)*Result\b", self.returns) is not None

    @property
    def cfg(self) -> tuple[str, ...]:
        """The `#[cfg(...)]` attributes, which an implementation must repeat."""
        return tuple(a for a in self.attributes if a.startswith("#[cfg("))


@dataclass(frozen=True, slots=True)
class AssociatedType:
    """`type Name: Bounds;` of a trait."""

    name: str
    bounds: str
    """`BackendDevice`, or empty."""
    location: Location


@dataclass(frozen=True, slots=True)
class Trait:
    """What an implementation of a trait has to provide."""

    name: str
    bounds: str
    """What it extends, `WithDType + num_traits::Bounded`, or empty."""
    types: tuple[AssociatedType, ...]
    methods: tuple[Method, ...]
    location: Location

    def method(self, name: str) -> Method | None:
        """The method of that name, if the release has it."""
        return next((m for m in self.methods if m.name == name), None)


def parse_trait(source: bytes, name: str, *, path: str) -> Trait:
    """The trait `name` of a Rust file; `path` is for messages.

    Raises UnknownSite when the file has no such trait, or the trait has an item of a kind that we cannot implement.
    """
    root = rust_parser().parse(source).root_node
    for node in _items(root):
        if node.type == "trait_item" and _field(node, "name") == name:
            return _trait(node, source, path)
    raise UnknownSite(
        Problem(f"no trait {name} in this file", Location.in_text(path, _text_of(source), 1)),
        remedy="Candle renamed or moved it: the specs and templates for the backend's traits have to follow.",
    )


def parse_inherent(source: bytes, type_name: str, *, path: str) -> tuple[Method, ...]:
    """Methods of every `impl TypeName { ... }` of a Rust file (trait impls excluded); empty when there is none."""
    root = rust_parser().parse(source).root_node
    methods: list[Method] = []
    for node in _items(root):
        if node.type != "impl_item" or node.child_by_field_name("trait") is not None:
            continue
        if _field(node, "type") != type_name:
            continue
        _refuse_errors(node, source, path, f"impl {type_name}")
        methods.extend(_methods(node, source, path))
    return tuple(methods)


def parse_imports(source: bytes) -> dict[str, str]:
    """Names that a file's `use` declarations bring into scope, each with the full path it stands for.

    `use crate::op::{CmpOp, ReduceOp as R};` gives `{"CmpOp": "crate::op::CmpOp", "R": "crate::op::ReduceOp"}`. Globs
    name nothing and are left out.
    """
    root = rust_parser().parse(source).root_node
    found: dict[str, str] = {}
    for node in root.named_children:
        if node.type == "use_declaration":
            argument = node.child_by_field_name("argument")
            if argument is not None:
                found.update(_used(argument, ""))
    return found


def _used(node: Node, prefix: str) -> Iterator[tuple[str, str]]:
    if node.type == "use_list":
        for child in node.named_children:
            if child.type not in _COMMENTS:
                yield from _used(child, prefix)
    elif node.type == "scoped_use_list":
        head = node.child_by_field_name("path")
        inner = node.child_by_field_name("list")
        if inner is not None:
            yield from _used(inner, prefix if head is None else f"{prefix}{_text(head)}::")
    elif node.type == "use_as_clause":
        yield _field(node, "alias"), (prefix + _field(node, "path")).removesuffix("::self")
    elif node.type == "self":
        yield prefix.removesuffix("::").rpartition("::")[2], prefix.removesuffix("::")
    elif node.type != "use_wildcard":
        text = _text(node)
        yield text.rpartition("::")[2], prefix + text


def _trait(node: Node, source: bytes, path: str) -> Trait:
    name = _field(node, "name")
    _refuse_errors(node, source, path, f"trait {name}")
    types: list[AssociatedType] = []
    for child in _body(node).named_children:
        if child.type == "associated_type":
            types.append(AssociatedType(_field(child, "name"), _bounds(child), _location(child, source, path)))
        elif child.type not in _COMMENTS | {"function_signature_item", "function_item", "attribute_item"}:
            raise UnknownSite(
                Problem(f"trait {name} has an item of a new kind ({child.type})", _location(child, source, path)),
                remedy="Teach codegen/syntax/signatures.py and the backend templates about it.",
            )
    methods = tuple(_methods(node, source, path))
    return Trait(name, _bounds(node), tuple(types), methods, _location(node, source, path))


def _bounds(node: Node) -> str:
    bounds = node.child_by_field_name("bounds")
    return "" if bounds is None else _flat(_text(bounds)).removeprefix(":").strip()


def _methods(node: Node, source: bytes, path: str) -> Iterator[Method]:
    attributes: list[str] = []
    for child in _body(node).named_children:
        if child.type == "attribute_item":
            attributes.append(_flat(_text(child)))
        elif child.type in {"function_signature_item", "function_item"}:
            yield _method(child, tuple(attributes), source, path)
            attributes = []
        elif child.type not in _COMMENTS:
            attributes = []


def _method(node: Node, attributes: tuple[str, ...], source: bytes, path: str) -> Method:
    receiver, params = _parameters(node)
    body = node.child_by_field_name("body")
    returns = node.child_by_field_name("return_type")
    generics = node.child_by_field_name("type_parameters")
    where = next((c for c in node.named_children if c.type == "where_clause"), None)
    modifiers = next((c for c in node.named_children if c.type == "function_modifiers"), None)
    visibility = next((c for c in node.named_children if c.type == "visibility_modifier"), None)
    end = node.end_byte if body is None else body.start_byte
    return Method(
        name=_field(node, "name"),
        generics="" if generics is None else _flat(_text(generics)),
        receiver=receiver,
        params=params,
        returns=None if returns is None else _flat(_text(returns)),
        where_clause=() if where is None else _predicates(where),
        modifiers=() if modifiers is None else tuple(_flat(_text(c)) for c in modifiers.children),
        visibility="" if visibility is None else _text(visibility),
        attributes=attributes,
        has_default_body=body is not None,
        text=source[node.start_byte : end].decode().rstrip(" \n{;"),
        types=_free_types(node),
        location=_location(node, source, path),
    )


def _parameters(node: Node) -> tuple[str | None, tuple[str, ...]]:
    listed = node.child_by_field_name("parameters")
    receiver: str | None = None
    params: list[str] = []
    for child in listed.named_children if listed is not None else ():
        if child.type == "self_parameter":
            receiver = _flat(_text(child))
        elif child.type == "parameter":
            if _field(child, "pattern") in {"self", "mut self"}:
                receiver = _flat(_text(child))
            else:
                params.append(_flat(_field(child, "type")))
    return receiver, tuple(params)


def _predicates(where: Node) -> tuple[str, ...]:
    return tuple(_flat(_text(c)) for c in where.named_children if c.type == "where_predicate")


def _free_types(node: Node) -> tuple[str, ...]:
    """Names that a signature takes from its file's scope: types, traits and first segments of paths."""
    own: set[str] = set()
    found: dict[str, None] = {}
    for child in node.children:
        for leaf in () if child.type == "block" else _descendants(child):
            parent = leaf.parent
            if leaf.type not in {"type_identifier", "identifier"} or parent is None:
                continue
            if parent.type in {"type_parameter", "type_parameters"} and leaf == parent.child_by_field_name("name"):
                own.add(_text(leaf))
            elif parent.type in {"scoped_type_identifier", "scoped_identifier"}:
                if leaf == parent.child_by_field_name("path"):
                    found[_text(leaf)] = None
            elif leaf.type == "type_identifier":
                found[_text(leaf)] = None
    return tuple(name for name in found if name not in own | {"Self"})


def _descendants(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _descendants(child)


def _items(root: Node) -> Iterator[Node]:
    """Items of a file, those of inline modules included."""
    for node in root.named_children:
        yield node
        if node.type == "mod_item":
            body = node.child_by_field_name("body")
            if body is not None:
                yield from _items(body)


def _body(node: Node) -> Node:
    body = node.child_by_field_name("body")
    assert body is not None, "traits and impl blocks always have a body"
    return body


def _refuse_errors(node: Node, source: bytes, path: str, what: str) -> None:
    if not node.has_error:
        return
    broken = next((n for n in _descendants(node) if n.is_error or n.is_missing), node)
    raise UnknownSite(
        Problem(f"{what} does not parse", _location(broken, source, path)),
        remedy="The backend is written from this code. Check that the file is valid Rust.",
    )


def _location(node: Node, source: bytes, path: str) -> Location:
    row, byte_column = node.start_point
    line_start = node.start_byte - byte_column
    column = len(source[line_start : node.start_byte].decode(errors="replace")) + 1
    return Location.in_text(path, _text_of(source), row + 1, column)


def _text_of(source: bytes) -> str:
    return source.decode(errors="replace")


def _text(node: Node) -> str:
    assert node.text is not None, "the tree was parsed from bytes"
    return node.text.decode()


def _field(node: Node, name: str) -> str:
    child = node.child_by_field_name(name)
    return "" if child is None else _text(child)


def _flat(text: str) -> str:
    """One line: white space collapsed, and none left inside brackets where a line break stood."""
    text = " ".join(text.split())
    text = re.sub(r"([(<\[]) ", r"\1", text)
    return re.sub(r",? ([)>\]])", lambda m: m.group(1), text)
