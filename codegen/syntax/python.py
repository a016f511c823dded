"""Backend sites in Python files: every token that names CUDA or Metal, outside comments and docstrings.

Python's own parser reads them. As in Rust, the outermost construct that knows about backends claims a token, and what
nothing claims is a site by itself.
"""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, TypeGuard

from codegen.errors import InputOutputError, Problem
from codegen.syntax.site import Site
from codegen.syntax.source import Text, backend_tokens, names_backend_at_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LARGEST = 512 << 10
"""Bytes of a file, whose syntax tree takes up to 500 times as many; Candle's largest has 20 KiB."""
MOST_STEPS = 4_000_000
"""Lines that are looked at, over all tokens that name a backend; Candle's files need 3,000."""
WORD = re.compile(rb"\w+")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class PythonSource(Text):
    """One Python file, or the stub of one."""

    tree: ast.Module | None
    """None where the file is not Python as we know it."""
    starts: tuple[int, ...]
    """The byte that each line begins with."""

    @classmethod
    def parse(cls, path: str, text: bytes) -> PythonSource:
        """Parse; a file that is not Python gives a source without a tree. Raises `InputOutputError` for a large one."""
        if len(text) > LARGEST:
            raise InputOutputError(f"{path} has more than {LARGEST >> 10} KiB", remedy="split the file")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        except SyntaxError:  # an encoding that there is not, or that the text is not in
            encoding = "utf-8"
        if codecs.lookup(encoding).name not in (
            "utf-8",
            "utf-8-sig",
        ):  # Python would read other text than we do, at other places
            raise InputOutputError(f"{path}: its first lines say that it is {encoding}", remedy="write it in UTF-8")
        starts = tuple(accumulate(map(len, text.splitlines(keepends=True)), initial=0))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the tree's text, which would be quoted
                return cls(path, text, ast.parse(text), starts)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return cls(path, text, None, starts)

    def offset(self, line: int, column: int) -> int:
        """The byte offset of a position as `ast` gives it: lines from 1, columns in bytes."""
        return self.starts[line - 1] + column

    def start_of(self, node: ast.stmt | ast.expr | ast.alias) -> int:
        """Where a node begins; a definition begins with its first decorator."""
        decorators = node.decorator_list if is_definition(node) else []
        if decorators:
            line = self.offset(decorators[0].lineno, 0)
            return self.text.index(b"@", line)
        return self.offset(node.lineno, node.col_offset)

    def end_of(self, node: ast.stmt | ast.expr | ast.alias) -> int:
        """Where a node ends."""
        return self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def covers(self, node: ast.stmt | ast.expr | ast.alias, offset: int) -> bool:
        """Whether the byte at `offset` belongs to the node."""
        return self.start_of(node) <= offset < self.end_of(node)

    def of(self, node: ast.stmt | ast.expr | ast.alias) -> str:
        """The node's text, decorators included."""
        return self.slice(self.start_of(node), self.end_of(node))


def is_definition(node: ast.AST) -> TypeGuard[Definition]:
    """True for functions and classes."""
    return isinstance(node, _DEFINITIONS)


def find_python_sites(source: PythonSource) -> tuple[Site, ...]:
    """All backend sites of a file, in order of position; none lies inside another."""
    found: list[Site] = []
    prose = _prose(source)
    claimed = 0
    for count, token in enumerate(backend_tokens(source.text)):
        at = token.start()
        if count * len(source.starts) > MOST_STEPS:
            raise InputOutputError(
                Problem("the file names backends too often", source.location(at)), remedy="split the file"
            )
        if at < claimed or any(start <= at < end for start, end in prose):
            continue
        site = _site(source, at)
        found.append(site)
        claimed = max(site.end, token.end())
    return tuple(found)


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a statement, or of a file, in order."""
    for field in ("body", "handlers", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if field == "handlers":
            yield from (handler.body for handler in block or ())
        elif isinstance(block, list):
            yield block


def statements_around(source: PythonSource, offset: int) -> list[ast.stmt]:
    """The statements that the byte lies in, outermost first."""
    chain: list[ast.stmt] = []
    node: ast.AST | None = source.tree
    while node is not None:
        inner = (each for body in bodies(node) for each in body if source.covers(each, offset))
        node = next(inner, None)
        if isinstance(node, ast.stmt):
            chain.append(node)
    return chain


def _site(source: PythonSource, offset: int) -> Site:
    chain = statements_around(source, offset)
    for depth, statement in enumerate(chain):
        if is_definition(statement) and _named(source, statement):
            return _made(source, "py-def", statement, chain[:depth], statement.name)
    if not chain:
        return _leaf(source, offset, chain)
    statement, outer = chain[-1], chain[:-1]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return _made(source, "py-import", statement, outer, "")
    if (name := assigned_name(statement)) is not None and _is_backend(name):
        return _made(source, "py-assign", statement, outer, name)
    if (choice := choice_at(source, statement, offset)) is not None:
        return _made(source, "py-choice", choice, outer, assigned_name(statement) or "")
    if (condition := condition_at(source, statement, offset)) is not None:
        return _made(source, "py-condition", condition, outer, "")
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _made(source, "py-statement", statement, outer, ast.unparse(statement.value.func))
    return _leaf(source, offset, chain)


def assigned_name(statement: ast.stmt) -> str | None:
    """The name that a statement assigns to, or None if it assigns to none, or to several."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    target = statement.target if isinstance(statement, ast.AnnAssign) else targets[0] if len(targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def choice_at(source: PythonSource, statement: ast.stmt, offset: int) -> ast.expr | None:
    """The alternative, one of several alike, that the byte lies in."""
    for node in _expressions(source, statement, offset):
        for each in _alternatives(node):
            if source.covers(each, offset) and isinstance(each, ast.Name | ast.Constant):
                return each
    return None


def condition_at(source: PythonSource, statement: ast.stmt, offset: int) -> ast.expr | None:
    """The comparison or call that the byte lies in, if it is a condition, or one side of its outermost `or`."""
    tests = (getattr(node, "test", None) for node in _own_nodes(source, statement, offset))
    test = next((test for test in tests if isinstance(test, ast.expr) and source.covers(test, offset)), None)
    if test is None:
        return None
    sides: Sequence[ast.expr] = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    side = next((side for side in sides if source.covers(side, offset)), None)
    return side if isinstance(side, ast.Compare | ast.Call) else None


def _alternatives(node: ast.expr) -> Sequence[ast.expr]:
    """What a display, `Literal[...]` or `TypeVar(NAME, ...)` lists, if all of it is of one form."""
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        elements: Sequence[ast.expr] = node.elts
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "TypeVar":
        elements = node.args[1:]
    else:
        return ()
    alike = len({type(each.value if isinstance(each, ast.Constant) else each) for each in elements}) == 1
    return elements if alike and len(elements) > 1 else ()


def _expressions(source: PythonSource, statement: ast.stmt, offset: int) -> Iterator[ast.expr]:
    return (node for node in _own_nodes(source, statement, offset) if isinstance(node, ast.expr))


def _own_nodes(source: PythonSource, statement: ast.stmt, offset: int) -> Iterator[ast.stmt | ast.expr]:
    """The statement, and the expressions in it that the byte lies in, outermost first."""
    for node in ast.walk(statement):
        if node is statement or (isinstance(node, ast.expr) and source.covers(node, offset)):
            assert isinstance(node, ast.stmt | ast.expr)
            yield node


def _named(source: PythonSource, definition: Definition) -> bool:
    return any(_is_backend(text) for text in (definition.name, *map(source.of, definition.decorator_list)))


def _is_backend(text: str) -> bool:
    return names_backend_at_all(text.encode())


def _made(source: PythonSource, kind: str, node: ast.stmt | ast.expr, outer: Sequence[ast.stmt], name: str) -> Site:
    return _at(source, kind, source.start_of(node), source.end_of(node), outer, name)


def _leaf(source: PythonSource, offset: int, chain: Sequence[ast.stmt]) -> Site:
    """The word, as far as identifiers go."""
    start, end = next(word.span() for word in WORD.finditer(source.text) if word.end() > offset)
    return _at(source, "py-text", start, end, chain, source.slice(start, end))


def _at(source: PythonSource, kind: str, start: int, end: int, outer: Sequence[ast.stmt], name: str) -> Site:
    text = source.text[start:end].lower()
    return Site(
        path=source.path,
        kind=kind,
        start=start,
        end=end,
        line=source.line_of(start),
        column=source.column_of(start),
        item="::".join(node.name for node in outer if is_definition(node)),
        name=name,
        snippet=source.line_text(start).strip()[:120],
        metal_only=b"cuda" not in text,
    )


def _prose(source: PythonSource) -> list[tuple[int, int]]:
    """Byte ranges of comments and docstrings."""
    if source.tree is None:
        return []
    found = []
    lines = source.text.splitlines(keepends=True)
    for token in tokenize.tokenize(io.BytesIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            start = source.offset(line, len(lines[line - 1].decode()[:column].encode()))
            found.append((start, start + len(token.string.encode())))
    strings = (
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return found + [(source.start_of(node), source.end_of(node)) for node in strings]
