"""The verbs that derive a ROCm form from the CUDA form of a Python site: text edits, nothing is written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codegen.syntax.edit import CannotMirror, Style, TextEdit, mirrored
from codegen.syntax.python import assigned_name, bodies, is_definition, statements_around
from codegen.syntax.rename import CUDA, ROCM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.syntax.python import PythonSource
    from codegen.syntax.site import Site

SORTED_FROM = 3
"""Siblings in the order of their names that show that the order is meant."""


def mirror_python(source: PythonSource, site: Site, style: Style) -> list[TextEdit]:
    """A renamed copy of the site: of a statement behind it, of an import or an alternative in the same list."""
    if site.kind == "py-import":
        return _extend_import(source, site, style)
    if site.kind == "py-choice":
        return [TextEdit(site.end, site.end, f", {mirrored(source.slice(site.start, site.end), style)}")]
    if site.kind in ("py-def", "py-assign", "py-statement"):
        return [_copied(source, site, style)]
    raise CannotMirror("it is a word in the middle of a statement")


def or_in_python(source: PythonSource, site: Site, style: Style) -> list[TextEdit]:
    """`name == "cuda"` in a condition becomes `name == "cuda" or name == "rocm"`."""
    if site.kind != "py-condition":
        raise CannotMirror("it is no condition")
    return [TextEdit(site.end, site.end, f" or {mirrored(source.slice(site.start, site.end), style)}")]


def _extend_import(source: PythonSource, site: Site, style: Style) -> list[TextEdit]:
    statement = statements_around(source, site.start)[-1]
    assert isinstance(statement, ast.Import | ast.ImportFrom)
    edits = []
    for alias in statement.names:
        text = source.of(alias)
        copy = mirrored(text, style)
        if copy != text:
            edits.append(TextEdit(source.end_of(alias), source.end_of(alias), f", {copy}"))
    if not edits:
        raise CannotMirror("it names CUDA in the module's path only")
    return edits


def _copied(source: PythonSource, site: Site, style: Style) -> TextEdit:
    body, node = _placed(source, site)
    text = mirrored(source.of(node), style)
    if is_definition(node) and CUDA.lower not in node.name.lower():
        text = text.replace(f" {node.name}(", f" {node.name}_{ROCM.lower}(", 1)
    behind = _behind(body, node, style)
    end = _end_of_line(source, source.end_of(behind))
    indent = " " * node.col_offset
    return TextEdit(end, end, "\n" * (_blank_lines(source, body, behind) + 1) + indent + text)


def _placed(source: PythonSource, site: Site) -> tuple[Sequence[ast.stmt], ast.stmt]:
    """The statement that the site is, and the block that it stands in."""
    chain = statements_around(source, site.start)
    at = next(at for at, each in enumerate(chain) if source.start_of(each) == site.start)
    holder: ast.AST | None = chain[at - 1] if at else source.tree
    assert holder is not None
    return next(body for body in bodies(holder) if chain[at] in body), chain[at]


def _behind(body: Sequence[ast.stmt], node: ast.stmt, style: Style) -> ast.stmt:
    """The sibling that the copy follows: the node, unless it stands among siblings that are sorted by name."""
    at = body.index(node)
    first, last = at, at
    while first > 0 and type(body[first - 1]) is type(node):
        first -= 1
    while last + 1 < len(body) and type(body[last + 1]) is type(node):
        last += 1
    run = body[first : last + 1]
    names = [name for each in run if (name := _name(each)) is not None]
    own = _name(node)
    if own is None or len(names) != len(run) or len(run) < SORTED_FROM or names != sorted(names):
        return node
    copy = mirrored(own, style)
    return max((each for each in run if (_name(each) or "") <= copy), key=run.index, default=node)


def _name(statement: ast.stmt) -> str | None:
    return statement.name if is_definition(statement) else assigned_name(statement)


def _end_of_line(source: PythonSource, offset: int) -> int:
    end = source.text.find(b"\n", offset)
    if end < 0:
        return len(source.text)
    return end - 1 if source.text[end - 1 : end] == b"\r" else end


def _blank_lines(source: PythonSource, body: Sequence[ast.stmt], node: ast.stmt) -> int:
    """How many empty lines part a definition from its neighbour; other statements follow one another."""
    at = body.index(node)
    if not is_definition(node):
        return 0
    if at + 1 < len(body):
        between = source.text[source.end_of(node) : source.start_of(body[at + 1])]
    elif at > 0:
        between = source.text[source.end_of(body[at - 1]) : source.start_of(node)]
    else:
        return 0
    return sum(not line.strip() for line in between.split(b"\n")[1:-1])
