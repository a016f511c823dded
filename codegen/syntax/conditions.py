"""Widening: a condition or pattern that asks for one backend asks for ROCm as well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.constructs import callee, macro_name
from codegen.syntax.edit import CannotMirror, Style, TextEdit, mirrored, stands_in_for_the_feature
from codegen.syntax.matches import alternatives, bare_pattern, names_backend, pattern_of, unbound, without_parentheses
from codegen.syntax.rename import CUDA, METAL, Spelling, rename
from codegen.syntax.source import Source, attributes_of, cfg_predicate, predicates_in, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_NEEDS_NO_PARENTHESES = frozenset(
    {
        "if_expression",
        "while_expression",
        "parenthesized_expression",
        "let_declaration",
        "expression_statement",
        "block",
        "arguments",
        "return_expression",
        "break_expression",
        "match_expression",
        "match_arm",
        "match_pattern",
        "assignment_expression",
        "compound_assignment_expr",
        "closure_expression",
        "field_initializer",
        "tuple_expression",
        "array_expression",
        "const_item",
        "static_item",
    }
)
"""Parents in which `a || b` may take the place of `a`."""


def widen(node: Node, source: Source, backend: Spelling) -> list[TextEdit]:
    """Edits after which `node` (a condition, a call, a `let`, a `matches!`) answers for ROCm as for the backend.

    Raises `CannotMirror` if any mention of the backend in it is left without its ROCm form.
    """
    found = _Widening(backend)
    found.visit(node)
    for at in source.mentions(backend.lower, node.start_byte, node.end_byte):
        if not any(start <= at < end for start, end in found.done):
            raise CannotMirror(f"`{_word_at(source, at)}` names {backend.prose} in a form that it cannot widen")
    if not found.edits:
        raise CannotMirror(f"nothing in the condition asks for {backend.prose}")
    return found.edits


def feature_question(node: Node, source: Source) -> Node:
    """The one `cfg!` that asks for CUDA in `node`, or in its condition if it is an `if`.

    Raises `CannotMirror` unless there is exactly one.
    """
    found = []
    waiting = [node.child_by_field_name("condition") or node]
    while waiting:
        inner = waiting.pop()
        if macro_name(inner) == "cfg" and source.mentions(CUDA.lower, inner.start_byte, inner.end_byte):
            found.append(inner)
        waiting += inner.children
    if len(found) != 1:
        raise CannotMirror(f"{len(found)} `cfg!` ask for CUDA here, and the text can stand behind one only")
    return found[0]


_FEATURE = {spelling.lower: re.compile(rf'feature\s*=\s*"{spelling.lower}"') for spelling in (CUDA, METAL)}


def widen_gate(item: Node, source: Source, backend: Spelling, *, anyhow: bool = False) -> list[TextEdit]:
    """Edits after which an item that is compiled for the backend, or without it, is so for ROCm likewise.

    With `anyhow` the caller looks after what the item itself names. Raises `CannotMirror` for an item that names the
    backend itself, or whose attributes do not ask for its feature. An item that is there without the feature can name
    the backend in prose only, such as "only for the cuda backend".
    """
    is_without = stands_in_for_the_feature(cfg_predicate(item), backend.lower)
    if not is_without and not anyhow and source.mentions(backend.lower, item.start_byte, item.end_byte):
        raise CannotMirror(f"it names {backend.prose} itself, so it cannot stand for ROCm as well")
    edits = []
    for attribute in attributes_of(item):
        for asked in _FEATURE[backend.lower].finditer(text_of(attribute)) if predicates_in([attribute]) else ():
            start, end = (attribute.start_byte + len(text_of(attribute)[:at].encode()) for at in asked.span())
            edits.append(TextEdit(start, start, "any("))
            edits.append(TextEdit(end, end, f", {rename(asked[0], backend)})"))
    if not edits:
        raise CannotMirror(f"no `cfg` of it asks for {backend.prose}")
    return edits


def chain_call(call: Node, style: Style) -> TextEdit:
    """What makes `Device::cuda_if_available(n)?` ask for ROCm where it finds no CUDA.

    Raises `CannotMirror` for any other call.
    """
    function = call.child_by_field_name("function")
    path, _, name = text_of(function).rpartition("::") if function is not None else ("", "", "")
    if name != "cuda_if_available" or not path:
        raise CannotMirror("only an `if` can have one more branch, and `Device::cuda_if_available`")
    text = f".and_then(|found| match found {{ {path}::Cpu => {mirrored(text_of(call), style)}, found => Ok(found) }})"
    return TextEdit(call.end_byte, call.end_byte, text)


class _Widening:
    """Edits found so far, and the byte ranges that they answer for."""

    def __init__(self, backend: Spelling) -> None:
        self.backend = backend
        self.edits: list[TextEdit] = []
        self.done: list[tuple[int, int]] = []

    def visit(self, node: Node) -> None:
        if self._is_asked(node) or self._is_macro(node, "cfg"):
            self._alternative(node)
        elif self._is_macro(node, "matches"):
            self._matches(node)
        elif node.type in ("let_condition", "let_declaration"):
            self._let(node)
        else:
            for child in node.children:
                self.visit(child)

    def _is_asked(self, node: Node) -> bool:
        name = self.backend.lower
        return node.type == "call_expression" and callee(node) in (f"is_{name}", f"{name}_is_available")

    def _is_macro(self, node: Node, name: str) -> bool:
        return macro_name(node) == name and self.backend.lower in text_of(node).lower()

    def _alternative(self, node: Node) -> None:
        """`a` becomes `a || b`, in parentheses where the operator around binds tighter."""
        parent = node.parent
        if parent is not None and parent.type in ("try_expression", "await_expression"):
            raise CannotMirror(f"the answer of `{text_of(node)}` is not a plain truth value")
        either = f" || {rename(text_of(node), self.backend)}"
        is_or = (
            parent is not None and parent.type == "binary_expression" and any(c.type == "||" for c in parent.children)
        )
        if parent is None or is_or or parent.type in _NEEDS_NO_PARENTHESES:
            self.edits.append(TextEdit(node.end_byte, node.end_byte, either))
        else:
            self.edits.append(TextEdit(node.start_byte, node.start_byte, "("))
            self.edits.append(TextEdit(node.end_byte, node.end_byte, f"{either})"))
        self.done.append((node.start_byte, node.end_byte))

    def _let(self, node: Node) -> None:
        pattern = node.child_by_field_name("pattern")
        if pattern is not None and names_backend(pattern, self.backend.lower):
            inner = without_parentheses(pattern)
            self._pattern(inner, 0, in_parentheses=node.type == "let_declaration" and inner == pattern)
        for child in node.children:
            if child not in (pattern, node.child_by_field_name("alternative")):
                self.visit(child)

    def _matches(self, node: Node) -> None:
        """The pattern of `matches!(value, pattern)`, which the grammar leaves as tokens, is parsed by itself."""
        tree = next((child for child in node.children if child.type == "token_tree"), None)
        comma = next((child for child in tree.children if child.type == ","), None) if tree is not None else None
        if tree is None or comma is None or tree.text is None:
            return
        head = b"fn f() { match x { "
        inner = tree.text[comma.end_byte - tree.start_byte : -1]
        parsed = Source.parse("", head + inner.rstrip().rstrip(b",") + b" => 1 } }")
        arm = parsed.root.descendant_for_byte_range(
            len(head) + len(inner) - len(inner.lstrip()), len(head) + len(inner)
        )
        while arm is not None and arm.type != "match_arm":
            arm = arm.parent
        if arm is None or parsed.error_ranges():
            raise CannotMirror(f"the pattern of `{text_of(node)}` cannot be parsed")
        pattern = bare_pattern(pattern_of(arm))
        if names_backend(pattern, self.backend.lower):
            self._pattern(pattern, comma.end_byte - len(head), in_parentheses=False)

    def _pattern(self, pattern: Node, shift: int, *, in_parentheses: bool) -> None:
        """Add the ROCm alternatives to a pattern; `shift` leads from its offsets to those of the file."""
        own = [case for case in alternatives(pattern) if names_backend(case, self.backend.lower)]
        for case in own:
            if "".join(unbound(case).split()) != "".join(text_of(case).split()):
                raise CannotMirror(f"`{text_of(case)}` binds what only {self.backend.prose} has")
        text = "".join(f" | {rename(text_of(case), self.backend)}" for case in own)
        start, end = pattern.start_byte + shift, pattern.end_byte + shift
        at = own[-1].end_byte + shift
        if in_parentheses:
            self.edits.append(TextEdit(start, start, "("))
            text += ")"
        self.edits.append(TextEdit(at, at, text))
        self.done.append((start, end))


def _word_at(source: Source, offset: int) -> str:
    before = re.search(rb"\w*$", source.text[max(0, offset - 60) : offset])
    behind = re.match(rb"\w*", source.text[offset : offset + 60])
    return "".join(part[0].decode() for part in (before, behind) if part is not None)
