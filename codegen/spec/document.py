"""A YAML file as a tree in which every key and value knows its line and column.

The subset of YAML that specs use: one document of mappings, lists and scalars. Anchors, aliases, tags and keys that
are not text are refused with their position; scalars follow the core schema of YAML 1.2 (section 10.3 of
https://yaml.org/spec/1.2.2/), so `on`, `no` and dates are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from codegen.errors import Location, Problem, ToolchainMissing
from codegen.spec.wording import described, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 32
"""Mappings and lists inside one another; a phase spec needs 6."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A position in the file; both numbers count from 1, `column` in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A text, number, boolean or null."""

    value: str | int | float | bool | None
    mark: Mark


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list, in block or flow style."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping; `mark` is the key's position."""

    key: str
    mark: Mark
    value: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping, its keys unique and in the file's order.

    The getters forgive wrong types; `validation` reports those.
    """

    entries: tuple[Entry, ...]
    mark: Mark

    def entry(self, key: str) -> Entry | None:
        """The entry with this key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def get(self, key: str) -> Node | None:
        """The value of this key."""
        entry = self.entry(key)
        return entry.value if entry else None

    def text(self, key: str) -> str | None:
        """The value of this key if it is text."""
        node = self.get(key)
        return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else None

    def integer(self, key: str) -> int | None:
        """The value of this key if it is a whole number."""
        node = self.get(key)
        return node.value if isinstance(node, ScalarNode) and type(node.value) is int else None

    def scalars(self, key: str) -> tuple[ScalarNode, ...]:
        """The value of this key where both a scalar and a list of scalars are allowed."""
        node = self.get(key)
        nodes = node.items if isinstance(node, ListNode) else (node,)
        return tuple(node for node in nodes if isinstance(node, ScalarNode))

    def mappings(self, key: str) -> tuple[MappingNode, ...]:
        """The mappings in the list under this key."""
        node = self.get(key)
        return tuple(n for n in node.items if isinstance(n, MappingNode)) if isinstance(node, ListNode) else ()


Node: TypeAlias = ScalarNode | ListNode | MappingNode


def plain(node: Node) -> object:
    """The node's values without their positions: dicts, lists and scalars."""
    match node:
        case MappingNode(entries):
            return {entry.key: plain(entry.value) for entry in entries}
        case ListNode(items):
            return [plain(item) for item in items]
        case ScalarNode(value):
            return value


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed spec file; `root` is None when the file is not YAML (`problems` then says where and why)."""

    file: str
    """Relative to the repository, with forward slashes."""
    text: str
    root: Node | None
    problems: tuple[Problem, ...] = ()

    def problem(self, message: str, mark: Mark) -> Problem:
        """A finding at a position of this file."""
        return Problem(message, Location.in_text(self.file, self.text, mark.line, mark.column))

    @property
    def mapping(self) -> MappingNode:
        """The root, or an empty mapping when the file holds something else."""
        return self.root if isinstance(self.root, MappingNode) else MappingNode((), Mark(1, 1))


def read_document(file: str, content: bytes) -> Document:
    """Parses any bytes; what is wrong with them is in the document's `problems`, never an exception.

    Raises ToolchainMissing where PyYAML lacks libyaml.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = content.decode("utf-8", errors="replace")
        before = error.object[: error.start].decode("utf-8-sig", errors="replace")
        document = Document(file, text, None)
        message = f"not UTF-8 text: byte 0x{error.object[error.start]:02x}"
        return _broken(document, message, _mark_after(before))
    document = Document(file, text, None)
    if stray := _STRAY.search(text):
        message = f"the character U+{ord(stray[0]):04X} has no place in a spec"
        return _broken(document, message, _mark_after(text[: stray.start()]))
    composer = _Composer(document)
    try:
        root = composer.compose()
    except _NotYaml as error:
        return _broken(document, f"not valid YAML: {error.message}", error.mark)
    if root is None and not composer.problems:
        return _broken(document, "the file is empty", Mark(1, 1))
    return Document(file, text, root, tuple(composer.problems))


# All but the printable characters of YAML 1.2 (section 5.1). Also refused: the marks U+0085, U+2028, U+2029, which
# only some programs take for line breaks, and U+FEFF, which is invisible; both would make columns and lines ambiguous.
_STRAY = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    word: value for name, value in (("true", True), ("false", False)) for word in (name, name.title(), name.upper())
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,20}|0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _plain_value(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means in the core schema."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(re.sub(r"\.(?=[a-zA-Z])", "", text))
    return text


def _mark_after(text: str) -> Mark:
    """The position of the character that follows `text`."""
    lines = (text + "|").splitlines()
    return Mark(len(lines), len(lines[-1]))


def _broken(document: Document, message: str, mark: Mark) -> Document:
    return Document(document.file, document.text, None, (document.problem(message, mark),))


class _NotYaml(Exception):
    """The text cannot be read on from here."""

    def __init__(self, message: str, mark: Mark) -> None:
        self.message = message
        self.mark = mark
        super().__init__(message)


class _Composer:
    """Builds the node tree from PyYAML's parse events and collects what specs do not allow."""

    def __init__(self, document: Document) -> None:
        import yaml

        self.problems: list[Problem] = []
        self._document = document
        self._kinds, self._error = yaml.events, yaml.MarkedYAMLError
        if not yaml.__with_libyaml__:  # its own parser takes five times as long and has other marks and messages
            remedy = "`pip install --force-reinstall --only-binary pyyaml pyyaml` gets a build that has it"
            raise ToolchainMissing("PyYAML was built without libyaml, which reads the specs", remedy=remedy)
        self._events: Iterator[Any] = yaml.parse(document.text, Loader=yaml.CSafeLoader)

    def compose(self) -> Node | None:
        """The tree of the first document; None if there is no document."""
        self._next()  # start of the stream
        if not isinstance(self._next(), self._kinds.DocumentStartEvent):
            return None
        root = self._node(self._next(), depth=1)
        self._next()  # end of the document
        following = self._next()
        if isinstance(following, self._kinds.DocumentStartEvent):
            self._refuse("a second document; a spec file holds one", _start(following))
        return root

    def _next(self) -> Any:
        try:
            return next(self._events)
        except self._error as error:
            reason = ", ".join(part for part in (error.context, error.problem) if part)
            lines = self._document.text.splitlines()
            at = error.problem_mark
            assert at is not None, "PyYAML says where"
            if at.line >= len(lines):  # a text that ends too early, maybe without a newline
                raise _NotYaml(reason, _mark_after(self._document.text)) from error
            advice = "; indent with spaces, not tabs" if re.match(r"\s*\t", lines[at.line]) else ""
            raise _NotYaml(reason + advice, Mark(at.line + 1, at.column + 1)) from error

    def _refuse(self, message: str, mark: Mark) -> None:
        self.problems.append(self._document.problem(message, mark))

    def _node(self, event: Any, depth: int) -> Node:
        """The node that begins with `event`."""
        mark = _start(event)
        if depth > MAX_DEPTH:
            raise _NotYaml(f"more than {MAX_DEPTH} mappings and lists inside one another", mark)
        if event.anchor is not None:
            alias = isinstance(event, self._kinds.AliasEvent)
            name = f"*{event.anchor}" if alias else f"&{event.anchor}"
            self._refuse(f"anchors and aliases have no place in a spec ({quoted(name)}); write the value out", mark)
            if alias:
                return ScalarNode(name, mark)
        if event.tag is not None:
            self._refuse(f"tags have no place in a spec ({quoted(str(event.tag))})", mark)
        if isinstance(event, self._kinds.MappingStartEvent):
            return MappingNode(tuple(self._entries(depth)), mark)
        if isinstance(event, self._kinds.SequenceStartEvent):
            return ListNode(tuple(self._items(depth)), mark)
        return self._scalar(event, mark)

    def _scalar(self, event: Any, mark: Mark) -> ScalarNode:
        if stray := _STRAY.search(event.value):  # spelled by an escape, such as "\0"
            self._refuse(f"the character U+{ord(stray[0]):04X} has no place in a spec, nor has an escape for it", mark)
            return ScalarNode(_STRAY.sub("?", event.value), mark)
        plain = not event.style and event.tag is None
        return ScalarNode(_plain_value(event.value) if plain else event.value, mark)

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := self._next(), self._kinds.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> Iterator[Entry]:
        seen: dict[str, Mark] = {}
        while not isinstance(event := self._next(), self._kinds.MappingEndEvent):
            mark = _start(event)
            key = self._key(event, self._node(event, depth + 1))
            value_event = self._next()
            value = self._node(value_event, depth + 1)
            if isinstance(value, ScalarNode) and value_event.start_mark.index == value_event.end_mark.index:
                value = ScalarNode(value.value, mark)  # nothing after the colon: libyaml points at the next token
            if key in seen:
                self._refuse(f"the key {quoted(key)} is already on line {seen[key].line}", mark)
            elif key is not None:
                seen[key] = mark
                yield Entry(key, mark, value)

    def _key(self, event: Any, node: Node) -> str | None:
        """The key as text; None when it is a mapping or a list."""
        if not isinstance(node, ScalarNode):
            self._refuse(f"a key is text, not a {'list' if isinstance(node, ListNode) else 'mapping'}", node.mark)
            return None
        if isinstance(node.value, str):
            return node.value
        self._refuse(f"a key is text, not {described(node.value)}; quote it", node.mark)
        return str(event.value)


def _start(event: Any) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)
