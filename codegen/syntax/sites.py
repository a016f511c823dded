"""Finding backend sites: every token that names CUDA or Metal belongs to exactly one of them.

The walk starts from the tokens, not from the constructs: each occurrence of a backend's name outside comments is
climbed down to from the root, and the outermost construct that knows about backends claims it. A token that no
construct claims is a site of kind `text`, so nothing can be missed, only left unhandled.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError
from codegen.syntax.constructs import (
    FUNCTIONS,
    attribute_name,
    callee,
    condition_end,
    condition_holder,
    covers,
    has_let,
    macro_name,
    name_of,
    statement_of,
)
from codegen.syntax.matches import named_enums, pattern_of
from codegen.syntax.metal import add_metal_only_forwards, classify_metal
from codegen.syntax.site import Site, SiteList
from codegen.syntax.source import backend_tokens, cfg_predicate, is_comment, owner_of, predicates_in, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from codegen.syntax.source import Source

__all__ = ["Site", "find_sites"]

_ITEMS = frozenset(
    {
        "function_item",
        "function_signature_item",
        "mod_item",
        "struct_item",
        "enum_item",
        "impl_item",
        "trait_item",
        "static_item",
        "const_item",
        "use_declaration",
        "type_item",
        "macro_definition",
        "macro_invocation",
        "enum_variant",
        "field_declaration",
        "let_declaration",
        "expression_statement",
        "block",
        "field_initializer",
        "shorthand_field_initializer",
        "extern_crate_declaration",
        "empty_statement",
    }
)
_CALL_BARRIERS = frozenset({"arguments", "closure_expression", "block", "declaration_list", "match_arm", "source_file"})
"""What a token lies in when it is not the name that a call calls."""
_FWD = re.compile(r"(cuda|metal|rocm)_fwd")


def find_sites(source: Source) -> tuple[Site, ...]:
    """All backend sites of a file, in order of position; a site inside another follows it."""
    return tuple(sorted(walk(source).sites, key=lambda site: (site.start, -site.end)))


def walk(source: Source) -> SiteList:
    """One pass over the tokens of a file: its sites in the order they were found, and what they claim.

    Raises `InputOutputError` for a file that would take too long.
    """
    try:
        return _walked(source)
    except RecursionError as cause:
        raise InputOutputError(
            f"{source.path}: expressions or patterns are nested too deeply", remedy="remove the file from the tree"
        ) from cause


def _walked(source: Source) -> SiteList:
    found = SiteList(source)
    cuda = _CudaTokens(found)
    for token in backend_tokens(source.text):
        if token.start() < found.claimed_to:
            continue
        chain = found.chain(token.start(), token.end())
        if any(is_comment(node) for node in chain):
            continue
        found.token = token.start()
        if token[0] == b"cuda":
            cuda.classify(chain)
        else:
            classify_metal(found, chain)
    _add_nested_matches(found)
    add_metal_only_forwards(found)
    return found


class _CudaTokens:
    """Adds the site that each CUDA token belongs to."""

    def __init__(self, found: SiteList) -> None:
        self.found = found
        self._kinds: dict[int, str | None] = {}

    def classify(self, chain: list[Node]) -> None:
        for depth, node in enumerate(chain):
            if node.type == "attribute_item":
                self._attribute(node, chain, depth)
                return
            if node.type == "inner_attribute_item":
                self._inner_attribute(node, chain, depth)
                return
            if self._cuda_site(node, chain, depth):
                return
        self._add_leaf(chain)

    def _attribute(self, attribute: Node, chain: list[Node], depth: int) -> None:
        """A `cfg` makes the whole item a site; any other attribute is one by itself."""
        owner = owner_of(attribute)
        kind = self._item_kind(owner) if owner is not None else None
        if owner is not None and kind is not None:
            outer = [node for node in chain[:depth] if node != owner]
            self.found.add(kind, owner, outer, name=name_of(owner), claim_to=owner.end_byte)
            return
        kind = "cfg-item" if text_of(attribute).startswith("#[cfg_attr(") else "text"
        self.found.add(kind, attribute, chain[:depth], name=attribute_name(attribute), claim_to=attribute.end_byte)

    def _inner_attribute(self, attribute: Node, chain: list[Node], depth: int) -> None:
        """`#![cfg(...)]` gates everything behind it in the file, module or block, which is one site then."""
        kind = "cfg-item" if text_of(attribute).startswith(("#![cfg(", "#![cfg_attr(")) else "text"
        gates = "cuda" in predicates_in([attribute]).lower()
        end = chain[depth - 1].end_byte if gates else attribute.end_byte
        self.found.add(kind, attribute, chain[:depth], name=attribute_name(attribute), end=end, claim_to=end)

    def _cuda_site(self, node: Node, chain: list[Node], depth: int) -> bool:
        if node.type in _ITEMS:
            kind = self._item_kind(node)
            if kind:
                self.found.add(kind, node, chain[:depth], name=name_of(node), claim_to=node.end_byte)
                return True
        if node.type == "match_arm":
            return self._arm(node, chain[:depth])
        if node.type in ("let_declaration", "let_condition"):
            return self._let(node, chain, depth)
        if node.type == "if_expression":
            condition = node.child_by_field_name("condition")
            if condition is None or not covers(condition, chain[-1]) or has_let(condition):
                return False
            if any(inner.type == "match_arm" for inner in chain[depth:]):
                return False
            kind = "cfg!" if any(macro_name(inner) == "cfg" for inner in chain[depth:]) else "condition"
            self.found.add(kind, node, chain[:depth], claim_to=condition_end(self.found.source, node))
            return True
        if node.type == "macro_invocation":
            kind = {"matches": "matches!", "cfg": "cfg!"}.get(macro_name(node), "macro-arg")
            whole, outer = statement_of(node, chain[: depth + 1])
            name = text_of(node.child_by_field_name("macro") or node)
            if kind == "macro-arg" and whole is not node:
                self.found.add("statement", whole, outer, name=name, claim_to=whole.end_byte)
            else:
                self.found.add(kind, node, chain[:depth], name=name, claim_to=node.end_byte)
            return True
        return False

    def _let(self, node: Node, chain: list[Node], depth: int) -> bool:
        pattern = node.child_by_field_name("pattern")
        if pattern is None or not self.found.names(pattern, "cuda"):
            return False
        whole = condition_holder(chain, depth) or node
        end = condition_end(self.found.source, whole)
        if self.found.token >= end:
            return False
        outer = chain[: next(at for at, each in enumerate(chain) if each == whole)]
        self.found.add("if-let", whole, outer, enums=named_enums(pattern), claim_to=end)
        return True

    def _item_kind(self, node: Node) -> str | None:
        if node.id not in self._kinds:
            self._kinds[node.id] = self._kind(node)
        return self._kinds[node.id]

    def _kind(self, node: Node) -> str | None:
        gate = cfg_predicate(node)
        gated = "cuda" in gate.lower()
        named = gated or "cuda" in name_of(node).lower()
        if node.type in FUNCTIONS and named:
            return "fwd" if _FWD.match(name_of(node)) else "fn"
        if node.type == "mod_item" and named:
            return "mod"
        if node.type == "use_declaration":
            return "use" if gated or "cuda" in text_of(node).lower() else None
        if node.type in ("static_item", "const_item") and named:
            return "static"
        if node.type == "enum_variant" and named:
            return "enum"
        if node.type == "macro_definition" and (gated or "cuda" in text_of(node).lower()):
            return "macro-rules"
        if node.type == "macro_invocation" and gated:
            return "statement"
        return "cfg-item" if gated else None

    def _arm(self, arm: Node, outer: list[Node]) -> bool:
        if not self.found.names(pattern_of(arm), "cuda"):
            return False
        match, block = outer[-2:] if len(outer) > 1 else (None, None)
        if match is None or match.start_byte not in self.found.matches:
            return False
        self.found.claim(arm.end_byte)
        self.found.add_match(match, [node for node in outer if node not in (match, block)])
        return True

    def _add_leaf(self, chain: list[Node]) -> None:
        for depth in range(len(chain) - 1, 0, -1):
            node = chain[depth]
            if node.type == "call_expression":
                kind = "condition" if callee(node) == "is_cuda" else "call"
                self.found.add(kind, node, chain[:depth], name=callee(node), claim_to=node.end_byte)
                return
            if node.type in _CALL_BARRIERS:
                break
        leaf = chain[-1]
        self.found.add("text", leaf, chain[:-1], name=text_of(leaf), claim_to=leaf.end_byte)


def _add_nested_matches(found: SiteList) -> None:
    """Matches in text that another site claims: sites inside it."""
    taken = {site.start for site in found.sites if site.kind in ("match", "match-str")}
    waiting = sorted(found.sites, key=lambda site: (site.start, -site.end), reverse=True)
    around: list[Site] = []
    """Those that begin in front of the match and may end behind it."""
    for start, match in sorted(found.matches.items()):
        if start in taken:
            continue
        while waiting and waiting[-1].start <= start:
            around.append(waiting.pop())
        around = [site for site in around if site.end > start]
        outer = [n for n in found.chain(start, match.end_byte) if n != match]
        holders = [site for site in around if match.end_byte <= site.end]
        within = min(holders, key=lambda site: site.end - site.start).start if holders else None
        known = len(found.sites)
        found.add_match(match, outer, within=within)
        around += found.sites[known:]
    demanding = sorted(site.start for site in found.sites if site.exhaustive and site.within is not None)
    for index, site in enumerate(found.sites):
        behind = bisect_right(demanding, site.start)
        if site.kind in ("fn", "fwd") and behind < len(demanding) and demanding[behind] < site.end:
            found.sites[index] = replace(site, exhaustive=True)
