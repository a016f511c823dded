"""The verbs that derive a ROCm form from the CUDA (or Metal) form of a site: text edits, nothing is written.

Facts behind them: every generated piece is a renamed copy of a sibling in the very tree at hand, so it follows
Candle's own signatures in every release. Every verb raises `CannotMirror` for a site whose shape it does not take.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.syntax.arms import foreign_arms, mirror_arms, override_arms, stand_in_arms, teach_variant
from codegen.syntax.conditions import chain_call, feature_question, widen, widen_gate
from codegen.syntax.edit import (
    GATE,
    CannotMirror,
    Style,
    TextEdit,
    apply_edits,
    corrected,
    indent_at,
    indented,
    mirrored,
    needs_the_feature,
    refuse_errors,
    site_expression,
    site_node,
    with_newlines_of,
)
from codegen.syntax.imports import extend_imports
from codegen.syntax.items import (
    begin_body,
    insert_in_macro,
    insert_item,
    insert_module,
    refuse_expression,
    refuse_value,
)
from codegen.syntax.rename import CUDA, METAL, rename
from codegen.syntax.source import cfg_predicate, unit_start

if TYPE_CHECKING:
    from tree_sitter import Node

    from codegen.syntax.site import Site
    from codegen.syntax.source import Source

__all__ = [
    "CannotMirror",
    "Style",
    "TextEdit",
    "apply_edits",
    "chain_condition",
    "extend_use",
    "foreign_match",
    "insert_item",
    "insert_module",
    "insert_override",
    "mirror_item",
    "mirror_match",
    "mirrored_text",
    "or_in_condition",
    "stand_in_match",
    "swap_function",
]

_FUNCTIONS = ("function_item", "function_signature_item")
_NAMED = ("fn", "mod", "static")
_GATED_ITEMS = ("fn", "use", "mod", "static", "statement", "cfg-item")


def mirror_match(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """Give a match a ROCm arm next to every CUDA arm."""
    match = site_node(source, site, "match_expression")
    return with_newlines_of(source, mirror_arms(source, match, style))


def foreign_match(source: Source, match: Node, style: Style) -> list[TextEdit]:
    """Give a match inside another backend's code a ROCm arm that answers as the Metal arm does."""
    return with_newlines_of(source, foreign_arms(source, match, style))


def stand_in_match(source: Source, site: Site, style: Style, call: str) -> list[TextEdit]:
    """Give a match a ROCm arm that returns the typed error `call` makes (an expression of type `Result<T>`)."""
    match = site_node(source, site, "match_expression")
    return with_newlines_of(source, stand_in_arms(source, match, style, call))


def mirror_item(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """Copy a function, static, variant, module, import or statement and rename it."""
    node = site_node(source, site)
    refuse_expression(node)
    refuse_value(node)
    refuse_errors(node)
    if site.kind in _NAMED and CUDA.lower not in site.name.lower():
        raise CannotMirror("its name does not name CUDA, so its copy would be called the same")
    if site.exhaustive:
        raise CannotMirror("it holds a match that rustc wants complete, so the original must learn ROCm too: swap it")
    text = mirrored(source.slice(unit_start(node), node.end_byte), style)
    return with_newlines_of(source, insert_item(source, node, text, style))


def swap_function(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """`as_cuda_device` learns the ROCm variant, and its Cuda<->Rocm exchange becomes `as_rocm_device`."""
    node = site_node(source, site, *_FUNCTIONS)
    refuse_errors(node)
    if CUDA.lower not in site.name.lower():
        raise CannotMirror("its name does not name CUDA, so its exchange would be called the same")
    edits, text = teach_variant(source, node, style, start=unit_start(node))
    return with_newlines_of(source, edits + insert_item(source, node, text, style))


def or_in_condition(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """`x.is_cuda()` or `x.is_metal()` in a condition becomes `x.is_cuda() || x.is_rocm()`, a pattern an or-pattern.

    An item behind `#[cfg(feature = "cuda")]` that does not name CUDA itself is there with `rocm` as well.
    """
    del style
    backend = METAL if site.metal_only else CUDA
    if site.kind in _GATED_ITEMS:
        return with_newlines_of(source, widen_gate(site_node(source, site), source, backend))
    node = site_expression(source, site)
    consequence = node.child_by_field_name("consequence") or node.child_by_field_name("body")
    if consequence is not None and source.mentions(backend.lower, consequence.start_byte, consequence.end_byte):
        raise CannotMirror(f"the consequence names {backend.prose} too, so ROCm needs one of its own: chain it")
    scope = node.child_by_field_name("condition") or node
    refuse_errors(scope)
    return with_newlines_of(source, widen(scope, source, backend))


def chain_condition(source: Source, site: Site, style: Style) -> list[TextEdit]:
    """`if x.is_cuda() { cuda() }` gets `else if x.is_rocm() { rocm() }` behind its block, before any other branch.

    `Device::cuda_if_available(0)` is an `if` of that kind in Candle, with the CPU as its `else`: where it answers with
    the CPU, ROCm is asked.
    """
    node = site_expression(source, site)
    if node.type == "call_expression":
        return with_newlines_of(source, [chain_call(node, style)])
    condition, consequence = (node.child_by_field_name(name) for name in ("condition", "consequence"))
    if node.type != "if_expression" or condition is None or consequence is None:
        raise CannotMirror("only an `if` can have one more branch")
    refuse_errors(condition)
    refuse_errors(consequence)
    if not source.mentions(CUDA.lower, condition.start_byte, condition.end_byte):
        raise CannotMirror("its condition does not ask for CUDA")
    asked = mirrored(source.slice(node.start_byte, consequence.start_byte), style)
    block = mirrored(source.slice(consequence.start_byte, consequence.end_byte), style)
    if style.cfg and needs_the_feature(block):
        block = f'{{ {GATE} {block} #[cfg(not(feature = "rocm"))] {{ unreachable!() }} }}'
    end = consequence.end_byte
    return with_newlines_of(source, [TextEdit(end, end, f" else {asked}{block}")])


def extend_use(source: Source, site: Site, used: str, style: Style) -> list[TextEdit]:
    """Import the renamed names next to CUDA's in a `use` list, those only that `used` (other generated text) needs."""
    declaration = site_node(source, site, "use_declaration")
    return with_newlines_of(source, extend_imports(source, declaration, used, style))


def mirrored_text(source: Source, site: Site, style: Style) -> str:
    """The renamed copy of the whole item, attributes included, for templates that build on it."""
    node = site_node(source, site)
    return corrected(rename(source.slice(unit_start(node), node.end_byte), protected=style.protected), style)


def insert_override(source: Source, site: Site, text: str, style: Style) -> list[TextEdit]:
    """Put a template's text where the mirrored text would stand.

    An arm or a variant gets the `cfg` attribute that the style asks for; other text brings its own.

    In a macro that is the end of what the macro expands to: there is one macro for all backends. A `cfg!` that
    asks for CUDA goes on with the text, which begins with an operator. A function that is there for CUDA and does not
    name it has a twin of the same name for other builds, so nothing can be called so beside it: its body begins with
    the text.
    """
    text = text.rstrip("\n")
    if site.kind == "cfg!":
        asked = feature_question(site_expression(source, site), source)
        return with_newlines_of(source, [TextEdit(asked.end_byte, asked.end_byte, f" {text}")])
    if site.kind in ("match", "match-str"):
        match = site_node(source, site, "match_expression")
        return with_newlines_of(source, override_arms(source, match, text, style))
    node = site_node(source, site)
    if node.type == "macro_definition":
        return with_newlines_of(source, insert_in_macro(source, node, text))
    refuse_expression(node)
    if site.kind == "fn" and CUDA.lower not in site.name.lower() and cfg_predicate(node):
        return with_newlines_of(source, begin_body(source, node, text))
    text = indented(text, indent_at(source, unit_start(node)))
    gating = style if site.kind == "enum" else replace(style, cfg=False)
    return with_newlines_of(source, insert_item(source, node, text, gating))
