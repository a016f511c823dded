"""Match expressions over backend enums: which they are, and which enums and backends their patterns name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import QueryCursor

from codegen.syntax.grammar import rust_query
from codegen.syntax.source import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

    from codegen.syntax.source import Source

_VARIANTS = {"cuda": "Cuda", "metal": "Metal", "rocm": "Rocm"}


def captures(query: str, name: str, root: Node) -> list[Node]:
    """Nodes that a query captures under `name`, in source order."""
    found = QueryCursor(rust_query(query)).captures(root).get(name, [])
    return sorted(found, key=lambda node: (node.start_byte, -node.end_byte))


def backend_matches(source: Source) -> list[Node]:
    """Every `match` with an arm whose pattern names CUDA, macro bodies excepted (they are token trees)."""
    found: dict[int, Node] = {}
    for pattern in captures("(match_pattern) @pattern", "pattern", source.root):
        text = pattern.text or b""
        if b"Cuda" not in text and b"cuda" not in text:
            continue
        arm = pattern.parent
        block = arm.parent if arm is not None else None
        match = block.parent if block is not None else None
        if match is not None and match.type == "match_expression" and names_backend(pattern, "cuda"):
            found[match.start_byte] = match
    return list(found.values())


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
    """True if the pattern names the backend's variant, or its name as a string (`"cuda"`)."""
    variant = _VARIANTS[backend]
    if any(_last(path) == variant for path in variant_paths(pattern)):
        return True
    return any(text_of(node) == f'"{backend}"' for node in _strings(pattern))


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


def _last(path: Node) -> str:
    name = path.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def _enum_of(path: Node) -> str:
    prefix = path.child_by_field_name("path")
    name = text_of(prefix).split("::")[-1] if prefix is not None else ""
    if name != "Self":
        return name
    node = path.parent
    while node is not None and node.type != "impl_item":
        node = node.parent
    target = node.child_by_field_name("type") if node is not None else None
    return text_of(target).split("<")[0] if target is not None else "Self"


def _strings(node: Node) -> list[Node]:
    if node.type == "string_literal":
        return [node]
    return [found for child in node.children for found in _strings(child)]
