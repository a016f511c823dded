"""Finding backend sites: every token that names CUDA or Metal belongs to exactly one of them.

The walk starts from the tokens, not from the constructs: each occurrence of a backend's name outside comments is
climbed down to from the root, and the outermost construct that knows about backends claims it. A token that no
construct claims is a site of kind `text`, so nothing can be missed, only left unhandled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen.syntax.matches import backend_matches, captures, named_enums, names_backend
from codegen.syntax.source import attributes_of, cfg_predicate, is_comment, owner_of, text_of

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
        self.matches = {node.start_byte: node for node in backend_matches(source)}
        self._taken: set[tuple[int, int, str]] = set()
        self._claimed_to = 0
        self._counterparts: list[tuple[int, int]] = []

    def run(self) -> None:
        for token in TOKEN.finditer(self.source.text):
            if token.start() < self._claimed_to:
                continue
            chain = self.source.chain(token.start(), token.end())
            if any(is_comment(node) for node in chain):
                continue
            self._classify(chain, token[0].lower() == b"cuda")
        self._add_nested_matches()
        self._add_metal_only_forwards()

    def _classify(self, chain: list[Node], cuda: bool) -> None:  # noqa: FBT001 - which of two tokens it is
        classify = self._cuda_site if cuda else self._metal_site
        for depth, node in enumerate(chain):
            owner = owner_of(node) if node.type == "attribute_item" else node
            if owner is None:
                continue
            found = classify(owner, chain, depth)
            if found is not None:
                return
        if cuda:
            self._add_leaf(chain)

    # --- CUDA tokens -------------------------------------------------------------------------------------------

    def _cuda_site(self, node: Node, chain: list[Node], depth: int) -> bool | None:
        if node.type in _ITEMS:
            kind = self._item_kind(node)
            if kind:
                self._add(kind, node, chain[:depth], name=_name_of(node), claim=node.end_byte)
                return True
        if node.type == "match_arm":
            return self._arm(node, chain[:depth])
        if node.type in ("let_declaration", "let_condition"):
            pattern = node.child_by_field_name("pattern")
            if pattern is not None and names_backend(pattern, "cuda"):
                whole = _enclosing_if(chain[:depth]) or node if node.type == "let_condition" else node
                self._add("if-let", whole, chain[:depth], enums=named_enums(pattern), claim=_condition_end(whole, chain))
                return True
        if node.type == "if_expression":
            condition = node.child_by_field_name("condition")
            if condition is not None and _covers(condition, chain[-1]) and condition.type != "let_condition":
                if _has_let(condition):
                    return None
                kind = "cfg!" if "cfg!" in text_of(condition) else "condition"
                self._add(kind, node, chain[:depth], claim=_condition_end(node, chain))
                return True
        if node.type == "macro_invocation":
            name = text_of(node.child_by_field_name("macro") or node)
            kind = {"matches": "matches!", "cfg": "cfg!"}.get(name, "macro-arg")
            whole, outer = _statement_of(node, chain[: depth + 1])
            if kind == "macro-arg" and whole is not node:
                self._add("statement", whole, outer, name=name, claim=whole.end_byte)
            else:
                self._add(kind, node, chain[:depth], name=name, claim=node.end_byte)
            return True
        return None

    def _item_kind(self, node: Node) -> str | None:
        gate = cfg_predicate(node)
        name = _name_of(node)
        named = "cuda" in name.lower()
        attributes = "".join(text_of(a) for a in attributes_of(node) if a.type == "attribute_item").lower()
        gated = "cuda" in gate.lower()
        if node.type in _FUNCTIONS and (named or gated):
            return "fwd" if _FWD.match(name) else "fn"
        if node.type == "mod_item" and (named or gated):
            return "mod"
        if node.type == "use_declaration":
            return "use" if gated or "cuda" in text_of(node).lower() else None
        if node.type in ("static_item", "const_item") and (named or gated):
            return "static"
        if node.type == "enum_variant" and (named or gated):
            return "enum"
        if node.type == "macro_definition" and ("cuda" in text_of(node).lower()):
            return "macro-rules"
        if node.type == "macro_invocation" and gated:
            return "statement"
        if gated:
            return "cfg-item"
        return "cfg-item" if "cuda" in attributes and node.type != "enum_variant" else None

    def _arm(self, arm: Node, outer: list[Node]) -> bool | None:
        pattern = arm.child_by_field_name("pattern")
        if pattern is None:
            return None
        if not names_backend(pattern, "cuda"):
            return None
        block = arm.parent
        match = block.parent if block is not None else None
        if match is None or match.start_byte not in self.matches:
            return None
        self._claimed_to = max(self._claimed_to, arm.end_byte)
        self._add_match(match, [node for node in outer if node != match and node != block])
        return True

    def _add_match(self, match: Node, outer: list[Node], within: int | None = None) -> None:
        arms = _arms(match)
        patterns = [pattern for arm in arms if (pattern := arm.child_by_field_name("pattern")) is not None]
        cuda = [pattern for pattern in patterns if names_backend(pattern, "cuda")]
        enums = sorted({enum for pattern in cuda or patterns for enum in named_enums(pattern)})
        kind = "match" if enums else "match-str"
        self._add(
            kind,
            match,
            outer,
            enums=tuple(enums),
            exhaustive=kind == "match" and not any(_is_catch_all(pattern) for pattern in patterns),
            metal_only=not cuda,
            within=within,
        )

    def _add_leaf(self, chain: list[Node]) -> None:
        for depth in range(len(chain) - 1, 0, -1):
            node = chain[depth]
            if node.type == "call_expression" and node.child_by_field_name("function") in chain:
                condition = re.search(r"\bis_cuda$", text_of(node.child_by_field_name("function") or node))
                kind = "condition" if condition else "call"
                self._add(kind, node, chain[:depth], name=_callee(node), claim=node.end_byte)
                return
            if node.type in ("block", "declaration_list", "match_arm", "source_file"):
                break
        leaf = chain[-1]
        self._add("text", leaf, chain[:-1], name=text_of(leaf), claim=leaf.end_byte)

    # --- Metal tokens: only what CUDA has no counterpart of ----------------------------------------------------

    def _metal_site(self, node: Node, chain: list[Node], depth: int) -> bool | None:
        if node.type in _ITEMS and "metal" in cfg_predicate(node).lower() and "cuda" not in cfg_predicate(node).lower():
            return True
        if node.type == "match_arm":
            pattern = node.child_by_field_name("pattern")
            if pattern is None or not names_backend(pattern, "metal") or names_backend(pattern, "cuda"):
                return None
            match = node.parent.parent if node.parent is not None else None
            if match is None:
                return None
            if match.start_byte not in self.matches and not self._in_metal_code(chain[:depth]):
                self._add_match(match, [n for n in chain[:depth] if n != match and n != node.parent])
            return True
        if node.type == "macro_invocation" and text_of(node.child_by_field_name("macro") or node) == "matches":
            if "cuda" not in text_of(node).lower() and not self._in_metal_code(chain[:depth]):
                self._add("matches!", node, chain[:depth], metal_only=True)
            return True
        if node.type == "if_expression":
            condition = node.child_by_field_name("condition")
            if condition is None or not _covers(condition, chain[-1]):
                return None
            if not _chain_names_cuda(node) and not self._in_metal_code(chain[:depth]):
                kind = "if-let" if _has_let(condition) else "condition"
                kind = "cfg!" if "cfg!" in text_of(condition) else kind
                self._add(kind, node, chain[:depth], metal_only=True)
            return True
        if node.type == "call_expression" and _callee(node) == "is_metal":
            outer = chain[:depth]
            statement = next((n for n in reversed(outer) if n.type in ("let_declaration", "expression_statement")), node)
            if "is_cuda" not in text_of(statement) and not self._in_metal_code(outer):
                self._add("condition", node, outer, metal_only=True, name="is_metal")
            return True
        return None

    def _in_metal_code(self, outer: list[Node]) -> bool:
        return any(
            (node.type in _FUNCTIONS and "metal" in _name_of(node).lower())
            or (node.type in _ITEMS and "metal" in cfg_predicate(node).lower())
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
            holders = [site for site in self.sites if self._claims(site, start, match.end_byte)]
            within = min(holders, key=lambda site: site.end - site.start).start if holders else None
            self._add_match(match, outer, within=within)
        for index, site in enumerate(self.sites):
            if site.kind in ("fn", "fwd") and any(
                other.within == site.start and other.exhaustive and other.start < site.end for other in self.sites
            ):
                self.sites[index] = replace(site, exhaustive=True)

    @staticmethod
    def _claims(site: Site, start: int, end: int) -> bool:
        return site.start <= start and end <= site.end and (site.start, site.end) != (start, end)

    # --- building one ------------------------------------------------------------------------------------------

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
    ) -> None:
        if claim is not None:
            self._claimed_to = max(self._claimed_to, claim)
        key = (node.start_byte, node.end_byte, kind)
        if key in self._taken:
            return
        self._taken.add(key)
        gates = [cfg_predicate(n) for n in (*outer, node) if n.type in _ITEMS or n is node]
        self.sites.append(
            Site(
                path=self.source.path,
                kind=kind,
                start=node.start_byte,
                end=node.end_byte,
                line=self.source.line_of(node.start_byte),
                column=self.source.column_of(node.start_byte),
                item="::".join(part for n in outer if (part := _item_name(n))),
                name=name,
                snippet=text_of(node).split("\n", 1)[0].strip()[:120],
                enums=enums,
                gate=", ".join(gate for gate in gates if gate),
                exhaustive=exhaustive,
                metal_only=metal_only,
                within=within,
            )
        )


def _arms(match: Node) -> list[Node]:
    body = match.child_by_field_name("body")
    return [child for child in body.children if child.type == "match_arm"] if body is not None else []


def _is_catch_all(pattern: Node) -> bool:
    """True for `_`, a binding, or a tuple of such, without a guard."""
    if pattern.child_by_field_name("condition") is not None:
        return False
    inner = [child for child in pattern.children if not is_comment(child)]
    return len(inner) == 1 and _always_matches(inner[0])


def _always_matches(node: Node) -> bool:
    if node.type == "_":
        return True
    if node.type == "identifier":
        return not text_of(node)[:1].isupper()
    if node.type == "tuple_pattern":
        return all(_always_matches(child) for child in node.children if child.is_named or child.type == "_")
    return False


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


def _enclosing_if(outer: list[Node]) -> Node | None:
    return next((node for node in reversed(outer) if node.type in ("if_expression", "while_expression")), None)


def _condition_end(node: Node, chain: list[Node]) -> int:
    """A condition claims its consequence when that names CUDA too: the two belong together."""
    if node.type != "if_expression":
        return node.end_byte
    consequence = node.child_by_field_name("consequence")
    condition = node.child_by_field_name("condition")
    if consequence is not None and "cuda" in text_of(consequence).lower():
        return consequence.end_byte
    return condition.end_byte if condition is not None else chain[-1].end_byte


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

