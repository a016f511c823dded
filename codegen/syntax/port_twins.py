"""ROCm's twin of an item, or of a whole file, that is there for CUDA alone: a copy with ROCm's names.

What the copy could not say keeps it from nothing else: a function whose body uses what has no counterpart gets a body
that says so when it is called; an import is left out; any other item is left out whole. Each is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen.syntax.arms import demanding_matches, foreign_arms
from codegen.syntax.constructs import FUNCTIONS, macro_name, name_of
from codegen.syntax.edit import CannotMirror, Style, TextEdit, apply_edits, indent_at, with_newlines_of
from codegen.syntax.imports import imports_of
from codegen.syntax.matches import arms_of, descendants, named_enums, pattern_of
from codegen.syntax.port_names import CALLS, Names, ported, ported_imports
from codegen.syntax.rename import rename
from codegen.syntax.source import Source, attributes_of, is_comment, text_of, unit_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tree_sitter import Node

GATE = 'feature = "rocm"'
ALONE = 'all(feature = "rocm", not(feature = "cuda"))'
"""The feature of ROCm where CUDA's is off: for crates in which both would have items of one name."""
_UNUSED = "#![allow(dead_code, unused_imports)]"
"""For a file with functions that have no body: nothing says what they would have used."""
_ROCM = re.compile("rocm|Rocm|ROCM|ROCm")
_ASIDE = {"rocm": "zq1m", "Rocm": "Zq1m", "ROCM": "ZQ1M", "ROCm": "ZQ1m"}
_CUDA = {"zq1m": "cuda", "Zq1m": "Cuda", "ZQ1M": "CUDA", "ZQ1m": "CUDA"}
_BACK = re.compile("zq1m|Zq1m|ZQ1M|ZQ1m")
_NO_VALUE = "core::convert::Infallible"
"""In place of a type that has no counterpart: one without values, so nothing that needs one can be reached."""
_OF_FIELDS = frozenset({"struct_item", "enum_item", "union_item"})
_PTX = re.compile(r'([\w-]+)\.ptx"')
_IDENTIFIERS = ("identifier", "type_identifier", "field_identifier", "shorthand_field_identifier")
_UNITS = frozenset(
    {
        "struct_item",
        "enum_item",
        "impl_item",
        "trait_item",
        "type_item",
        "static_item",
        "const_item",
        "function_signature_item",
        "macro_definition",
        "union_item",
        "extern_crate_declaration",
    }
)


@dataclass(frozen=True, slots=True)
class Left:
    """What a twin does not have, or cannot do."""

    start: int
    name: str
    reason: str
    stub: bool
    """Whether there is a function that says so when it is called."""


@dataclass(frozen=True, slots=True)
class Twin:
    """The text of a twin."""

    text: str
    left: tuple[Left, ...]
    taught: tuple[TextEdit, ...] = ()
    """Edits of the original: arms for ROCm where rustc demands one for every variant."""


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Twins:
    """Makes the twins of one file."""

    source: Source
    names: Names
    alone: bool
    imported: bool
    """Whether the file imports Candle's `cudarc`."""
    lacking: dict[str, str]
    """Names that the file imports and that have no counterpart."""
    kernels: Mapping[str, str]
    """What nvcc compiles: by the name of the file, without its ending, the path of its HIP source in the crate."""
    swapped: bool = False
    """Whether ROCm's names that the text has are to become CUDA's."""

    @classmethod
    def of(cls, source: Source, names: Names, kernels: Mapping[str, str], *, alone: bool) -> Twins:
        """Reads the imports of the file."""
        imported, lacking = False, {}
        for declaration in descendants(source.root, "use_declaration"):
            for each in imports_of(declaration):
                imported = imported or (each.name == "cudarc" and each.path != "cudarc")
                if (reason := names.why_not_imported(each)) is not None:
                    lacking[each.name] = reason
        return cls(source, names, alone, imported, lacking, kernels)

    def renamed(self, text: str) -> str:
        """Text of the file with ROCm's names."""
        text = _ROCM.sub(lambda found: _ASIDE[found[0]], text) if self.swapped else text
        made = ported(text, self.names, imported=self.imported)
        made = _BACK.sub(lambda found: _CUDA[found[0]], made) if self.swapped else made
        return made.replace(GATE, ALONE) if self.alone else made

    def why_not(self, word: str) -> str | None:
        """Why a word of the file's code has no counterpart."""
        return self.lacking.get(word) or self.names.why_not(word)

    def whole(self) -> Twin:
        """The twin of the file."""
        twin = self._of(self.source.root, 0, len(self.source.text))
        return replace(twin, text=f"{_UNUSED}\n{twin.text}") if any(each.stub for each in twin.left) else twin

    def of_item(self, node: Node) -> Twin:
        """The twin of an item, with its attributes."""
        return self._of(node, unit_start(node), node.end_byte)

    def _of(self, node: Node, start: int, end: int) -> Twin:
        """The twin of a node, after its matches that rustc wants complete have learned ROCm's variant."""
        taught: list[TextEdit] = []
        for match in demanding_matches(node):
            named = {enum for arm in arms_of(match) for enum in named_enums(pattern_of(arm))}
            if named & self.names.enums:
                try:
                    taught += with_newlines_of(self.source, foreign_arms(self.source, match, Style()))
                except CannotMirror as error:
                    reason = f"rustc wants an arm for ROCm here, and {error}"
                    twin = self.of_range(node, start, end)
                    return replace(twin, left=(*twin.left, Left(match.start_byte, "match", reason, stub=False)))
        if not taught:
            return self.of_range(node, start, end)
        text = apply_edits(self.source.text, taught).encode()
        source = Source.parse(self.source.path, text)
        growth = sum(len(edit.text.encode()) - (edit.end - edit.start) for edit in taught)
        whole = node == self.source.root
        there = source.root if whole else source.node_at(node.start_byte, node.end_byte + growth, node.type)
        twin = replace(self, source=source, swapped=True).of_range(there, start, end + growth)
        left = tuple(replace(each, start=_original(each.start, taught)) for each in twin.left)
        return Twin(twin.text, left, tuple(taught))

    def of_range(self, node: Node, start: int, end: int) -> Twin:
        """The twin of `start..end`, which is `node` with its attributes."""
        left: list[Left] = []
        imports = (self._imports(declaration, left) for declaration in descendants(node, "use_declaration"))
        pieces = [made for made in imports if made is not None]
        pieces += [
            made for macro in descendants(node, "macro_invocation") if (made := self._included(macro)) is not None
        ]
        for word in self.words(node):
            if any(piece.start <= word.start_byte < piece.end for piece in pieces):
                continue
            reason = self.why_not(text_of(word))
            if reason is not None:
                pieces += self._without(node, word, reason, left)
        pieces = _outermost(pieces)
        text, at = [], start
        for piece in pieces:
            text += [self.renamed(self.source.slice(at, max(at, piece.start))), piece.text]
            at = piece.end
        text.append(self.renamed(self.source.slice(at, end)) if at < end else "")
        once = {(each.name, each.reason, each.stub): each for each in reversed(left)}
        return Twin("".join(text), tuple(sorted(once.values(), key=lambda each: each.start)))

    def words(self, node: Node) -> Iterator[Node]:
        """The identifiers below a node, of methods' names only those that are called."""
        for word in descendants(node, *_IDENTIFIERS):
            if text_of(word) not in CALLS or (word.parent is not None and word.parent.type == "field_expression"):
                yield word

    def _without(self, top: Node, word: Node, reason: str, left: list[Left]) -> list[_Piece]:
        """What stands for the smallest item around the word that can go without it.

        Raises `CannotMirror` where that is not a part of the twin.
        """
        function = unit = None
        inner, node, outermost = word, word.parent, word
        in_body = False
        while node is not None and inner != top:
            outermost = inner
            if node.type == "function_item":
                function, in_body = node, inner == node.child_by_field_name("body")
            elif node.type in _UNITS and function is None and unit is None:
                unit = node
            inner, node = node, node.parent
        what = f"{text_of(word)}: {reason}"
        type_ = _type_of(word)
        if function is not None and (in_body or type_ is not None):
            left.append(Left(word.start_byte, name_of(function), what, stub=True))
            signature = [] if type_ is None or in_body else [_Piece(type_.start_byte, type_.end_byte, _NO_VALUE)]
            return [*signature, *self._stub(function, what)]
        item = function or unit or (outermost if top == self.source.root else None)
        if item is None:
            raise CannotMirror(what)
        left.append(Left(word.start_byte, name_of(item) or text_of(item).split("\n")[0][:60], what, stub=False))
        if type_ is not None and item.type in _OF_FIELDS | FUNCTIONS:
            return [_Piece(type_.start_byte, type_.end_byte, _NO_VALUE)]
        return [_Piece(unit_start(item), item.end_byte, "")]

    def _stub(self, function: Node, what: str) -> list[_Piece]:
        """The function with a body that says what it lacks."""
        body = function.child_by_field_name("body")
        assert body is not None
        said = f"{rename(name_of(function))} has no ROCm form: {what}".replace("\\", "").replace('"', "'")
        said = said.replace("{", "{{").replace("}", "}}")
        indent = indent_at(self.source, function.start_byte)
        text = f'{{\n{indent}    unimplemented!("{said}")\n{indent}}}'
        allowed = f"#[allow(unused_variables)]\n{indent}"
        head = _Piece(function.start_byte, function.start_byte, allowed)
        return [head, _Piece(body.start_byte, body.end_byte, text)]

    def _included(self, macro: Node) -> _Piece | None:
        """HIP sources in place of the PTX that nvcc makes of them; None for anything else."""
        if not self.kernels or macro_name(macro) not in ("include", "include_str", "include_bytes"):
            return None
        text = text_of(macro)
        if (named := _PTX.search(text)) is not None:
            path = self.kernels.get(named[1])
            return None if path is None else _Piece(macro.start_byte, macro.end_byte, _source_of(path))
        if macro_name(macro) != "include" or "OUT_DIR" not in text:
            return None
        whole = macro.parent if macro.parent is not None and macro.parent.type == "expression_statement" else macro
        indent = indent_at(self.source, whole.start_byte)
        behind = macro.next_sibling
        end = behind.end_byte if behind is not None and behind.type in (";", "empty_statement") else whole.end_byte
        lines = [f"pub const {_constant(name)}: &str = {_source_of(path)};" for name, path in self.kernels.items()]
        return _Piece(whole.start_byte, max(end, whole.end_byte), f"\n{indent}".join(lines))

    def _imports(self, declaration: Node, left: list[Left]) -> _Piece | None:
        """The declarations that stand for one; None where renaming does."""
        found = imports_of(declaration)
        gone = [each for each in found if self.names.why_not_imported(each) is not None]
        if not gone and "cudarc" not in text_of(declaration):
            return None
        if descendants(declaration, "use_wildcard"):
            if gone:
                left.append(Left(declaration.start_byte, "use", "its names are not known one by one", stub=False))
            return None
        for each in gone:
            reason = self.names.why_not_imported(each) or ""
            left.append(Left(each.node.start_byte, each.name, reason, stub=False))
        heads = [self.renamed(text_of(each)) for each in attributes_of(declaration) if not is_comment(each)]
        public = next((f"{text_of(c)} " for c in declaration.children if c.type == "visibility_modifier"), "")
        lines = ported_imports([each for each in found if each not in gone], self.names)
        text = "\n".join("\n".join([*heads, public + line if line.startswith("use") else line]) for line in lines)
        return _Piece(unit_start(declaration), declaration.end_byte, text)


def _original(offset: int, edits: Sequence[TextEdit]) -> int:
    """Where a byte of the text after the edits was before them."""
    for edit in sorted(edits, key=lambda each: each.start):
        if edit.start >= offset:
            break
        offset -= min(offset - edit.start, len(edit.text.encode()) - (edit.end - edit.start))
    return offset


def _type_of(word: Node) -> Node | None:
    """The whole type that a word names in a signature or a field; None where it names something else."""
    node = word
    while node.parent is not None and node.parent.type in ("scoped_type_identifier", "scoped_identifier"):
        node = node.parent
    if (
        node.parent is not None
        and node.parent.type == "generic_type"
        and node == node.parent.child_by_field_name("type")
    ):
        node = node.parent
    if node.type not in ("type_identifier", "scoped_type_identifier", "generic_type"):
        return None
    around = node.parent
    while around is not None and around.type not in _UNITS | {"function_item"}:
        if around.type in ("trait_bounds", "where_predicate", "dynamic_type", "abstract_type", "block"):
            return None
        around = around.parent
    if around is None or around.type not in _OF_FIELDS | FUNCTIONS:
        return None
    is_result = around.type in FUNCTIONS and around.child_by_field_name("return_type") == node
    return node if is_result or node.parent != around else None


def _source_of(path: str) -> str:
    return f'include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/{path}"))'


def _constant(name: str) -> str:
    """As cudaforge and bindgen_cuda call the PTX of a file."""
    return re.sub(r"\W", "_", name).upper()


def clashes(node: Node, renamed: Callable[[str], str]) -> bool:
    """Whether a twin would declare a name that the item declares."""
    if node.type == "use_declaration":
        found = imports_of(node)
        return any(renamed(each.name) == each.name for each in found) or bool(descendants(node, "use_wildcard"))
    if node.type == "impl_item":
        return renamed(text_of(node).partition("{")[0]) == text_of(node).partition("{")[0]
    name = name_of(node)
    return bool(name) and renamed(name) == name


def _outermost(pieces: list[_Piece]) -> list[_Piece]:
    kept: list[_Piece] = []
    for piece in sorted(pieces, key=lambda each: (each.start, -each.end)):
        if not kept or piece.start >= kept[-1].end:
            kept.append(piece)
    return kept
