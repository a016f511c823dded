"""`use` declarations: importing ROCm's names next to CUDA's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.syntax.edit import ALWAYS_THERE, GATE, TextEdit, gated, indent_at
from codegen.syntax.rename import CUDA, rename, words_in
from codegen.syntax.source import attributes_of, is_comment, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.edit import Style
    from codegen.syntax.source import Source


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a `use` declaration brings into scope."""

    name: str
    """As the code calls it: the alias where there is one."""
    path: str
    """From the root of the declaration, alias included: `crate::cuda_backend as cuda`."""
    node: Node
    """The member of the innermost list, or the declaration's whole tree."""
    prefix: str
    """What the lists around `node` stand for: `crate::cuda_backend` in `use crate::cuda_backend::{A, B}`."""


def imports_of(declaration: Node) -> tuple[Import, ...]:
    """The names that a `use` declaration imports, globs excepted, in source order."""
    tree = declaration.child_by_field_name("argument")
    return tuple(_imports(tree, "")) if tree is not None else ()


def extend_imports(source: Source, declaration: Node, used: str, style: Style) -> list[TextEdit]:
    """Import the renamed names next to CUDA's, those only that the text `used` calls by a bare name."""
    called = _bare_names(used)
    edits: list[TextEdit] = []
    beside: list[tuple[str, bool]] = []
    for each in imports_of(declaration):
        name = rename(each.name)
        if name == each.name or name not in called:
            continue
        in_list = each.node.parent is not None and each.node.parent.type == "use_list"
        gated_name = style.cfg and name not in ALWAYS_THERE
        if not gated_name and in_list and rename(each.prefix) == each.prefix:
            edits.append(_insert_sorted(each))
        else:
            beside.append((rename(each.path), gated_name))
    if beside:
        edits.append(_declare_beside(source, declaration, beside))
    return edits


def _imports(node: Node, prefix: str) -> Iterator[Import]:
    if node.type == "use_list":
        for child in node.named_children:
            if not is_comment(child):
                yield from _imports(child, prefix)
    elif node.type == "scoped_use_list":
        path = node.child_by_field_name("path")
        inner = node.child_by_field_name("list")
        if inner is not None:
            yield from _imports(inner, _joined(prefix, text_of(path) if path is not None else ""))
    elif node.type == "use_as_clause":
        alias = node.child_by_field_name("alias")
        yield Import(text_of(alias) if alias is not None else "", _joined(prefix, text_of(node)), node, prefix)
    elif node.type == "self":
        yield Import(prefix.rpartition("::")[2], prefix, node, prefix)
    elif node.type != "use_wildcard":
        path_text = _joined(prefix, text_of(node))
        yield Import(path_text.rpartition("::")[2], path_text, node, prefix)


def _joined(prefix: str, path: str) -> str:
    return f"{prefix}::{path}" if prefix and path else prefix or path


def _bare_names(text: str) -> frozenset[str]:
    """Identifiers that code uses without a path, field access or method call in front."""
    pieces = re.split(r"(?:::|(?<!\.)\.(?!\.))\s*[A-Za-z_]\w*", _without_literals(text))
    return frozenset(word for piece in pieces for word in words_in(piece))


def _without_literals(text: str) -> str:
    return re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', " ", text, flags=re.DOTALL)


def _insert_sorted(each: Import) -> TextEdit:
    """Into the list, in front of the first later member that sorts behind it, or behind the last."""
    members = each.node.parent
    assert members is not None
    new = rename(text_of(each.node))
    named = [item for item in members.named_children if not is_comment(item)]
    later = [item for item in named if item.start_byte > each.node.start_byte and text_of(item) > new]
    if later:
        return TextEdit(later[0].start_byte, later[0].start_byte, f"{new}, ")
    end = named[-1].end_byte
    return TextEdit(end, end, f", {new}")


def _declare_beside(source: Source, declaration: Node, paths: list[tuple[str, bool]]) -> TextEdit:
    """A declaration for each path, behind the feature where the second member says so."""
    visibility = next((text_of(c) + " " for c in declaration.children if c.type == "visibility_modifier"), "")
    attributes = [text_of(a) for a in attributes_of(declaration) if a.type == "attribute_item"]
    head = [rename(text) for text in attributes if CUDA.lower in text.lower()]
    indent = indent_at(source, declaration.start_byte)
    end = declaration.end_byte
    text = ""
    for path, behind_the_feature in paths:
        lines = f"\n{indent}".join([*head, f"{visibility}use {path};"])
        if behind_the_feature and GATE not in head:
            lines = gated(lines, indent)
        text += f"\n{indent}{lines}"
    return TextEdit(end, end, text)
