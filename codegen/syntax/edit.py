"""Text edits: the unit of what verbs produce, how generated text looks, and where it may stand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from codegen.syntax.rename import CUDA, protected_words, rename, words_in
from codegen.syntax.source import is_comment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tree_sitter import Node

    from codegen.syntax.rename import Spelling
    from codegen.syntax.site import Site
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
    rename: Callable[[str], str] | None = None
    """What names ROCm's side instead of CUDA's; None for the names that the two have inside Candle."""


class CannotMirror(Exception):
    """The site's shape does not allow the verb; the message says why."""


GATE = '#[cfg(feature = "rocm")]'
ALWAYS_THERE = frozenset({"is_rocm", "rocm_is_available", "rocm_if_available"})
"""What candle-core has in every build, with `--gating cfg` too: the answer without the feature is no, or the CPU."""
_OF_THE_FEATURE = re.compile(r"new_rocm\w*|Rocm\w*")
_NEVER = {"cuda": 'not(feature = "cuda")', "metal": 'not(feature = "metal")'}


def apply_edits(text: bytes, edits: Sequence[TextEdit], start: int = 0, end: int | None = None) -> str:
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


def with_newlines_of(source: Source, edits: list[TextEdit]) -> list[TextEdit]:
    """The edits with the file's own line ends."""
    first = source.text.find(b"\n")
    newline = "\r\n" if first > 0 and source.text[first - 1 : first] == b"\r" else "\n"
    return [TextEdit(edit.start, edit.end, re.sub(r"\r?\n", newline, edit.text)) for edit in edits]


def site_node(source: Source, site: Site, *types: str) -> Node:
    """The outermost node that spans the site; raises `CannotMirror` if there is none (of the types, when given)."""
    for node in _spanning(source, site):
        if not types or node.type in types:
            return node
    raise CannotMirror("the construct is not one that a verb can take")


def site_expression(source: Source, site: Site) -> Node:
    """The innermost node that spans the site: the expression of a statement without a semicolon."""
    return [site_node(source, site), *_spanning(source, site)][-1]


def _spanning(source: Source, site: Site) -> list[Node]:
    nodes = source.chain(site.start, site.end)
    return [node for node in nodes if (node.start_byte, node.end_byte) == (site.start, site.end)]


def mirrored(text: str, style: Style, old: Spelling = CUDA) -> str:
    """`text` renamed to ROCm and corrected; raises `CannotMirror` if it uses what only CUDA has."""
    refuse_protected(text, style)
    return corrected(style.rename(text) if style.rename and old is CUDA else rename(text, old), style)


def refuse_protected(text: str, style: Style) -> None:
    """Raises `CannotMirror` naming the identifiers of CUDA's own API in `text`."""
    found = protected_words(text, style.protected)
    if found:
        raise CannotMirror(f"it uses CUDA's own API ({', '.join(found)}), which has no ROCm namesake")


def refuse_errors(node: Node) -> None:
    """Raises `CannotMirror` for text that the grammar could not parse: nobody knows what a copy of it says."""
    if node.has_error:
        raise CannotMirror("the Rust grammar cannot parse a part of it")


def corrected(text: str, style: Style) -> str:
    """`text` with the style's literal corrections."""
    for old, new in style.replace.items():
        text = text.replace(old, new)
    return text


def gated(text: str, indent: str) -> str:
    """The item behind the feature: the attribute goes below the documentation and above other attributes."""
    lines = text.split("\n")
    head = takewhile(lambda line: line.strip().startswith(("///", "#[")), lines)
    if any(line.strip().startswith(GATE) for line in head):
        return text
    at = 0
    while at < len(lines) and lines[at].strip().startswith("///"):
        at += 1
    if at == 0:
        return f"{GATE}\n{indent}{text}"
    return "\n".join([*lines[:at], indent + GATE, *lines[at:]])


def stands_in_for_the_feature(predicate: str, backend: str) -> bool:
    """True for `cfg(not(feature = "cuda"))`: its ROCm twin is never compiled when every branch is gated."""
    return _NEVER[backend] in predicate.split(", ")


def needs_the_feature(text: str) -> bool:
    """True for text that makes or names a ROCm device: with `--gating cfg` that is an error without the feature."""
    return any(_OF_THE_FEATURE.fullmatch(word) for word in words_in(text))


def indent_at(source: Source, offset: int) -> str:
    """The white space that the line of `offset` begins with."""
    line = source.line_text(offset)
    return line[: len(line) - len(line.lstrip())]


def indented(text: str, indent: str) -> str:
    """`text` with every line but the first moved right."""
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])


def past_comment(source: Source, node: Node | None, offset: int) -> int:
    """The end of the comment that follows `offset` on its line, or `offset`; `node` is what comes next there."""
    if node is None or not is_comment(node) or node.end_byte <= offset or node.text is None:
        return offset
    if re.fullmatch(rb"[ \t]*", source.text[offset : node.start_byte]) is None or b"\n" in node.text:
        return offset
    return node.end_byte - (1 if node.text.endswith(b"\r") else 0)
