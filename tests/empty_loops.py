"""Finds tests that pass without having looked at anything: their only assertions stand in a loop that may be empty.

Such a loop goes over what is computed, a list of files or of findings. The test has to say that there is some: by an
assertion outside of the loop, or by `some(...)` around the collection. Loops over what is written out in the module
cannot be empty; laws of hypothesis hold of examples in which there is nothing, too.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KEEP_LENGTH = frozenset(
    {"enumerate", "zip", "product", "sorted", "reversed", "list", "tuple", "set", "items", "values", "keys"}
)
"""Calls whose result is empty only if one of their arguments is, or what they are methods of."""
CHECKS = ("assert", "check", "refuse", "raises", "fail", "verified", "ok", "fnmatch")
"""What a function or method is called that fails a test: the whole name, or a word of it."""


@dataclass(frozen=True, slots=True)
class EmptyLoop:
    """A test whose assertions may all be passed over."""

    test: str
    line: int
    """Of the loop."""


def empty_loops(source: str) -> Iterator[EmptyLoop]:
    """The tests of a module that an empty collection would let pass."""
    module = ast.parse(source)
    written = _written_out(module.body)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            if any(
                isinstance(each, ast.Name) and each.id == "given" for d in node.decorator_list for each in ast.walk(d)
            ):
                continue
            known = written | _written_out(node.body)
            loops, checked = _checks(node.body, known)
            if loops and not checked:
                yield EmptyLoop(node.name, loops[0].lineno)


def _checks(body: list[ast.stmt], known: frozenset[str]) -> tuple[list[ast.For], bool]:
    """Loops that may be empty and have checks in them; whether there is a check that no such loop hides."""
    loops: list[ast.For] = []
    checked = False
    for statement in body:
        if isinstance(statement, ast.For) and not _has_some(statement.iter, known):
            inner = [each for each in ast.walk(statement) if _is_check(each)]
            loops += [statement] if inner else []
            checked |= _any_check(statement.iter)
            continue
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(statement, "handlers", [])]
        if not any(blocks):
            checked |= _any_check(statement)
            continue
        heads = [value for name in ("iter", "test") if (value := getattr(statement, name, None)) is not None]
        checked |= any(_any_check(head) for head in (*heads, *getattr(statement, "items", [])))
        for block in blocks:
            inside, seen = _checks(block, known)
            loops += inside
            checked |= seen
    return loops, checked


def _any_check(node: ast.AST) -> bool:
    return any(_is_check(each) for each in ast.walk(node))


def _is_check(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called == "some" or any(word.startswith(CHECKS) for word in called.split("_"))


def _written_out(body: list[ast.stmt]) -> frozenset[str]:
    """Names that are given something written out, with at least one element."""
    found: set[str] = set()
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.expr() as value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        if _has_some(value, frozenset(found)):
            found.add(name)
    return frozenset(found)


def _has_some(node: ast.expr, known: frozenset[str]) -> bool:
    """Whether the collection has something in it, as the text shows."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(not isinstance(e, ast.Starred) or _has_some(e.value, known) for e in elements)
        case ast.Dict(keys=keys):
            return bool(keys)
        case ast.Constant(value=str() as text):
            return bool(text)
        case ast.Name(id=name):  # a class that is gone through is an enumeration
            return name in known or (name[:1].isupper() and not name.isupper())
        case ast.Attribute(attr=name):
            return name[:1].isupper() and not name.isupper()
        case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
            return _has_some(left, known) or _has_some(right, known)
        case ast.BinOp(left=left, op=ast.Mult()):
            return _has_some(left, known)
        case ast.Call(func=ast.Name(id="some")):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[*_, ast.Constant(value=int() as last)]):
            return last > 0
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments) if name in KEEP_LENGTH:
            return all(_has_some(argument, known) for argument in arguments)
        case ast.Call(func=ast.Attribute(value=of, attr=name), args=[]) if name in KEEP_LENGTH:
            return _has_some(of, known)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="split")):
            return bool(text.split())
        case ast.Call(func=ast.Attribute(attr=name), args=[_, *_] as arguments) if name in KEEP_LENGTH:
            return all(_has_some(argument, known) for argument in arguments)
        case ast.ListComp(generators=generators) | ast.SetComp(generators=generators):
            return all(not each.ifs and _has_some(each.iter, known) for each in generators)
    return False
