"""CUDA's kernels that Rust names for quantized work: loaded by name, or functions of `candle_kernels::ffi`.

Like the scan for backends, this one starts from tokens: whatever names CUDA's kernels leads to the symbols that it
stands for, or is a site without a name, so that nothing is missed that cannot be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, Problem
from codegen.syntax.constructs import callee, item_name, name_of
from codegen.syntax.imports import imports_of
from codegen.syntax.site import MOST_STEPS, Site
from codegen.syntax.source import is_comment, text_of
from codegen.syntax.strings import FILLED_IN, strings_of
from codegen.syntax.strings import MOST_STEPS as STRING_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from codegen.syntax.source import Source

_SNIPPET = 120
_TOKEN_STEPS = 100
_MODULE = "QUANTIZED"
_CRATE = "candle_kernels"
_FFI = re.compile(r"(?:^|::)(?:candle_)?kernels::ffi(?:::|$)")
"""In the path of an import."""
_WORTH = re.compile(rb"\bcandle_kernels\s+as\s+(?!kernels\b)|kernels\s*::[^;]*?\bffi\b")
_TOKEN = re.compile(
    rb"\b(?:QUANTIZED|candle_kernels|get_or_load\w*|extern|use(?=[^;]*?\b(?:QUANTIZED|candle_kernels|ffi)\b))\b"
)
_NAMES = frozenset({"identifier", "field_identifier"})


@dataclass(frozen=True, slots=True)
class KernelSymbol:
    """A kernel that a file names."""

    name: str
    """With a `*` for what is filled in when the program runs; empty where it cannot be read."""
    node: Node
    """What names it: a string, or the last part of a path."""

    def site(self, source: Source, kind: str) -> Site:
        """The place as a site of the kind."""
        start, end = self.node.start_byte, self.node.end_byte
        return Site(
            path=source.path,
            kind=kind,
            start=start,
            end=end,
            line=source.line_of(start),
            column=source.column_of(start),
            item="::".join(filter(None, map(item_name, source.chain(start, end)))),
            name=self.name,
            snippet=text_of(self.node).split("\n", 1)[0].strip()[:_SNIPPET],
        )


def names_kernels(text: bytes, *, every: bool) -> bool:
    """Whether a file is worth being parsed for `kernel_symbols`: few are."""
    if every and (b"get_or_load" in text or b"candle_kernels" in text or b"extern" in text):
        return True
    if b"kernels" not in text:
        return False
    return b"QUANTIZED" in text or ((b"ffi" in text or b"kernels as" in text) and _WORTH.search(text) is not None)


def kernel_symbols(source: Source, *, every: bool) -> tuple[KernelSymbol, ...]:
    """Each kernel that the file names, in source order.

    In a file that is all about quantized tensors, `every` kernel counts; in others, those of the module `QUANTIZED` and
    the functions of `candle_kernels::ffi`.

    Raises `InputOutputError` for a file that would take too long.
    """
    try:
        found = _Kernels(source, every=every).found()
    except RecursionError as cause:
        raise InputOutputError(
            f"{source.path}: expressions are nested too deeply", remedy="remove the file from the tree"
        ) from cause
    return tuple(sorted(found, key=lambda symbol: (symbol.node.start_byte, symbol.name)))


class _Kernels:
    def __init__(self, source: Source, *, every: bool) -> None:
        self.source, self.every = source, every
        self.steps = 0
        self.ffi: set[str] = set()
        """What the file calls the module of functions."""
        self.read_to = 0
        """Where the call ends that was read last: what it names of CUDA's kernels is accounted for."""

    def found(self) -> list[KernelSymbol]:
        sites = [site for token in _TOKEN.finditer(self.source.text) for site in self._token(token)]
        return [*sites, *self._functions()]

    def _token(self, token: re.Match[bytes]) -> Iterator[KernelSymbol]:
        if token.start() < self.read_to:
            return
        chain = self._chain(token.start(), token.end())
        if token[0] == b"use":
            yield from self._imports(chain)
        elif token[0] == b"extern":
            yield from self._declared(chain) if self.every else ()
        elif chain[-1].type in _NAMES and not any(node.type == "use_declaration" for node in chain):
            if token[0].startswith(b"get_or_load"):
                yield from self._load(chain)
            elif token[0] == _MODULE.encode() or (self.every and not self._is_ffi(token)):
                yield KernelSymbol("", chain[-1])

    def _is_ffi(self, token: re.Match[bytes]) -> bool:
        return re.match(rb"\s*::\s*(?:ffi|QUANTIZED)\b", self.source.text[token.end() : token.end() + 80]) is not None

    def _imports(self, chain: list[Node]) -> Iterator[KernelSymbol]:
        """What a `use` brings into scope: the module of functions, under some name, or functions themselves."""
        declaration = next((node for node in chain if node.type == "use_declaration"), None)
        if declaration is None:
            return
        for each in imports_of(declaration):
            path, _, alias = each.path.partition(" as ")
            path = re.sub(r"\s", "", path)
            if _FFI.search(path):
                if path.endswith("::ffi"):
                    self.ffi.add(each.name)
                else:
                    yield KernelSymbol(path.rpartition("::")[2], each.node)
            elif path.endswith(f"::{_MODULE}") or path == _CRATE:
                if alias.strip() not in ("", "_", "kernels", _MODULE):
                    yield KernelSymbol("", each.node)
            elif self.every and path.startswith(f"{_CRATE}::"):
                yield KernelSymbol("", each.node)
        for glob in _globs(declaration):
            if re.search(rf"\b{_CRATE}\b|\bkernels::ffi\b", re.sub(r"\s", "", text_of(glob))):
                yield KernelSymbol("", glob)

    def _declared(self, chain: list[Node]) -> Iterator[KernelSymbol]:
        """The functions that a block of foreign declarations has."""
        block = next((node for node in chain if node.type == "foreign_mod_item"), None)
        for item in (block.child_by_field_name("body") or block).named_children if block is not None else ():
            if item.type == "function_signature_item":
                yield KernelSymbol(name_of(item), item)

    def _load(self, chain: list[Node]) -> Iterator[KernelSymbol]:
        """The kernels that a call may load: its first argument has their names."""
        token = text_of(chain[-1])
        call = next((node for node in reversed(chain) if node.type == "call_expression"), None)
        arguments = call.child_by_field_name("arguments") if call is not None and callee(call) == token else None
        if call is None or arguments is None:
            if self.every and not any(node.type == "function_item" for node in chain[-2:]):
                yield KernelSymbol("", chain[-1])
            return
        given = [node for node in arguments.named_children if not is_comment(node)]
        if not given or not (self.every or any(re.search(rf"\b{_MODULE}\b", text_of(node)) for node in given[1:])):
            return
        self.read_to = call.end_byte
        self.steps += STRING_STEPS
        found = strings_of(self.source, given[0])
        if not found:
            yield KernelSymbol("", given[0])
        for each in found:
            readable = each.text is not None and each.text.strip(FILLED_IN)
            yield KernelSymbol(each.text or "" if readable else "", each.node)

    def _functions(self) -> Iterator[KernelSymbol]:
        """Functions behind the path of their module, also in what is given to a macro."""
        names = "|".join(map(re.escape, sorted(self.ffi))) or r"(?!)"
        path = re.compile(rf"(?:kernels\s*::\s*ffi|(?<!::)\b(?:{names}))\s*::\s*(\w+)".encode())
        for match in path.finditer(self.source.text):
            chain = self._chain(match.start(1), match.end(1))
            if chain[-1].type == "identifier" and not any(node.type == "use_declaration" for node in chain):
                yield KernelSymbol(match[1].decode(), chain[-1])

    def _chain(self, start: int, end: int) -> list[Node]:
        chain = self.source.chain(start, end)
        self.steps += _TOKEN_STEPS + len(chain)
        if self.steps > MOST_STEPS:
            raise InputOutputError(
                Problem("the file names CUDA's kernels too often, or too deeply nested", self.source.location(start)),
                remedy="split the file, or remove it from the tree",
            )
        return chain


def _globs(node: Node) -> Iterator[Node]:
    """Every `path::*` of a `use` declaration."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node.type == "use_wildcard":
            yield node
        waiting += node.named_children
