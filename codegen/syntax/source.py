"""A parsed Rust file: bytes, tree, and the questions that the scan asks of both."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, Location, Problem
from codegen.syntax.grammar import MOST_SECONDS, TooSlow, parse_rust, rust_parser
from codegen.syntax.spelling import respelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tree_sitter import Node, Tree

    from codegen.syntax.spelling import Respelling

_NONE: Mapping[str, str] = MappingProxyType({})
_BACKENDS = (b"cuda", b"metal")
_BACKEND = re.compile(b"|".join(_BACKENDS))
_COMMENTS = frozenset({"line_comment", "block_comment", "doc_comment"})
_ATTRIBUTE = "attribute_item"
_HOLDERS = frozenset({"match_arm", "field_initializer", "shorthand_field_initializer"})
"""Nodes that hold their attributes as children."""


_LONG_LINE = 4096
"""Bytes; of a longer line a part is enough to be quoted."""
_BLOCK = 4096
_CONTINUED = bytes(range(0x80, 0xC0))
"""What is no first byte of a character in UTF-8."""


@lru_cache(maxsize=4)
def _line_starts(text: bytes) -> list[int]:
    """Where each line begins. A file with many sites asks for many lines."""
    starts, at = [0], text.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find(b"\n", at + 1)
    return starts


@lru_cache(maxsize=4)
def _blocks(text: bytes) -> list[int]:
    """The number of characters in front of each block of bytes."""
    counts = (len(text[at : at + _BLOCK].translate(None, _CONTINUED)) for at in range(0, len(text), _BLOCK))
    return [0, *accumulate(counts)]


def _characters(text: bytes, offset: int) -> int:
    """The number of characters that begin in front of byte `offset`."""
    whole = offset // _BLOCK
    return _blocks(text)[whole] + len(text[whole * _BLOCK : offset].translate(None, _CONTINUED))


@dataclass(frozen=True, slots=True)
class Text:
    """One file of any language. Offsets are bytes; lines count from 1, columns count characters from 1."""

    path: str
    text: bytes

    def slice(self, start: int, end: int) -> str:
        """The text between two byte offsets."""
        return self.text[start:end].decode()

    def line_of(self, offset: int) -> int:
        """The line that holds byte `offset`."""
        return bisect_right(_line_starts(self.text), offset)

    def column_of(self, offset: int) -> int:
        """The column of byte `offset` in its line."""
        starts = _line_starts(self.text)
        line_start = starts[bisect_right(starts, offset) - 1]
        return _characters(self.text, offset) - _characters(self.text, line_start) + 1

    def line_text(self, offset: int) -> str:
        """The line that holds byte `offset`, without its newline; the beginning of a very long one."""
        start, end = self._line(offset)
        return self.text[start : min(end, start + _LONG_LINE)].decode(errors="replace")

    def location(self, offset: int) -> Location:
        """The place of byte `offset`, with what there is to quote of its line."""
        start, end = self._line(offset)
        begin, end = max(start, offset - _LONG_LINE), min(end, offset + _LONG_LINE)
        while begin > start and self.text[begin] in _CONTINUED:
            begin -= 1
        cut = _characters(self.text, begin) - _characters(self.text, start)
        quoted = self.text[begin:end].decode(errors="replace")
        return Location(self.path, self.line_of(offset), self.column_of(offset), quoted, cut)

    def _line(self, offset: int) -> tuple[int, int]:
        starts = _line_starts(self.text)
        number = bisect_right(starts, offset)
        return starts[number - 1], starts[number] - 1 if number < len(starts) else len(self.text)


@dataclass(frozen=True, slots=True)
class Source(Text):
    """One Rust file."""

    tree: Tree
    root: Node
    respelling: Respelling | None = None
    """Where `text` is not that of the file: it names variants as we do. Lines are the same; columns, and what is
    quoted, are the file's."""

    @classmethod
    def parse(
        cls, path: str, text: bytes, *, seconds: float = MOST_SECONDS, spellings: Mapping[str, str] = _NONE
    ) -> Source:
        """Parse; files with syntax that the grammar does not know still give a tree (with ERROR nodes).

        `spellings` has identifiers that are read as others.

        Raises:
            InputOutputError: the text is not UTF-8, which Rust demands, or takes more than so many seconds.
        """
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            raise InputOutputError(
                Problem("the file is not UTF-8 text", Location(path, line)), remedy="restore the file"
            ) from error
        text, respelling = respelled(text, spellings)
        try:
            tree = parse_rust(text, seconds=seconds)
        except TooSlow as error:
            raise InputOutputError(
                f"{path}: the file takes too long to parse", remedy="remove files that do not belong to Candle"
            ) from error
        return cls(path, text, tree, tree.root_node, respelling)

    @property
    def pristine(self) -> Text:
        """The file as it is."""
        return self if self.respelling is None else Text(self.path, self.respelling.pristine)

    def original(self, offset: int) -> int:
        """A byte offset of `text` as one of the file as it is."""
        return offset if self.respelling is None else self.respelling.original(offset)

    def column_of(self, offset: int) -> int:
        """The column, in the file as it is, of byte `offset` of `text`."""
        return Text.column_of(self.pristine, self.original(offset))

    def line_text(self, offset: int) -> str:
        """As `Text.line_text`, of the file as it is."""
        return Text.line_text(self.pristine, self.original(offset))

    def location(self, offset: int) -> Location:
        """As `Text.location`, in the file as it is."""
        return Text.location(self.pristine, self.original(offset))

    def type_around(self, offset: int) -> str:
        """The type whose impl, or the enum whose declaration, lies around a byte offset; empty where none does."""
        for node in reversed(self.chain(offset, offset)):
            if node.type in ("impl_item", "enum_item"):
                named = node.child_by_field_name("type") or node.child_by_field_name("name")
                return text_of(named).split("<")[0] if named is not None else ""
        return ""

    def reparsed(self, text: bytes, changes: Iterable[tuple[int, int, int]]) -> Source:
        """What the file becomes, `text`, when bytes `start..end` of each change, in order, become `length` others.

        Only what the changes touch is parsed, so that this takes a tenth of the time of `parse`.
        """
        tree, growth = self.tree.copy(), 0
        for start, end, length in changes:
            at = start + growth
            first = _point(text, at)
            tree.edit(
                at, at + end - start, at + length, first, _past(first, self.text[start:end]), _point(text, at + length)
            )
            growth += length - (end - start)
        assert len(text) == len(self.text) + growth, "the changes make the text"
        new = rust_parser().parse(text, tree)
        return Source(self.path, text, new, new.root_node)

    def chain(self, start: int, end: int) -> list[Node]:
        """Nodes from the root down to the smallest one that covers `start..end`."""
        leaf = self.root.descendant_for_byte_range(start, end)
        nodes = [self.root]
        while leaf is not None and nodes[-1] != leaf:
            child = nodes[-1].child_with_descendant(leaf)
            if child is None or child == nodes[-1]:
                break
            nodes.append(child)
        return nodes

    def node_at(self, start: int, end: int, kind: str) -> Node:
        """The node of type `kind` that spans exactly `start..end`."""
        for node in self.chain(start, end):
            if node.start_byte == start and node.end_byte == end and node.type == kind:
                return node
        raise LookupError(f"{self.path}: no {kind} at bytes {start}..{end}")

    def mentions(self, name: str, start: int, end: int) -> list[int]:
        """Where the range has `name`, in any case, outside comments."""
        found = []
        for match in re.compile(re.escape(name.encode()), re.IGNORECASE).finditer(self.text, start, end):
            leaf = self.root.descendant_for_byte_range(match.start(), match.end())
            if leaf is None or not (is_comment(leaf) or (leaf.parent is not None and is_comment(leaf.parent))):
                found.append(match.start())
        return found

    def error_ranges(self) -> tuple[tuple[int, int], ...]:
        """Byte ranges of ERROR and MISSING nodes, outermost ones only."""
        return tuple((node.start_byte, node.end_byte) for node in _errors(self.root))


def _point(text: bytes, offset: int) -> tuple[int, int]:
    """tree-sitter's form of a position: row and byte in the row, from 0."""
    return _past((0, 0), text[:offset])


def _past(point: tuple[int, int], text: bytes) -> tuple[int, int]:
    """The position behind a text that begins at `point`."""
    row, column = point
    rows = text.count(b"\n")
    return (row + rows, len(text) - text.rfind(b"\n") - 1) if rows else (row, column + len(text))


def _errors(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            yield node
        elif node.has_error:
            waiting += reversed(node.children)


def names_backend_at_all(text: bytes) -> bool:
    """Whether a file is worth parsing: most name neither CUDA nor Metal, in any case."""
    lower = text.lower()
    return any(name in lower for name in _BACKENDS)  # ten times faster than a regular expression over all of Candle


def backend_tokens(text: bytes) -> Iterator[re.Match[bytes]]:
    """Where a file names CUDA or Metal, in any case; what is matched is in lower case."""
    return _BACKEND.finditer(text.lower())


def text_of(node: Node) -> str:
    """The node's own text."""
    text = node.text
    return text.decode() if text is not None else ""


def is_comment(node: Node) -> bool:
    """True for comments of every form, documentation included."""
    return node.type in _COMMENTS


def is_doc_comment(node: Node) -> bool:
    """True for `///` and `/** */` comments, which belong to the item below them."""
    return is_comment(node) and any(child.type == "outer_doc_comment_marker" for child in node.children)


def attributes_of(node: Node) -> list[Node]:
    """The attributes and documentation comments in front of an item, in source order.

    tree-sitter makes them siblings of the item (of a match arm and of a field in a struct expression: children).
    Plain comments do not belong to the item; between two attributes they do not part them either.
    """
    if node.type in _HOLDERS:
        return [child for child in node.children if child.type == _ATTRIBUTE]
    found: list[Node] = []
    sibling = node.prev_sibling
    while sibling is not None and (sibling.type == _ATTRIBUTE or is_comment(sibling)):
        if sibling.type == _ATTRIBUTE or is_doc_comment(sibling):
            found.append(sibling)
        sibling = sibling.prev_sibling
    found.reverse()
    return found


def owner_of(attribute: Node) -> Node | None:
    """The item that an attribute stands in front of."""
    if attribute.parent is not None and attribute.parent.type in _HOLDERS:
        return attribute.parent
    sibling = attribute.next_sibling
    while sibling is not None and (sibling.type == _ATTRIBUTE or is_comment(sibling)):
        sibling = sibling.next_sibling
    return sibling


_CFG = re.compile(r"#!?\[cfg\((.*)\)\]$", re.DOTALL)


def cfg_predicate(node: Node) -> str:
    """The item's own `cfg` predicates joined by `, `, or an empty string."""
    return predicates_in(attribute for attribute in attributes_of(node) if attribute.type == _ATTRIBUTE)


_PATH = re.compile(r'#\[path\s*=\s*"([^"]*)"\s*\]$')


def path_attribute(node: Node) -> str | None:
    """The file that `#[path = ".."]` names for a module."""
    found = (_PATH.match(text_of(attribute)) for attribute in attributes_of(node))
    return next((match[1] for match in found if match), None)


def predicates_in(attributes: Iterable[Node]) -> str:
    """The `cfg` predicates among some attributes, joined by `, `."""
    found = (_CFG.match(text_of(attribute)) for attribute in attributes)
    return ", ".join(" ".join(match[1].split()) for match in found if match)


def next_item(node: Node) -> Node | None:
    """The next sibling that is neither comment nor attribute nor punctuation."""
    sibling = node.next_named_sibling
    while sibling is not None and (sibling.type == _ATTRIBUTE or is_comment(sibling)):
        sibling = sibling.next_named_sibling
    return sibling


def unit_start(node: Node) -> int:
    """Where the item begins, its attributes and documentation included."""
    attributes = attributes_of(node)
    return min(node.start_byte, attributes[0].start_byte) if attributes else node.start_byte
