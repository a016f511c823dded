"""Finding backend sites: every token that names CUDA or Metal belongs to exactly one of them.

The walk starts from the tokens, not from the constructs: each occurrence of a backend's name outside comments is
climbed down to from the root, and the outermost construct that knows about backends claims it. A token that no
construct claims is a site of kind `text`, so nothing can be missed, only left unhandled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen.syntax.matches import (
    arms_of,
    backend_matches,
    captures,
    is_exhaustive,
    named_enums,
    names_backend,
    pattern_of,
)
from codegen.syntax.source import cfg_predicate, is_comment, owner_of, predicates_in, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source

TOKEN = re.compile(rb"(?i)cuda|metal")
"""What makes a file worth parsing, and a token worth classifying."""

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
_FUNCTIONS = frozenset({"function_item", "function_signature_item"})
_CALL_BARRIERS = frozenset({"arguments", "closure_expression", "block", "declaration_list", "match_arm", "source_file"})
"""What a token lies in when it is not the name that a call calls."""
_BOOLEANS = frozenset(
    {"binary_expression", "unary_expression", "parenthesized_expression", "let_chain", "let_declaration", "if_expression"}
)
_FWD = re.compile(r"(cuda|metal|rocm)_fwd")


@dataclass(frozen=True, slots=True)
class Site:
    """One place that knows about backends."""

    path: str
    kind: str
    """A `SiteKind` value."""
    start: int
    end: int
    """Byte range of the construct itself, without attributes and documentation."""
    line: int
    column: int
    item: str
    """The enclosing items, such as `Storage::affine`; empty at file level."""
    name: str
    """The construct's own name where it has one (`as_cuda_device`), else empty."""
    snippet: str
    """The first line of the construct, trimmed."""
    enums: tuple[str, ...] = ()
    """Enums whose backend variant the patterns name, sorted."""
    gate: str = ""
    """`cfg` predicates that switch the site, outermost first, joined by `, `."""
    exhaustive: bool = False
    """A match that rustc rejects as soon as one of its enums gains a variant (or a function that holds one)."""
    metal_only: bool = False
    """Names Metal but not CUDA."""
    within: int | None = None
    """Start of the site that this one lies inside."""

    @property
    def id(self) -> str:
        """`path:line:column`, unique in a tree."""
        return f"{self.path}:{self.line}:{self.column}"


def find_sites(source: Source) -> tuple[Site, ...]:
    """All backend sites of a file, in order of position; a site inside another follows it."""
    walk = _Walk(source)
    walk.run()
    return tuple(sorted(walk.sites, key=lambda site: (site.start, -site.end)))


class _Walk:
    """State of one pass over a file's tokens."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.sites: list[Site] = []
        self.claims: list[tuple[int, int]] = []
        """Byte ranges that sites claim, from the token that led to the site on; they never overlap."""
        self.matches = {node.start_byte: node for node in backend_matches(source)}
        self.inner_gates = _inner_gates(source)
        self._taken: set[tuple[int, int, str]] = set()
        self._token = self._claimed_to = 0

    def run(self) -> None:
        for token in TOKEN.finditer(self.source.text):
            if token.start() < self._claimed_to:
                continue
            chain = self.source.chain(token.start(), token.end())
            if any(is_comment(node) for node in chain):
                continue
            self._token = token.start()
            if token[0].lower() == b"cuda":
                self._classify_cuda(chain)
            else:
                self._classify_metal(chain)
        self._add_nested_matches()
        self._add_metal_only_forwards()

    # --- CUDA tokens -------------------------------------------------------------------------------------------

    def _classify_cuda(self, chain: list[Node]) -> None:
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
            self._add(kind, owner, outer, name=_name_of(owner), claim=owner.end_byte)
            return
        kind = "cfg-item" if text_of(attribute).startswith("#[cfg_attr(") else "text"
        self._add(kind, attribute, chain[:depth], name=_attribute_name(attribute), claim=attribute.end_byte)

    def _inner_attribute(self, attribute: Node, chain: list[Node], depth: int) -> None:
        """`#![cfg(...)]` gates everything behind it in the file, module or block, which is one site then."""
        kind = "cfg-item" if text_of(attribute).startswith(("#![cfg(", "#![cfg_attr(")) else "text"
        gates = "cuda" in predicates_in([attribute]).lower()
        end = chain[depth - 1].end_byte if gates else attribute.end_byte
        self._add(kind, attribute, chain[:depth], name=_attribute_name(attribute), end=end, claim=end)

    def _cuda_site(self, node: Node, chain: list[Node], depth: int) -> bool:
        if node.type in _ITEMS:
            kind = self._item_kind(node)
            if kind:
                self._add(kind, node, chain[:depth], name=_name_of(node), claim=node.end_byte)
                return True
        if node.type == "match_arm":
            return self._arm(node, chain[:depth])
        if node.type in ("let_declaration", "let_condition"):
            return self._let(node, chain, depth)
        if node.type == "if_expression":
            condition = node.child_by_field_name("condition")
            if condition is None or not _covers(condition, chain[-1]) or _has_let(condition):
                return False
            kind = "cfg!" if any(_macro_name(inner) == "cfg" for inner in chain[depth:]) else "condition"
            self._add(kind, node, chain[:depth], claim=_condition_end(node))
            return True
        if node.type == "macro_invocation":
            kind = {"matches": "matches!", "cfg": "cfg!"}.get(_macro_name(node), "macro-arg")
            whole, outer = _statement_of(node, chain[: depth + 1])
            name = text_of(node.child_by_field_name("macro") or node)
            if kind == "macro-arg" and whole is not node:
                self._add("statement", whole, outer, name=name, claim=whole.end_byte)
            else:
                self._add(kind, node, chain[:depth], name=name, claim=node.end_byte)
            return True
        return False

    def _let(self, node: Node, chain: list[Node], depth: int) -> bool:
        pattern = node.child_by_field_name("pattern")
        if pattern is None or not names_backend(pattern, "cuda"):
            return False
        whole = _condition_holder(node) or node
        outer = chain[: next(at for at, each in enumerate(chain) if each == whole)]
        self._add("if-let", whole, outer, enums=named_enums(pattern), claim=_condition_end(whole))
        return True

    def _item_kind(self, node: Node) -> str | None:
        gate = cfg_predicate(node)
        gated = "cuda" in gate.lower()
        named = gated or "cuda" in _name_of(node).lower()
        if node.type in _FUNCTIONS and named:
            return "fwd" if _FWD.match(_name_of(node)) else "fn"
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
        if not names_backend(pattern_of(arm), "cuda"):
            return False
        block = arm.parent
        match = block.parent if block is not None else None
        if match is None or match.start_byte not in self.matches:
            return False
        self._claim(arm.end_byte)
        self._add_match(match, [node for node in outer if node not in (match, block)])
        return True

    def _add_match(self, match: Node, outer: list[Node], within: int | None = None) -> None:
        patterns = [pattern_of(arm) for arm in arms_of(match)]
        cuda = [pattern for pattern in patterns if names_backend(pattern, "cuda")]
        enums = sorted({enum for pattern in cuda or patterns for enum in named_enums(pattern)})
        kind = "match" if enums else "match-str"
        self._add(
            kind,
            match,
            outer,
            enums=tuple(enums),
            exhaustive=kind == "match" and is_exhaustive(match, "cuda" if cuda else "metal"),
            metal_only=not cuda,
            within=within,
        )

    def _add_leaf(self, chain: list[Node]) -> None:
        for depth in range(len(chain) - 1, 0, -1):
            node = chain[depth]
            if node.type == "call_expression":
                kind = "condition" if _callee(node) == "is_cuda" else "call"
                self._add(kind, node, chain[:depth], name=_callee(node), claim=node.end_byte)
                return
            if node.type in _CALL_BARRIERS:
                break
        leaf = chain[-1]
        self._add("text", leaf, chain[:-1], name=text_of(leaf), claim=leaf.end_byte)

    # --- Metal tokens: only what CUDA has no counterpart of ----------------------------------------------------

    def _classify_metal(self, chain: list[Node]) -> None:
        for depth, node in enumerate(chain):
            if node.type in ("attribute_item", "inner_attribute_item") or self._metal_site(node, chain, depth):
                return

    def _metal_site(self, node: Node, chain: list[Node], depth: int) -> bool:
        """True if the token needs no further look: its site was added, or CUDA has the counterpart."""
        if node.type == "match_arm":
            return self._metal_arm(node, chain[:depth])
        if node.type in ("let_declaration", "let_condition"):
            pattern = node.child_by_field_name("pattern")
            if pattern is None or not names_backend(pattern, "metal"):
                return False
            if not names_backend(pattern, "cuda"):
                self._add_metal_only("if-let", node, chain[:depth], enums=named_enums(pattern))
            return True
        if node.type == "macro_invocation" and _macro_name(node) == "matches":
            if "cuda" not in text_of(node).lower():
                self._add_metal_only("matches!", node, chain[:depth])
            return True
        if node.type == "if_expression":
            condition = node.child_by_field_name("condition")
            if condition is None or not _covers(condition, chain[-1]):
                return False
            if not _chain_names_cuda(node):
                kind = "if-let" if _has_let(condition) else "condition"
                kind = "cfg!" if any(_macro_name(inner) == "cfg" for inner in chain[depth:]) else kind
                self._add_metal_only(kind, node, chain[:depth])
            return True
        if node.type == "call_expression" and _callee(node) == "is_metal":
            if "is_cuda" not in text_of(_boolean_around(node)):
                self._add_metal_only("condition", node, chain[:depth], name="is_metal")
            return True
        return False

    def _metal_arm(self, arm: Node, outer: list[Node]) -> bool:
        pattern = pattern_of(arm)
        block = arm.parent
        match = block.parent if block is not None else None
        if match is None or not names_backend(pattern, "metal") or names_backend(pattern, "cuda"):
            return False
        outer = [node for node in outer if node not in (match, block)]
        if match.start_byte not in self.matches and not self._is_metal_code(outer):
            self._add_match(match, outer)
        return True

    def _add_metal_only(
        self, kind: str, node: Node, outer: list[Node], *, name: str = "", enums: tuple[str, ...] = ()
    ) -> None:
        if not self._is_metal_code(outer):
            self._add(kind, node, outer, name=name, enums=enums, metal_only=True)

    def _is_metal_code(self, outer: list[Node]) -> bool:
        return any(
            (node.type in _FUNCTIONS and "metal" in _name_of(node).lower())
            or ("metal" in (gate := self._gate(node).lower()) and "cuda" not in gate)
            for node in outer
        )

    def _add_metal_only_forwards(self) -> None:
        """`metal_fwd` in an impl that has no `cuda_fwd`: an op that CUDA users do without, and ROCm's need not."""
        if b"metal_fwd" not in self.source.text:
            return
        for found in captures("(impl_item body: (declaration_list) @body)", "body", self.source.root):
            functions = {_name_of(n): n for n in found.children if n.type == "function_item"}
            if "metal_fwd" in functions and "cuda_fwd" not in functions:
                node = functions["metal_fwd"]
                chain = self.source.chain(node.start_byte, node.end_byte)
                self._add("fwd", node, [n for n in chain if n != node], name="metal_fwd", metal_only=True)

    # --- sites inside sites ------------------------------------------------------------------------------------

    def _add_nested_matches(self) -> None:
        taken = {site.start for site in self.sites if site.kind in ("match", "match-str")}
        for start, match in self.matches.items():
            if start in taken:
                continue
            outer = [n for n in self.source.chain(start, match.end_byte) if n != match]
            holders = [site for site in self.sites if site.start <= start and match.end_byte <= site.end]
            within = min(holders, key=lambda site: site.end - site.start).start if holders else None
            self._add_match(match, outer, within=within)
        for index, site in enumerate(self.sites):
            if site.kind in ("fn", "fwd") and any(
                other.within == site.start and other.exhaustive and other.start < site.end for other in self.sites
            ):
                self.sites[index] = replace(site, exhaustive=True)

    # --- building one ------------------------------------------------------------------------------------------

    def _claim(self, end: int) -> None:
        if end > self._claimed_to:
            self.claims.append((self._token, end))
            self._claimed_to = end

    def _gate(self, node: Node) -> str:
        own, inner = cfg_predicate(node), self.inner_gates.get(node.id, "")
        return ", ".join(gate for gate in (own, inner) if gate)

    def _add(
        self,
        kind: str,
        node: Node,
        outer: list[Node],
        *,
        name: str = "",
        enums: tuple[str, ...] = (),
        exhaustive: bool = False,
        metal_only: bool = False,
        within: int | None = None,
        claim: int | None = None,
        end: int | None = None,
    ) -> None:
        if claim is not None:
            self._claim(claim)
        key = (node.start_byte, node.end_byte, kind)
        if key in self._taken:
            return
        self._taken.add(key)
        self.sites.append(
            Site(
                path=self.source.path,
                kind=kind,
                start=node.start_byte,
                end=node.end_byte if end is None else end,
                line=self.source.line_of(node.start_byte),
                column=self.source.column_of(node.start_byte),
                item="::".join(part for n in outer if (part := _item_name(n))),
                name=name,
                snippet=text_of(node).split("\n", 1)[0].strip()[:120],
                enums=enums,
                gate=", ".join(gate for n in (*outer, node) if (gate := self._gate(n))),
                exhaustive=exhaustive,
                metal_only=metal_only,
                within=within,
            )
        )


def _inner_gates(source: Source) -> dict[int, str]:
    """`#![cfg(...)]` predicates by the id of the file, module body or block that they gate."""
    if b"#![cfg(" not in source.text:
        return {}
    found: dict[int, list[Node]] = {}
    for attribute in captures("(inner_attribute_item) @attribute", "attribute", source.root):
        if attribute.parent is not None:
            found.setdefault(attribute.parent.id, []).append(attribute)
    return {node: predicates_in(attributes) for node, attributes in found.items()}


def _attribute_name(attribute: Node) -> str:
    """`cfg_attr` for `#[cfg_attr(...)]`."""
    return re.sub(r"^#!?\[\s*([\w:]*).*", r"\1", text_of(attribute), flags=re.DOTALL)


def _macro_name(node: Node) -> str:
    """The last segment of a macro call's path, empty for any other node."""
    if node.type != "macro_invocation":
        return ""
    return text_of(node.child_by_field_name("macro") or node).split("::")[-1]


def _name_of(node: Node) -> str:
    name = node.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def _item_name(node: Node) -> str:
    if node.type == "impl_item":
        target = node.child_by_field_name("type")
        return text_of(target).split("<")[0] if target is not None else ""
    if node.type in ("trait_item", "mod_item", "enum_item", "struct_item", "macro_definition", *_FUNCTIONS):
        return _name_of(node)
    return ""


def _callee(call: Node) -> str:
    function = call.child_by_field_name("function")
    return re.split(r"::|\.", text_of(function).split("<")[0])[-1] if function is not None else ""


def _covers(outer: Node, inner: Node) -> bool:
    return outer.start_byte <= inner.start_byte and inner.end_byte <= outer.end_byte


def _has_let(condition: Node) -> bool:
    return condition.type in ("let_condition", "let_chain")


def _condition_holder(let: Node) -> Node | None:
    """The `if` or `while` whose condition the `let` is, or is a part of."""
    node, parent = let, let.parent
    while parent is not None and parent.type in ("let_chain", "parenthesized_expression", "binary_expression"):
        node, parent = parent, parent.parent
    if parent is not None and parent.type in ("if_expression", "while_expression"):
        return parent if parent.child_by_field_name("condition") == node else None
    return None


def _condition_end(node: Node) -> int:
    """A condition claims its consequence when that names CUDA too: the two belong together.

    The `else` of a `let` does not belong to it: it runs on the other backends.
    """
    if node.type == "let_declaration":
        otherwise = node.child_by_field_name("alternative")
        return otherwise.start_byte if otherwise is not None else node.end_byte
    condition = node.child_by_field_name("condition")
    consequence = node.child_by_field_name("consequence") or node.child_by_field_name("body")
    if condition is None or consequence is None:
        return node.end_byte
    return consequence.end_byte if "cuda" in text_of(consequence).lower() else condition.end_byte


def _boolean_around(node: Node) -> Node:
    """The largest boolean expression that the node is an operand of, or the statement that is no more than that."""
    while node.parent is not None and node.parent.type in _BOOLEANS:
        node = node.parent
    return node


def _statement_of(node: Node, chain: list[Node]) -> tuple[Node, list[Node]]:
    """The statement or impl-level item that the macro call is, or is the main part of, and what encloses it."""
    for index in range(len(chain) - 1, 0, -1):
        candidate, outer = chain[index], chain[:index]
        if candidate.type == "expression_statement":
            return candidate, outer
        if candidate is node and outer[-1].type in ("declaration_list", "source_file"):
            return node, outer
        if candidate.type in ("block", "let_declaration", "match_arm", "declaration_list"):
            break
    return node, chain[:-1]


def _chain_names_cuda(node: Node) -> bool:
    """True if any condition of the `if` / `else if` chain around `node` names CUDA."""
    top = node
    while top.parent is not None and top.parent.type == "else_clause" and top.parent.parent is not None:
        top = top.parent.parent
    return any("cuda" in text_of(condition).lower() for condition in _conditions(top))


def _conditions(node: Node) -> Iterator[Node]:
    condition = node.child_by_field_name("condition")
    if condition is not None:
        yield condition
    alternative = node.child_by_field_name("alternative")
    if alternative is not None:
        for child in alternative.children:
            if child.type == "if_expression":
                yield from _conditions(child)

