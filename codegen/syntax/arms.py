"""ROCm arms of matches over backend enums: mirrored, derived from Metal's, standing in for a later phase."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.edit import (
    GATE,
    CannotMirror,
    Style,
    TextEdit,
    apply_edits,
    corrected,
    gated,
    indent_at,
    indented,
    mirrored,
    past_comment,
    refuse_errors,
    refuse_protected,
    stands_in_for_the_feature,
)
from codegen.syntax.matches import (
    alternatives,
    arms_of,
    bare_pattern,
    descendants,
    is_exhaustive,
    names_backend,
    pattern_of,
    unbound,
    variant_paths,
)
from codegen.syntax.rename import CUDA, METAL, Spelling, rename, swap
from codegen.syntax.source import Source, cfg_predicate, is_comment, next_item, text_of

if TYPE_CHECKING:
    from tree_sitter import Node


_ENDS_WITH_BLOCK = frozenset(
    {
        "block",
        "unsafe_block",
        "if_expression",
        "match_expression",
        "loop_expression",
        "while_expression",
        "for_expression",
    }
)
"""Expressions after which an arm needs no comma."""


def mirror_arms(source: Source, match: Node, style: Style) -> list[TextEdit]:
    """A ROCm arm next to every CUDA arm, or a ROCm alternative where CUDA shares its arm with another device."""
    groups = _arm_groups(match, "cuda")
    if not groups:
        raise CannotMirror("no arm names CUDA")
    return [edit for group in groups for edit in _mirror_group(source, group, style)]


def foreign_arms(source: Source, match: Node, style: Style) -> list[TextEdit]:
    """A ROCm arm that answers as the Metal arm does, for a match in code that is CUDA's own."""
    edits: list[TextEdit] = []
    for group in _arm_groups(match, "metal"):
        if not any(names_backend(pattern_of(arm), "cuda") for arm in group):
            if any(demanding_matches(arm) for arm in group):
                raise CannotMirror("the Metal arm to derive from holds a match that rustc wants complete, too")
            edits += _mirror_group(source, group, style, METAL)
        elif len(group) == 1:
            shared = [
                node for node in _mixed_patterns(pattern_of(group[0]), "metal") if _only_names(node, "metal", "cuda")
            ]
            edits += _widen(source, group[0], shared, style, METAL) if shared else []
    if not edits:
        raise CannotMirror("there is no Metal arm to derive the ROCm arm from")
    return edits


def stand_in_arms(source: Source, match: Node, style: Style, call: str) -> list[TextEdit]:
    """A ROCm arm next to every CUDA arm that returns the typed error `call` makes."""
    value = call if _is_tail(match) else f"{call}?"
    edits: list[TextEdit] = []
    written: set[str] = set()
    for group in _arm_groups(match, "cuda"):
        refuse_errors(pattern_of(group[0]))
        pattern = rename(unbound(pattern_of(group[0]), "cuda"))
        if pattern in written:
            continue
        written.add(pattern)
        gate = f"{GATE}\n{indent_at(source, group[0].start_byte)}" if style.cfg else ""
        edits += _after_arms(source, group, METAL, f"{gate}{pattern} => {value},")
    if not edits:
        raise CannotMirror("no arm names CUDA")
    return edits


def override_arms(source: Source, match: Node, text: str, style: Style) -> list[TextEdit]:
    """The arms in `text` where the mirrored arm would stand, behind the feature where that is the style."""
    groups = _arm_groups(match, "cuda") or _arm_groups(match, "metal")
    if not groups:
        raise CannotMirror("no arm names CUDA or Metal")
    indent = indent_at(source, groups[-1][0].start_byte)
    text = text if text.endswith((",", "}")) else f"{text},"
    text = _gated_arms(text) if style.cfg else text
    return _after_arms(source, groups[-1], METAL, indented(text, indent))


def _gated_arms(text: str) -> str:
    """The arms in `text` behind the feature, but for those with a `cfg` attribute of their own."""
    head = "fn f() { match x {\n"
    source = Source.parse("override", f"{head}{text}\n}} }}".encode())
    arms = [arm for match in descendants(source.root, "match_expression")[:1] for arm in arms_of(match)]
    starts = [arm.start_byte for arm in arms if not cfg_predicate(arm)]
    edits = [TextEdit(start, start, f"{GATE}\n{indent_at(source, start)}") for start in starts]
    return apply_edits(source.text, edits, len(head), len(head) + len(text.encode()))


def teach_variant(source: Source, node: Node, style: Style, *, start: int) -> tuple[list[TextEdit], str]:
    """Edits that give matches inside CUDA's code an arm for ROCm, and the code with CUDA and ROCm exchanged.

    The exchanged code, from byte `start` on, has an arm for CUDA in turn. Pristine code names no ROCm, so where nothing
    has to be taught it is the renamed code.
    """
    edits: list[TextEdit] = []
    plain: list[TextEdit] = []
    for match in demanding_matches(node):
        edits += foreign_arms(source, match, style)
        plain += foreign_arms(source, match, Style(protected=style.protected))
    text = apply_edits(source.text, plain, start, node.end_byte)
    refuse_protected(text, style)
    return edits, corrected(style.rename(text) if style.rename and not edits else swap(text), style)


def demanding_matches(node: Node) -> list[Node]:
    """Matches below the node that rustc rejects as soon as a backend enum gains a variant."""
    return [match for match in descendants(node, "match_expression") if is_exhaustive(match)]


def _arm_groups(match: Node, backend: str) -> list[list[Node]]:
    """Arms that name the backend; neighbours that differ in `cfg` and bindings only form one group."""
    groups: list[list[Node]] = []
    previous: Node | None = None
    for arm in arms_of(match):
        if names_backend(pattern_of(arm), backend):
            twin = previous is not None and _is_twin(previous, arm)
            if twin and groups and groups[-1][-1] == previous:
                groups[-1].append(arm)
            else:
                groups.append([arm])
        previous = arm
    return groups


def _is_twin(one: Node, other: Node) -> bool:
    guards = [pattern_of(arm).child_by_field_name("condition") for arm in (one, other)]
    return guards == [None, None] and unbound(pattern_of(one)) == unbound(pattern_of(other))


def _shape(pattern: Node) -> str:
    """The pattern without bindings, guard, and the paths in front of its variants: `Self::Cpu` is `Device::Cpu`."""
    return re.sub(r"(?:\w+::)+", "", unbound(pattern))


def _mirror_group(source: Source, group: list[Node], style: Style, old: Spelling = CUDA) -> list[TextEdit]:
    for arm in group:
        refuse_errors(arm)
    if len(group) == 1:
        mixed = _mixed_patterns(pattern_of(group[0]), old.lower)
        if mixed:
            return _widen(source, group[0], mixed, style, old)
    edits: list[TextEdit] = []
    pieces = []
    for arm in group:
        if old is CUDA:
            taught, text = teach_variant(source, arm, style, start=arm.start_byte)
            edits += taught
        else:
            text = mirrored(source.slice(arm.start_byte, arm.end_byte), style, old)
        if style.cfg and stands_in_for_the_feature(cfg_predicate(arm), old.lower):
            continue
        pieces.append(_finished(source, arm, text, style))
    if not pieces:
        return edits
    indent = indent_at(source, group[0].start_byte)
    return edits + _after_arms(source, group, METAL if old is CUDA else None, f"\n{indent}".join(pieces))


def _finished(source: Source, arm: Node, text: str, style: Style) -> str:
    """The text of a new arm with the comma it needs, behind the feature where that is the style."""
    if not text.endswith(",") and _needs_comma(arm):
        text += ","
    return gated(text, indent_at(source, arm.start_byte)) if style.cfg else text


def _needs_comma(arm: Node) -> bool:
    value = arm.child_by_field_name("value")
    return value is None or value.type not in _ENDS_WITH_BLOCK


def _after_arms(source: Source, group: list[Node], skip: Spelling | None, text: str) -> list[TextEdit]:
    """Insert behind the group, behind the same arms of the backend `skip` when those follow, and behind a comment
    that ends their line."""
    anchor = group[-1]
    if skip is not None:
        wanted = rename(_shape(pattern_of(group[0])), CUDA, skip)
        sibling = next_item(anchor)
        while sibling is not None and sibling.type == "match_arm" and _shape(pattern_of(sibling)) == wanted:
            anchor = sibling
            sibling = next_item(anchor)
    has_comma = source.text[anchor.end_byte - 1 : anchor.end_byte] == b","
    comma = "" if has_comma or not _needs_comma(anchor) else ","
    indent = indent_at(source, group[0].start_byte)
    end = past_comment(source, anchor.next_sibling, anchor.end_byte)
    if end > anchor.end_byte:
        edits = [TextEdit(anchor.end_byte, anchor.end_byte, comma)] if comma else []
        return [*edits, TextEdit(end, end, f"\n{indent}{text}")]
    return [TextEdit(end, end, f"{comma}\n{indent}{text}")]


# --- or-patterns -----------------------------------------------------------------------------------------------


def _mixed_patterns(pattern: Node, backend: str) -> list[Node]:
    """Or-patterns that have alternatives with and without the backend, if the pattern names it nowhere else."""
    found: list[Node] = []
    for node in descendants(bare_pattern(pattern), "or_pattern"):
        inside = any(outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte for outer in found)
        named = [names_backend(alternative, backend) for alternative in alternatives(node)]
        if not inside and any(named) and not all(named):
            found.append(node)
    variant = {"cuda": "Cuda", "metal": "Metal"}[backend]
    elsewhere = [
        path
        for path in variant_paths(pattern)
        if text_of(path).endswith(f"::{variant}")
        and not any(node.start_byte <= path.start_byte and path.end_byte <= node.end_byte for node in found)
    ]
    return [] if elsewhere else found


def _only_names(pattern: Node, backend: str, other: str) -> bool:
    """True if an alternative of the or-pattern names the one backend and not the other."""
    return any(names_backend(each, backend) and not names_backend(each, other) for each in alternatives(pattern))


def _widen(source: Source, arm: Node, mixed: list[Node], style: Style, old: Spelling) -> list[TextEdit]:
    """Give or-patterns the ROCm alternative; where the arm's body names the backend the arm is mirrored instead."""
    if source.mentions(old.lower, bare_pattern(pattern_of(arm)).end_byte, arm.end_byte):
        return _split_off(source, arm, mixed, style, old)
    if style.cfg:
        start = arm.start_byte
        copies = [
            TextEdit(node.start_byte - start, node.end_byte - start, _rocm_only(node, old, alone=len(mixed) == 1))
            for node in mixed
        ]
        text = apply_edits(source.text[start : arm.end_byte], copies)
        return _after_arms(source, [arm], None, _finished(source, arm, corrected(text, style), style))
    edits = []
    for node in mixed:
        devices = alternatives(node)
        gpu = [each for each in devices if names_backend(each, "cuda") or names_backend(each, "metal")]
        edits.append(TextEdit(gpu[-1].end_byte, gpu[-1].end_byte, f" | {_rocm_only(node, old)}"))
    return edits


def _split_off(source: Source, arm: Node, mixed: list[Node], style: Style, old: Spelling) -> list[TextEdit]:
    """An arm of its own for ROCm, with CUDA's body renamed."""
    if old is not CUDA or demanding_matches(arm):
        raise CannotMirror(f"devices share an arm whose body names {old.prose}")
    refuse_protected(source.slice(arm.start_byte, arm.end_byte), style)
    start = arm.start_byte
    own = [
        TextEdit(node.start_byte - start, node.end_byte - start, _own_alternatives(node, old, alone=len(mixed) == 1))
        for node in mixed
    ]
    text = mirrored(apply_edits(source.text[start : arm.end_byte], own), style, old)
    return _after_arms(source, [arm], None, _finished(source, arm, text, style))


def _own_alternatives(node: Node, backend: Spelling, *, alone: bool) -> str:
    """The alternatives that name the backend; all of them where several or-patterns vary together."""
    cases = alternatives(node)
    return " | ".join(text_of(case) for case in cases if not alone or names_backend(case, backend.lower))


def _rocm_only(node: Node, old: Spelling, *, alone: bool = True) -> str:
    """The ROCm alternatives; with the others in front where several or-patterns vary together."""
    own = [rename(text_of(case), old) for case in alternatives(node) if _is_own(case, old)]
    return " | ".join([*([] if alone else [text_of(node)]), *own])


def _is_own(case: Node, backend: Spelling) -> bool:
    other = CUDA if backend is METAL else METAL
    names_other = backend is METAL and names_backend(case, other.lower)
    return names_backend(case, backend.lower) and not names_other


# --- where a match stands --------------------------------------------------------------------------------------


def _is_tail(node: Node) -> bool:
    """True if the expression's value is what the function returns."""
    child, parent = node, node.parent
    while parent is not None:
        if parent.type == "function_item":
            return True
        if parent.type == "block":
            named = [n for n in parent.named_children if not is_comment(n)]
            if not named or named[-1] != child:
                return False
        elif parent.type == "expression_statement":
            if text_of(parent).rstrip().endswith(";"):
                return False
        elif parent.type == "match_expression":
            if child == parent.child_by_field_name("value"):
                return False
        elif parent.type == "match_arm":
            if child.type == "match_pattern":
                return False
        elif parent.type == "if_expression":
            if child == parent.child_by_field_name("condition"):
                return False
        elif parent.type not in ("match_block", "else_clause"):
            return False
        child, parent = parent, parent.parent
    return False
