"""ROCm siblings of items: where a copied function, variant, module or statement goes, and what must not be copied."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.constructs import has_let
from codegen.syntax.edit import (
    CannotMirror,
    Style,
    TextEdit,
    gated,
    indent_at,
    indented,
    past_comment,
    stands_in_for_the_feature,
)
from codegen.syntax.rename import CUDA, METAL, rename
from codegen.syntax.source import cfg_predicate, is_comment, next_item, text_of, unit_start

if TYPE_CHECKING:
    from tree_sitter import Node

    from codegen.syntax.source import Source

_LISTED = frozenset({"enum_variant", "field_declaration", "field_initializer", "shorthand_field_initializer"})
"""Members of lists, parted by commas that do not belong to them."""
_STANDALONE = frozenset(
    {
        "function_item",
        "function_signature_item",
        "mod_item",
        "struct_item",
        "enum_item",
        "union_item",
        "impl_item",
        "trait_item",
        "static_item",
        "const_item",
        "use_declaration",
        "type_item",
        "macro_definition",
        "let_declaration",
        "extern_crate_declaration",
        "associated_type",
    }
)


def refuse_expression(node: Node) -> None:
    """Raises `CannotMirror` unless the node may have a sibling: an item, a statement, or a member of a list."""
    if node.type in _STANDALONE or node.type in _LISTED:
        return
    if node.type == "expression_statement" and (_is_complete(node) or cfg_predicate(node)):
        return
    if node.type == "macro_invocation" and node.parent is not None:
        if node.parent.type in ("source_file", "declaration_list"):
            return
        raise CannotMirror("a macro call inside an expression cannot have a ROCm sibling")
    what = node.children[0] if node.type == "expression_statement" else node
    raise CannotMirror(f"nothing can stand beside this {what.type.replace('_', ' ')}")


def _is_complete(statement: Node) -> bool:
    """True for a statement whose value nobody uses, whatever follows it; an `if let` without `else` has none."""
    last = statement.children[-1]
    condition = last.child_by_field_name("condition") if last.type == "if_expression" else None
    if condition is not None and has_let(condition):
        return last.child_by_field_name("alternative") is None
    return last.type in (";", "macro_invocation")


def refuse_value(node: Node) -> None:
    """Raises `CannotMirror` for a variant with a number of its own, which a copy would use twice."""
    if node.type == "enum_variant" and node.child_by_field_name("value") is not None:
        raise CannotMirror("the variant has an explicit discriminant, which a second variant cannot share")


def insert_item(source: Source, node: Node, text: str, style: Style) -> list[TextEdit]:
    """Insert `text` as the ROCm sibling of the item `node`, behind its Metal sibling when that comes next."""
    if style.cfg:
        if stands_in_for_the_feature(cfg_predicate(node), CUDA.lower):
            return []
        text = gated(text, indent_at(source, unit_start(node)))
    if node.type == "mod_item" and node.child_by_field_name("body") is None:
        return [insert_module(source, node, text)]
    anchor = node
    sibling = _next_of_kind(node)
    while sibling is not None and _is_metal_of(source, sibling, node):
        anchor = sibling
        sibling = _next_of_kind(sibling)
    edits: list[TextEdit] = []
    end = anchor.end_byte
    trailing = anchor.next_sibling
    if anchor.type in _LISTED:
        text = text.rstrip(",") + ","
        if trailing is None or trailing.type != ",":
            edits.append(TextEdit(end, end, ","))
    if trailing is not None and trailing.type in (",", ";", "empty_statement"):
        end = trailing.end_byte
        text += ";" if trailing.type == "empty_statement" else ""
        trailing = trailing.next_sibling
    end = past_comment(source, trailing, end)
    parted = any(_blank_line_before(source, unit_start(item)) for item in (node, anchor))
    blank = "\n" if parted or _blank_line_after(source, end) else ""
    indent = indent_at(source, unit_start(node))
    return [*edits, TextEdit(end, end, f"{blank}\n{indent}{text}")]


def _next_of_kind(node: Node) -> Node | None:
    """The next item if it is of the same kind; the `;` behind a macro call is not an item."""
    sibling = next_item(node)
    while sibling is not None and sibling.type == "empty_statement":
        sibling = next_item(sibling)
    return sibling if sibling is not None and sibling.type == node.type else None


def _is_metal_of(source: Source, sibling: Node, node: Node) -> bool:
    """True if `sibling` is to Metal what `node` is to CUDA: the same name, or the same kind of statement."""
    one, other = node.child_by_field_name("name"), sibling.child_by_field_name("name")
    if one is not None and other is not None:
        return rename(text_of(one), CUDA, METAL) == text_of(other)
    own = source.slice(unit_start(sibling), sibling.end_byte).lower()
    return "metal" in own and "cuda" not in own


# --- functions -------------------------------------------------------------------------------------------------


def begin_body(source: Source, node: Node, text: str) -> list[TextEdit]:
    """Insert `text` before the first statement of a function."""
    body = node.child_by_field_name("body")
    if body is None or not body.named_children:
        raise CannotMirror("it has no statement that the text could stand before")
    first = unit_start(body.named_children[0])
    indent = indent_at(source, first)
    return [TextEdit(first, first, f"{indented(text, indent)}\n{indent}")]


# --- macros ----------------------------------------------------------------------------------------------------


def insert_in_macro(source: Source, node: Node, text: str) -> list[TextEdit]:
    """Insert `text` behind the last item that a `macro_rules!` of one rule expands to."""
    rules = [child for child in node.named_children if child.type == "macro_rule"]
    if len(rules) != 1:
        raise CannotMirror("the macro has more than one rule, and the text can stand in one only")
    expansion = rules[0].child_by_field_name("right")
    members = expansion.children[1:-1] if expansion is not None else []
    if not members:
        raise CannotMirror("the macro expands to nothing that ROCm could stand beside")
    last = members[-1]
    indent = indent_at(source, members[0].start_byte)
    return [TextEdit(last.end_byte, last.end_byte, f"\n\n{indent}{indented(text, indent)}")]


# --- modules ---------------------------------------------------------------------------------------------------


def insert_module(source: Source, node: Node, text: str) -> TextEdit:
    """Insert a `mod name;` where rustfmt would sort it among its neighbours."""
    name = re.search(r"\bmod (\w+);", text)
    if name is None:
        raise CannotMirror("the text for it declares no module")
    for neighbour in _contiguous_modules(source, node):
        other = neighbour.child_by_field_name("name")
        if other is not None and text_of(other) > name[1]:
            start = unit_start(neighbour)
            return TextEdit(start, start, f"{text}\n{indent_at(source, start)}")
    last = _contiguous_modules(source, node)[-1]
    end = past_comment(source, last.next_sibling, last.end_byte)
    return TextEdit(end, end, f"\n{indent_at(source, unit_start(last))}{text}")


def _contiguous_modules(source: Source, node: Node) -> list[Node]:
    group = [node]
    for step in ("previous", "next"):
        current = node
        while True:
            sibling = _adjacent_module(current, step)
            if sibling is None:
                break
            first, second = (sibling, current) if step == "previous" else (current, sibling)
            if re.search(rb"\n\r?\n", source.text[first.end_byte : unit_start(second)]):
                break
            group.append(sibling)
            current = sibling
    return sorted(group, key=lambda n: n.start_byte)


def _adjacent_module(node: Node, step: str) -> Node | None:
    sibling = next_item(node) if step == "next" else node.prev_named_sibling
    while sibling is not None and (sibling.type == "attribute_item" or is_comment(sibling)):
        sibling = sibling.prev_named_sibling
    if sibling is None or sibling.type != "mod_item" or sibling.child_by_field_name("body") is not None:
        return None
    return sibling


def _blank_line_before(source: Source, offset: int) -> bool:
    return bool(re.search(rb"\n[ \t]*\r?\n[ \t]*$", source.text[max(0, offset - 200) : offset]))


def _blank_line_after(source: Source, offset: int) -> bool:
    return bool(re.match(rb"[ \t]*\r?\n[ \t]*\r?\n", source.text[offset : offset + 200]))
