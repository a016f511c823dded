"""Metal-only sites: places that know Metal and not CUDA, where rustc sees nothing and ROCm takes CUDA's side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.constructs import (
    FUNCTIONS,
    boolean_around,
    callee,
    conditions_name_cuda,
    covers,
    first_of_chain,
    has_let,
    macro_name,
    name_of,
    statement_of,
)
from codegen.syntax.matches import captures, named_enums, pattern_of
from codegen.syntax.source import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from codegen.syntax.site import SiteList


def classify_metal(found: SiteList, chain: list[Node]) -> None:
    """Add the site of the Metal token that `chain` leads to, unless CUDA has the counterpart."""
    for depth, node in enumerate(chain):
        if node.type in ("attribute_item", "inner_attribute_item") or _metal_site(found, node, chain, depth):
            return


def _metal_site(found: SiteList, node: Node, chain: list[Node], depth: int) -> bool:
    """True if the token needs no further look: its site was added, or CUDA has the counterpart."""
    if node.type == "match_arm":
        return _metal_arm(found, node, chain[:depth])
    if node.type in ("let_declaration", "let_condition"):
        pattern = node.child_by_field_name("pattern")
        if pattern is None or not found.names(pattern, "metal"):
            return False
        if not found.names(pattern, "cuda"):
            _add_metal_only(found, "if-let", node, chain[:depth], enums=named_enums(pattern))
        return True
    if node.type == "macro_invocation":
        if not found.says(boolean_around(chain, depth), "cuda"):
            _metal_macro(found, node, chain, depth)
        return True
    if node.type == "if_expression":
        condition = node.child_by_field_name("condition")
        if condition is None or not covers(condition, chain[-1]):
            return False
        if not found.once(first_of_chain(chain, depth), conditions_name_cuda):
            kind = "if-let" if has_let(condition) else "condition"
            kind = "cfg!" if any(macro_name(inner) == "cfg" for inner in chain[depth:]) else kind
            _add_metal_only(found, kind, node, chain[:depth], enums=named_enums(condition))
        return True
    if node.type == "call_expression" and callee(node) == "is_metal":
        if not found.says(boolean_around(chain, depth), "is_cuda"):
            _add_metal_only(found, "condition", node, chain[:depth], name="is_metal")
        return True
    return False


def _metal_macro(found: SiteList, node: Node, chain: list[Node], depth: int) -> None:
    kind = {"matches": "matches!", "cfg": "cfg!"}.get(macro_name(node), "macro-arg")
    if kind != "macro-arg":
        _add_metal_only(found, kind, node, chain[:depth])
    elif re.search(r"\bis_metal\b|::Metal\b", text_of(node)):
        whole, outer = statement_of(node, chain[: depth + 1])
        name = text_of(node.child_by_field_name("macro") or node)
        _add_metal_only(found, "macro-arg" if whole is node else "statement", whole, outer, name=name)


def _metal_arm(found: SiteList, arm: Node, outer: list[Node]) -> bool:
    pattern = pattern_of(arm)
    match, block = outer[-2:] if len(outer) > 1 else (None, None)
    if match is None or not found.names(pattern, "metal") or found.names(pattern, "cuda"):
        return False
    outer = [node for node in outer if node not in (match, block)]
    if match.start_byte not in found.matches and not _is_metal_code(found, outer):
        found.add_match(match, outer)
    return True


def _add_metal_only(
    found: SiteList, kind: str, node: Node, outer: list[Node], *, name: str = "", enums: tuple[str, ...] = ()
) -> None:
    if not _is_metal_code(found, outer):
        found.add(kind, node, outer, name=name, enums=enums, metal_only=True)


def _is_metal_code(found: SiteList, outer: list[Node]) -> bool:
    return any(
        (node.type in FUNCTIONS and "metal" in name_of(node).lower())
        or ("metal" in (gate := found.gate(node).lower()) and "cuda" not in gate)
        for node in outer
    )


def add_metal_only_forwards(found: SiteList) -> None:
    """`metal_fwd` in an impl that has no `cuda_fwd`: an op that CUDA users do without, and ROCm's need not."""
    if b"metal_fwd" not in found.source.text:
        return
    for body in captures("(impl_item body: (declaration_list) @body)", "body", found.source.root):
        functions = {name_of(n): n for n in body.children if n.type == "function_item"}
        if "metal_fwd" in functions and "cuda_fwd" not in functions:
            node = functions["metal_fwd"]
            chain = found.chain(node.start_byte, node.end_byte)
            found.add("fwd", node, [n for n in chain if n != node], name="metal_fwd", metal_only=True)
