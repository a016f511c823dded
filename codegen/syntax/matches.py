"""Match expressions over backend enums: which they are, what their patterns name, and which rustc holds complete."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tree_sitter import QueryCursor

from codegen.syntax.grammar import rust_query
from codegen.syntax.source import backend_tokens, is_comment, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from codegen.syntax.source import Source

_VARIANTS = {"cuda": "Cuda", "metal": "Metal", "rocm": "Rocm"}
_STRINGS = frozenset({"string_literal", "raw_string_literal"})
MOST_COMPARISONS = 1_000_000
"""Of patterns of one match; Candle's largest needs 200."""


class TooManyPatterns(Exception):
    """A match that would take too long to look into."""


def captures(query: str, name: str, root: Node) -> list[Node]:
    """Nodes that a query captures under `name`, in source order."""
    found = QueryCursor(rust_query(query)).captures(root).get(name, [])
    return sorted(found, key=lambda node: (node.start_byte, -node.end_byte))


def descendants(node: Node, *types: str) -> list[Node]:
    """The node and everything below it that has one of the types, in source order, outer before inner."""
    found: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in types:
            found.append(current)
        stack.extend(current.children)
    return sorted(found, key=lambda n: (n.start_byte, -n.end_byte))


def backend_matches(source: Source, chain_of: Callable[[int, int], list[Node]]) -> list[Node]:
    """Every `match` with an arm whose pattern names CUDA, macro bodies excepted (they are token trees).

    `chain_of` is `source.chain`, or the same with a limit.
    """
    found: dict[int, Node] = {}
    looked_at: set[int] = set()
    for token in backend_tokens(source.text):
        chain = chain_of(token.start(), token.end())  # faster than a query for every pattern of the file
        for depth, node in enumerate(chain):
            if node.type != "match_pattern" or node.id in looked_at:
                continue
            looked_at.add(node.id)
            if names_backend(node, "cuda"):
                match = chain[depth - 3]  # match, its block, the arm, the pattern
                if match.type == "match_expression":
                    found[match.start_byte] = match
    return list(found.values())


def arms_of(match: Node) -> list[Node]:
    """The arms of a match, in source order."""
    body = match.child_by_field_name("body")
    return [child for child in body.children if child.type == "match_arm"] if body is not None else []


def pattern_of(arm: Node) -> Node:
    """The arm's pattern with its guard."""
    pattern = arm.child_by_field_name("pattern")
    assert pattern is not None
    return pattern


def bare_pattern(pattern: Node) -> Node:
    """An arm's pattern without its guard (any other pattern as it is)."""
    if pattern.type != "match_pattern":
        return pattern
    return next((child for child in pattern.children if not is_comment(child)), pattern)


def without_parentheses(pattern: Node) -> Node:
    """What a pattern in parentheses holds (any other pattern as it is)."""
    while pattern.type == "tuple_pattern" and len(_inner(pattern)) == 1 and not _is_one_tuple(pattern):
        pattern = _inner(pattern)[0]
    return pattern


def is_guarded(pattern: Node) -> bool:
    """True for an arm's pattern that has a guard."""
    return pattern.child_by_field_name("condition") is not None


def alternatives(pattern: Node) -> list[Node]:
    """The members of an or-pattern, which the grammar nests to the left; any other pattern is its only member."""
    found: list[Node] = []
    waiting = [pattern]
    while waiting:
        node = waiting.pop()
        if node.type != "or_pattern":
            found.append(node)
            continue
        members = [child for child in node.children if child.is_named or child.type == "_"]
        waiting += [child for child in reversed(members) if not is_comment(child)]
    return found


def variant_paths(pattern: Node) -> list[Node]:
    """The paths in a pattern: `Self::Cuda`, `Device::Cpu`; only those with at least two segments."""
    found: list[Node] = []
    stack = [pattern]
    while stack:
        node = stack.pop()
        if node.type in ("scoped_identifier", "scoped_type_identifier"):
            found.append(node)
        else:
            stack.extend(node.children)
    found.sort(key=lambda node: node.start_byte)
    return found


def names_backend(pattern: Node, backend: str) -> bool:
    """True if the pattern (or its guard) names the backend's variant, or its name as a string (`"cuda"`)."""
    variant = _VARIANTS[backend]
    if any(_last(path) == variant for path in variant_paths(pattern)):
        return True
    return any(_content(node) == backend for node in _strings(pattern))


def named_enums(pattern: Node) -> tuple[str, ...]:
    """The enums whose GPU variant the pattern names, sorted; `Self` is resolved to the impl's type."""
    return tuple(
        sorted(
            {
                _enum_of(path)
                for path in variant_paths(pattern)
                if _last(path) in ("Cuda", "Metal") and path.child_by_field_name("path") is not None
            }
        )
    )


def is_exhaustive(match: Node, backend: str = "cuda") -> bool:
    """True if rustc rejects the match as soon as the enums of `backend`'s variant gain one more.

    That is so when one of the backend's patterns would, with the new variant in the backend's place, be taken by no
    arm: only a wildcard or a binding takes a variant that nobody names. Raises `TooManyPatterns`.
    """
    patterns = [pattern_of(arm) for arm in arms_of(match)]
    open_arms = {
        _Shape.of(case)
        for pattern in patterns
        if not is_guarded(pattern)
        for case in alternatives(without_parentheses(bare_pattern(pattern)))
    }
    if any(each.catches_all for each in open_arms):
        return False
    # An arm without a catch-all anywhere takes no variant that it does not name.
    partial = [each for each in open_arms if each.has_catch_all]
    variant = _VARIANTS[backend]
    cases = {
        _Shape.of(case)
        for pattern in patterns
        for case in alternatives(bare_pattern(pattern))
        if any(_last(path) == variant for path in variant_paths(case))
    }
    if len(cases) * len(partial) > MOST_COMPARISONS:
        raise TooManyPatterns(
            f"{len(cases)} patterns for {variant} beside {len(partial)} that leave something open: too many to compare"
        )
    return any(not any(_takes(arm, case, variant) for arm in partial) for case in cases)


def is_binding(node: Node) -> bool:
    """True for an identifier that a pattern binds, as opposed to a constant or a variant that it names."""
    return node.type == "identifier" and not text_of(node)[:1].isupper()


def unbound(pattern: Node, backend: str | None = None) -> str:
    """The pattern's text with `_` for every binding and without a guard.

    With a `backend`, an or-pattern keeps only the alternatives that name it, if some do.
    """
    node = bare_pattern(pattern)
    if is_binding(node) or node.type in ("ref_pattern", "mut_pattern"):
        return "_"
    inner = [unbound(child, backend) for child in _inner(node)]
    if node.type == "captured_pattern":
        return inner[-1]
    if node.type == "tuple_pattern":
        return f"({', '.join(inner)}{',' if _is_one_tuple(node) else ''})"
    if node.type == "tuple_struct_pattern":
        return f"{_head(node)}({', '.join(inner)})"
    if node.type == "struct_pattern":
        return f"{_head(node)} {{ .. }}"
    if node.type == "reference_pattern":
        return f"&{inner[-1]}"
    if node.type == "or_pattern":
        cases = alternatives(node)
        own = [case for case in cases if backend is not None and names_backend(case, backend)]
        return " | ".join(unbound(case, backend) for case in own or cases)
    return " ".join(text_of(node).split())


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a pattern takes, without what does not narrow it: references, names, parentheses."""

    kind: str
    text: str
    """With `_` for every binding."""
    last: str
    """The last segment of its path, or of the whole text where it has none."""
    inner: tuple[_Shape, ...]
    catches_all: bool
    """True for `_`, a binding, and tuples of nothing else."""
    has_catch_all: bool

    @classmethod
    def of(cls, pattern: Node) -> _Shape:
        node = _plain(pattern)
        members = alternatives(node) if node.type == "or_pattern" else _inner(node)
        inner = tuple(cls.of(each) for each in members) if node.type in _MADE_OF_PATTERNS else ()
        head = _head(node) if node.type in ("tuple_struct_pattern", "struct_pattern") else text_of(node)
        plain = node.type in ("_", "remaining_field_pattern", "ref_pattern", "mut_pattern") or is_binding(node)
        catches_all = plain or (node.type == "tuple_pattern" and all(each.catches_all for each in inner))
        has_catch_all = catches_all or any(each.has_catch_all for each in inner)
        return cls(node.type, unbound(node), head.split("::")[-1], inner, catches_all, has_catch_all)


_MADE_OF_PATTERNS = frozenset({"or_pattern", "tuple_pattern", "tuple_struct_pattern"})


def _takes(general: _Shape, case: _Shape, variant: str) -> bool:
    """True if the pattern takes every value of `case` with a variant unknown to it in place of `variant`."""
    if general.catches_all:
        return True
    if general.kind == "or_pattern":
        return any(_takes(each, case, variant) for each in general.inner)
    if case.kind == "or_pattern":
        return all(_takes(general, each, variant) for each in case.inner)
    if case.last == variant:
        return False
    if general.kind == case.kind and case.kind in ("tuple_pattern", "tuple_struct_pattern"):
        same_head = case.kind == "tuple_pattern" or general.last == case.last
        return same_head and _all_take(general.inner, case.inner, variant)
    return general.text == case.text


def _all_take(general: tuple[_Shape, ...], cases: tuple[_Shape, ...], variant: str) -> bool:
    rest = next((at for at, each in enumerate(general) if each.kind == "remaining_field_pattern"), None)
    if rest is not None:
        behind = len(general) - rest - 1
        general = general[:rest] + general[rest + 1 :]
        cases = cases[:rest] + (cases[len(cases) - behind :] if behind else ())
    return len(general) == len(cases) and all(_takes(*pair, variant) for pair in zip(general, cases, strict=True))


def _plain(pattern: Node) -> Node:
    """The pattern without what does not narrow it: references, `name @`, parentheses."""
    pattern = without_parentheses(pattern)
    while pattern.type in ("reference_pattern", "captured_pattern"):
        pattern = without_parentheses(_inner(pattern)[-1])
    return pattern


def _inner(node: Node) -> list[Node]:
    """The patterns that the pattern is made of."""
    path = node.child_by_field_name("type")
    children = (child for child in node.children if child.is_named or child.type == "_")
    return [
        child for child in children if child != path and not is_comment(child) and child.type != "mutable_specifier"
    ]


def _is_one_tuple(node: Node) -> bool:
    return len(_inner(node)) == 1 and any(child.type == "," for child in node.children)


def _head(node: Node) -> str:
    path = node.child_by_field_name("type")
    return text_of(path) if path is not None else ""


def _last(path: Node) -> str:
    name = path.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def _enum_of(path: Node) -> str:
    prefix = path.child_by_field_name("path")
    name = _type_name(text_of(prefix)) if prefix is not None else ""
    if name != "Self":
        return name
    node = path.parent
    while node is not None and node.type != "impl_item":
        node = node.parent
    target = node.child_by_field_name("type") if node is not None else None
    return _type_name(text_of(target)) if target is not None else "Self"


def _type_name(path: str) -> str:
    """`Storage` for `crate::Storage`, `Storage::<f32>` and `<Storage as Trait>`."""
    qualified = re.match(r"<\s*(.*?)\s+as\s", path)
    plain = re.sub(r"(::)?<.*>", "", qualified[1] if qualified else path)
    return plain.split("::")[-1].strip()


def _content(node: Node) -> str:
    content = next((child for child in node.children if child.type == "string_content"), None)
    return text_of(content) if content is not None else ""


def _strings(node: Node) -> list[Node]:
    return descendants(node, *_STRINGS)
