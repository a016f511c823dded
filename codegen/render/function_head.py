"""The head of a Rust function, laid out as rustfmt would."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_WIDTH = 100
"""rustfmt's `max_width`, which Candle leaves at its default."""


def function_head(
    start: str, params: Sequence[str], *, returns: str | None, where: Sequence[str] = (), indent: int = 0
) -> str:
    """Everything of a function up to and including `{`; `start` is `pub fn name<T>`, `indent` in columns.

    The first line carries no indentation: it stands where the caller puts it.
    """
    pad = " " * indent
    arrow = "" if returns is None else f" -> {returns}"
    line = f"{start}({', '.join(params)}){arrow}"
    if indent + len(line) + (0 if where else len(" {")) > MAX_WIDTH and params:
        inner = "".join(f"{pad}    {param},\n" for param in params)
        line = f"{start}(\n{inner}{pad}){arrow}"
    if not where:
        return f"{line} {{"
    predicates = "".join(f"{pad}    {predicate},\n" for predicate in where)
    return f"{line}\n{pad}where\n{predicates}{pad}{{"
