"""A backend site, and the list of them that a pass over a file makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, Problem
from codegen.syntax.constructs import item_name
from codegen.syntax.matches import (
    TooManyPatterns,
    arms_of,
    backend_matches,
    captures,
    is_exhaustive,
    named_enums,
    names_backend,
    pattern_of,
)
from codegen.syntax.source import cfg_predicate, predicates_in, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from codegen.syntax.source import Source


_SNIPPET = 120
_TOKEN_STEPS = 100
_SIBLING_STEPS = 8
"""To find a node's sibling, tree-sitter goes down to it from the root: so many nodes in the time of a step."""
MOST_STEPS = 4_000_000
"""Nodes between the root of a file and its tokens that name a backend, over all tokens, and so many for each token as a
site takes in time. It is some seconds; Candle's largest file needs a fortieth."""


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


class SiteList:
    """The sites of one file so far, and which tokens they answer for."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.sites: list[Site] = []
        self.claims: list[tuple[int, int]] = []
        """Byte ranges that sites claim, from the token that led to the site on; they never overlap."""
        self.claimed_to = 0
        self.token = 0
        """Where the token lies that is looked at."""
        self._steps = 0
        self.matches = {node.start_byte: node for node in backend_matches(source, self.chain)}
        self._inner_gates = _inner_gates(source)
        self._taken: set[tuple[int, int, str]] = set()
        self._matched: set[int] = set()
        self._named: dict[tuple[int, str], bool] = {}
        self._gates: dict[int, str] = {}
        self._said: dict[tuple[int, str], bool] = {}
        self._answers: dict[tuple[int, Callable[[Node], bool]], bool] = {}

    def claim(self, end: int) -> None:
        """Answer for every token from the one that is looked at up to `end`."""
        if end > self.claimed_to:
            self.claims.append((self.token, end))
            self.claimed_to = end

    def chain(self, start: int, end: int) -> list[Node]:
        """`Source.chain`. Raises `InputOutputError` for a file that would take too long: see `MOST_STEPS`."""
        nodes = self.source.chain(start, end)
        self._step(_TOKEN_STEPS + len(nodes), start)
        return nodes

    def _step(self, count: int, at: int) -> None:
        self._steps += count
        if self._steps > MOST_STEPS:
            raise InputOutputError(
                Problem("the file names backends too often, or too deeply nested", self.source.location(at)),
                remedy="split the file, or remove it from the tree",
            )

    def names(self, pattern: Node, backend: str) -> bool:
        """`names_backend`, asked once of each pattern."""
        key = (pattern.id, backend)
        if key not in self._named:
            self._named[key] = names_backend(pattern, backend)
        return self._named[key]

    def says(self, node: Node, word: str) -> bool:
        """Whether the node's text has the word, in any case; asked once of each node."""
        key = (node.id, word)
        if key not in self._said:
            self._said[key] = word in text_of(node).lower()
        return self._said[key]

    def once(self, node: Node, question: Callable[[Node], bool]) -> bool:
        """The answer to a question, asked once of each node."""
        key = (node.id, question)
        if key not in self._answers:
            self._answers[key] = question(node)
        return self._answers[key]

    def gate(self, node: Node, depth: int = 0) -> str:
        """The `cfg` predicates on the node and inside its braces; `depth` is how many nodes are around it."""
        if node.id not in self._gates:
            self._step(depth // _SIBLING_STEPS, node.start_byte)
            self._gates[node.id] = self._gate(node)
        return self._gates[node.id]

    def _gate(self, node: Node) -> str:
        own, inner = cfg_predicate(node), self._inner_gates.get(node.id, "")
        return ", ".join(gate for gate in (own, inner) if gate)

    def add(
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
        claim_to: int | None = None,
        end: int | None = None,
    ) -> None:
        """Add the site that `node` is, once; `outer` are the nodes around it, outermost first.

        `claim_to` is where the text ends that the site answers for, `end` where the site ends, if not where the node
        does.
        """
        if claim_to is not None:
            self.claim(claim_to)
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
                item="::".join(part for n in outer if (part := item_name(n))),
                name=name,
                snippet=_first_line(self.source, node),
                enums=enums,
                gate=", ".join(gate for depth, n in enumerate((*outer, node)) if (gate := self.gate(n, depth))),
                exhaustive=exhaustive,
                metal_only=metal_only,
                within=within,
            )
        )

    def add_match(self, match: Node, outer: list[Node], within: int | None = None) -> None:
        """Add a `match` over backends, or over their names, once."""
        if match.id in self._matched:
            return
        self._matched.add(match.id)
        patterns = [pattern_of(arm) for arm in arms_of(match)]
        cuda = [pattern for pattern in patterns if names_backend(pattern, "cuda")]
        enums = sorted({enum for pattern in cuda or patterns for enum in named_enums(pattern)})
        kind = "match" if enums else "match-str"
        try:
            exhaustive = kind == "match" and is_exhaustive(match, "cuda" if cuda else "metal")
        except TooManyPatterns as cause:
            raise InputOutputError(
                Problem(str(cause), self.source.location(match.start_byte)), remedy="match in two steps"
            ) from cause
        self.add(
            kind,
            match,
            outer,
            enums=tuple(enums),
            exhaustive=exhaustive,
            metal_only=not cuda,
            within=within,
        )


def _first_line(source: Source, node: Node) -> str:
    """A window on the construct's first line; the construct itself may be a whole file."""
    end = min(node.end_byte, node.start_byte + 4 * _SNIPPET)
    return source.text[node.start_byte : end].decode(errors="ignore").split("\n", 1)[0].strip()[:_SNIPPET]


def _inner_gates(source: Source) -> dict[int, str]:
    """`#![cfg(...)]` predicates by the id of the file, module body or block that they gate."""
    if b"#![cfg(" not in source.text:
        return {}
    found: dict[int, list[Node]] = {}
    for attribute in captures("(inner_attribute_item) @attribute", "attribute", source.root):
        if attribute.parent is not None:
            found.setdefault(attribute.parent.id, []).append(attribute)
    return {node: predicates_in(attributes) for node, attributes in found.items()}
