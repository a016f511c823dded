"""The verbs that derive a ROCm form from the CUDA (or Metal) form of a site: text edits, nothing is written.

Facts behind them: every generated piece is a renamed copy of a sibling in the very tree at hand, so it follows
Candle's own signatures in every release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from codegen.syntax.matches import names_backend
from codegen.syntax.rename import CUDA, METAL, Spelling, protected_words, rename, swap
from codegen.syntax.source import is_comment, next_item, text_of, unit_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

    from codegen.syntax.sites import Site
    from codegen.syntax.source import Source


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace bytes `start..end` by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Style:
    """How generated branches look."""

    cfg: bool = False
    """Put every branch behind `#[cfg(feature = "rocm")]` instead of relying on the dummy backend."""
    protected: frozenset[str] = frozenset()
    """Identifiers of CUDA's own API: text that names one cannot be mirrored."""
    replace: Mapping[str, str] = field(default_factory=dict)
    """Literal corrections applied to the mirrored text."""


class CannotMirror(Exception):  # noqa: N818 - caught by the plan layer, which knows rule and spec
    """The site's shape does not allow the verb; the message says why."""


_GATE = '#[cfg(feature = "rocm")]'


def mirror_match(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """Give a match a ROCm arm next to every CUDA arm."""
    match = source.node_at(site.start, site.end, "match_expression")
    return [edit for group in _arm_groups(match, "cuda") for edit in _mirror_arms(source, group, style)]


def foreign_match(source: Source, match: Node, style: Style) -> list[TextEdit]:
    """Give a match inside another backend's code a ROCm arm that answers as the Metal arm does."""
    edits: list[TextEdit] = []
    for group in _arm_groups(match, "metal"):
        if any(names_backend(_pattern(arm), "cuda") for arm in group):
            continue
        edits += _mirror_arms(source, group, style, METAL)
    if not edits:
        raise CannotMirror("there is no Metal arm to derive the ROCm arm from")
    return edits


def stand_in_match(source: Source, site: Site, style: Style, call: str) -> list[TextEdit]:
    """Give a match a ROCm arm that returns the typed error `call` makes (an expression of type `Result<T>`)."""
    match = source.node_at(site.start, site.end, "match_expression")
    value = call if _is_tail(match) else f"{call}?"
    edits: list[TextEdit] = []
    for group in _arm_groups(match, "cuda"):
        first = group[0]
        pattern = rename(_without_bindings(_pattern(first)))
        gate = f"{_GATE}\n{_indent(source, first)}" if style.cfg else ""
        edits.append(_after_arms(source, group, METAL, f"{gate}{pattern} => {value},"))
    return edits


def mirror_item(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """Copy a function, static, variant, module, import or statement and rename it."""
    node = _site_node(source, site)
    text = _mirrored(source.slice(unit_start(node), node.end_byte), style)
    return insert_item(source, node, text, style)


def insert_item(source: Source, node: Node, text: str, style: Style) -> list[TextEdit]:
    """Insert `text` as the ROCm sibling of the item `node`, behind its Metal sibling when that comes next."""
    if style.cfg:
        if "not(feature = \"rocm\")" in text.split("\n", 1)[0]:
            return []
        text = _gated(text, _indent_at(source, unit_start(node)))
    if node.type == "mod_item" and node.child_by_field_name("body") is None:
        return [insert_module(source, node, text)]
    anchor = node
    sibling = _next_of_kind(node)
    while sibling is not None and _is_metal_of(source, sibling, node):
        anchor = sibling
        sibling = _next_of_kind(sibling)
    end = anchor.end_byte
    trailing = anchor.next_sibling
    if trailing is not None and trailing.type in (",", ";"):
        end = trailing.end_byte
    if trailing is not None and trailing.type == "empty_statement":
        end = trailing.end_byte
        text += ";"
    if anchor.type == "enum_variant":
        text = text.rstrip(",") + ","
    blank = "\n" if _blank_line_before(source, unit_start(node)) or _blank_line_after(source, end) else ""
    indent = _indent_at(source, unit_start(node))
    return [TextEdit(end, end, f"{blank}\n{indent}{text}")]


def swap_function(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """`as_cuda_device` learns the ROCm variant, and its Cuda<->Rocm exchange becomes `as_rocm_device`."""
    node = _site_node(source, site)
    edits: list[TextEdit] = []
    plain: list[TextEdit] = []
    for match in _descendants(node, "match_expression"):
        edits += foreign_match(source, match, style)
        plain += foreign_match(source, match, Style(protected=style.protected))
    start = unit_start(node)
    text = apply_edits(source.text, plain, start, node.end_byte)
    _refuse_protected(text, style)
    return edits + insert_item(source, node, _corrected(swap(text), style), style)


def or_in_condition(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """`x.is_cuda()` or `x.is_metal()` in a condition becomes `x.is_cuda() || x.is_rocm()`."""
    del style
    backend = METAL if site.metal_only else CUDA
    node = source.root.descendant_for_byte_range(site.start, site.end)
    if node is None:
        raise CannotMirror("the condition is gone")
    scope = node.child_by_field_name("condition") or node
    calls = [call for call in _descendants(scope, "call_expression") if _asks_for(call, backend)]
    if not calls:
        raise CannotMirror(f"no call that asks for {backend.prose} in the condition")
    last = calls[-1]
    text = f" || {rename(text_of(last), backend)}"
    parent = last.parent
    if parent is not None and (parent.type in ("unary_expression", "field_expression") or _is_and(parent)):
        return [TextEdit(last.start_byte, last.start_byte, "("), TextEdit(last.end_byte, last.end_byte, f"{text})")]
    return [TextEdit(last.end_byte, last.end_byte, text)]


def extend_use(source: Source, site: Site, used: str, style: Style) -> list[TextEdit]:
    """Import the renamed names next to CUDA's in a `use` list, those only that `used` (other generated text) needs."""
    node = _site_node(source, site)
    wanted = []
    for leaf in _descendants(node, "identifier", "type_identifier"):
        name = rename(text_of(leaf))
        if name != text_of(leaf) and re.search(rf"\b{re.escape(name)}\b", used):
            wanted.append((leaf, name))
    edits = []
    for leaf, name in wanted:
        items = leaf.parent
        if style.cfg:
            path = source.slice(node.start_byte, leaf.start_byte)
            prefix = re.sub(r"\{.*", "", path, flags=re.DOTALL)
            edits.append(TextEdit(node.end_byte, node.end_byte, f"\n{_GATE}\n{prefix}{name};"))
        elif items is not None and items.type == "use_list":
            later = [item for item in items.named_children if item.start_byte > leaf.start_byte and text_of(item) > name]
            anchor = later[0].start_byte if later else items.end_byte - 1
            edits.append(TextEdit(anchor, anchor, f"{name}, " if later else f", {name}"))
        else:
            edits.append(TextEdit(node.end_byte, node.end_byte, "\n" + rename(text_of(node))))
    return edits


def mirrored_text(source: Source, site: Site, style: Style) -> str:
    """The renamed copy of the whole item, attributes included, for templates that build on it."""
    node = _site_node(source, site)
    return _corrected(rename(source.slice(unit_start(node), node.end_byte), protected=style.protected), style)


def insert_override(source: Source, site: Site, text: str, style: Style) -> list[TextEdit]:
    """Put a template's text where the mirrored text would stand; the template writes its own `cfg` attributes."""
    text = text.rstrip("\n")
    style = replace(style, cfg=False)
    if site.kind not in ("match", "match-str"):
        node = _site_node(source, site)
        return insert_item(source, node, _indented(text, _indent_at(source, unit_start(node))), style)
    match = source.node_at(site.start, site.end, "match_expression")
    group = _arm_groups(match, "cuda")[-1]
    indent = _indent(source, group[0])
    return [_after_arms(source, group, METAL, _indented(text, indent))]


def apply_edits(text: bytes, edits: list[TextEdit], start: int = 0, end: int | None = None) -> str:
    """The text of `start..end` with the edits inside that range made."""
    stop = len(text) if end is None else end
    pieces: list[str] = []
    position = start
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        pieces.append(text[position : edit.start].decode())
        pieces.append(edit.text)
        position = edit.end
    pieces.append(text[position:stop].decode())
    return "".join(pieces)


# --- arms ------------------------------------------------------------------------------------------------------


def _pattern(arm: Node) -> Node:
    pattern = arm.child_by_field_name("pattern")
    assert pattern is not None
    return pattern


def _arm_groups(match: Node, backend: str) -> list[list[Node]]:
    """Arms that name the backend; neighbours that differ in `cfg` and bindings only form one group."""
    body = match.child_by_field_name("body")
    assert body is not None
    groups: list[list[Node]] = []
    previous: Node | None = None
    for arm in (child for child in body.children if child.type == "match_arm"):
        if names_backend(_pattern(arm), backend):
            twin = previous is not None and _without_bindings(_pattern(previous)) == _without_bindings(_pattern(arm))
            if twin and groups and groups[-1][-1] == previous:
                groups[-1].append(arm)
            else:
                groups.append([arm])
        previous = arm
    return groups


def _without_bindings(pattern: Node) -> str:
    text = " ".join(text_of(pattern).split())
    text = re.sub(r"::(Cuda|Metal|Rocm)\s*\([^()]*\)", r"::\1(_)", text)
    return re.sub(r"::(Cuda|Metal|Rocm)\s*\{[^{}]*\}", r"::\1 { .. }", text)


def _shape(pattern: Node) -> str:
    """The pattern without bindings and without the paths in front of its variants: `Self::Cpu` is `Device::Cpu`."""
    return re.sub(r"(?:\w+::)+", "", _without_bindings(pattern))


def _mirror_arms(source: Source, group: list[Node], style: Style, old: Spelling = CUDA) -> list[TextEdit]:
    backend = old.lower
    if len(group) == 1:
        mixed = _mixed_or_pattern(_pattern(group[0]), backend)
        if mixed is not None:
            return _widen_pattern(source, group[0], mixed, style, old)
    pieces = []
    for arm in group:
        text = source.slice(arm.start_byte, arm.end_byte)
        text = _mirrored(text, style, old)
        if style.cfg and text.startswith('#[cfg(not(feature = "rocm"))]'):
            continue
        if not text.endswith((",", "}")):
            text += ","
        pieces.append(_gated(text, _indent(source, arm)) if style.cfg else text)
    indent = _indent(source, group[0])
    return [_after_arms(source, group, METAL if old is CUDA else None, f"\n{indent}".join(pieces))]


def _after_arms(source: Source, group: list[Node], skip: Spelling | None, text: str) -> TextEdit:
    """Insert behind the group and behind the same arms of the backend `skip` when those follow."""
    anchor = group[-1]
    if skip is not None:
        wanted = rename(_shape(_pattern(group[0])), CUDA, skip)
        sibling = next_item(anchor)
        while sibling is not None and sibling.type == "match_arm" and _shape(_pattern(sibling)) == wanted:
            anchor = sibling
            sibling = next_item(anchor)
    comma = "" if source.text[anchor.end_byte - 1 : anchor.end_byte] in (b",", b"}") else ","
    indent = _indent(source, group[0])
    return TextEdit(anchor.end_byte, anchor.end_byte, f"{comma}\n{indent}{text}")


def _mixed_or_pattern(pattern: Node, backend: str) -> Node | None:
    """The or-pattern that has alternatives with and without the backend, wherever it is nested."""
    for node in _descendants(pattern, "or_pattern"):
        named = [names_backend(alternative, backend) for alternative in _alternatives(node)]
        if any(named) and not all(named):
            return node
    return None


def _alternatives(node: Node) -> list[Node]:
    """The members of an or-pattern, which the grammar nests to the left."""
    if node.type != "or_pattern":
        return [node]
    members = [child for child in node.children if child.is_named or child.type == "_"]
    return [found for child in members if not is_comment(child) for found in _alternatives(child)]


def _widen_pattern(source: Source, arm: Node, pattern: Node, style: Style, old: Spelling) -> list[TextEdit]:
    alternatives = _alternatives(pattern)
    own = [node for node in alternatives if names_backend(node, old.lower)]
    new = " | ".join(rename(text_of(node), old) for node in own)
    if not style.cfg:
        gpu = [node for node in alternatives if names_backend(node, "cuda") or names_backend(node, "metal")]
        return [TextEdit(gpu[-1].end_byte, gpu[-1].end_byte, f" | {new}")]
    start = arm.start_byte
    whole = source.text[start : arm.end_byte]
    text = apply_edits(whole, [TextEdit(pattern.start_byte - start, pattern.end_byte - start, new)])
    if not text.endswith((",", "}")):
        text += ","
    return [_after_arms(source, [arm], None, _gated(text, _indent(source, arm)))]


def _is_tail(node: Node) -> bool:
    """True if the expression's value is what the function returns."""
    child, parent = node, node.parent
    while parent is not None:
        if parent.type in ("function_item", "closure_expression"):
            return parent.type == "function_item"
        if parent.type == "block":
            named = [n for n in parent.named_children if not is_comment(n)]
            if not named or named[-1] != child:
                return False
        elif parent.type == "expression_statement":
            if text_of(parent).rstrip().endswith(";"):
                return False
        elif parent.type not in ("match_arm", "match_block", "match_expression", "if_expression", "else_clause"):
            return False
        child, parent = parent, parent.parent
    return False


# --- items -----------------------------------------------------------------------------------------------------


def _site_node(source: Source, site: Site) -> Node:
    candidates = [n for n in source.chain(site.start, site.end) if (n.start_byte, n.end_byte) == (site.start, site.end)]
    if not candidates:
        raise CannotMirror("the construct could not be found again")
    return candidates[0]


def insert_module(source: Source, node: Node, text: str) -> TextEdit:
    """Insert a `mod name;` where rustfmt would sort it among its neighbours."""
    name = re.search(r"\bmod (\w+);", text)
    assert name is not None
    for neighbour in _contiguous_modules(source, node):
        other = neighbour.child_by_field_name("name")
        if other is not None and text_of(other) > name[1]:
            start = unit_start(neighbour)
            return TextEdit(start, start, f"{text}\n")
    last = _contiguous_modules(source, node)[-1]
    return TextEdit(last.end_byte, last.end_byte, f"\n{text}")


def _contiguous_modules(source: Source, node: Node) -> list[Node]:
    group = [node]
    for step in ("previous", "next"):
        current = node
        while True:
            sibling = _adjacent_module(current, step)
            if sibling is None:
                break
            first, second = (sibling, current) if step == "previous" else (current, sibling)
            if b"\n\n" in source.text[first.end_byte : unit_start(second)]:
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


def _gated(text: str, indent: str) -> str:
    """The item behind the feature: the attribute goes below the documentation and above other attributes."""
    lines = text.split("\n")
    head = takewhile(lambda line: line.strip().startswith(("///", "#[")), lines)
    if any(line.strip().startswith(_GATE) for line in head):
        return text
    at = 0
    while at < len(lines) and lines[at].strip().startswith("///"):
        at += 1
    gate = _GATE if at == 0 else indent + _GATE
    if at == 0:
        return f"{gate}\n{indent}{text}"
    return "\n".join([*lines[:at], gate, *lines[at:]])


def _mirrored(text: str, style: Style, old: Spelling = CUDA) -> str:
    _refuse_protected(text, style)
    return _corrected(rename(text, old), style)


def _refuse_protected(text: str, style: Style) -> None:
    found = protected_words(text, style.protected)
    if found:
        raise CannotMirror(f"it uses CUDA's own API ({', '.join(found)}), which has no ROCm namesake")


def _corrected(text: str, style: Style) -> str:
    for old, new in style.replace.items():
        text = text.replace(old, new)
    return text


# --- small questions about nodes and lines ---------------------------------------------------------------------


def _descendants(node: Node, *types: str) -> list[Node]:
    found: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in types:
            found.append(current)
        stack.extend(current.children)
    return sorted(found, key=lambda n: (n.start_byte, -n.end_byte))


def _asks_for(call: Node, backend: Spelling) -> bool:
    function = call.child_by_field_name("function")
    return function is not None and text_of(function).endswith((f"is_{backend.lower}", f"{backend.lower}_is_available"))


def _is_and(node: Node) -> bool:
    return node.type == "binary_expression" and any(child.type == "&&" for child in node.children)


def _indent(source: Source, node: Node) -> str:
    return _indent_at(source, node.start_byte)


def _indent_at(source: Source, offset: int) -> str:
    line = source.line_text(offset)
    return line[: len(line) - len(line.lstrip())]


def _indented(text: str, indent: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])


def _blank_line_before(source: Source, offset: int) -> bool:
    return bool(re.search(rb"\n[ \t]*\n[ \t]*$", source.text[:offset][-200:]))


def _blank_line_after(source: Source, offset: int) -> bool:
    return bool(re.match(rb"[ \t]*\n[ \t]*\n", source.text[offset : offset + 200]))

