"""What rustc and libtest said, as frozen data read from cargo's `--message-format=json` stream."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a file; lines and columns count from 1, columns in characters, `last_column` is exclusive."""

    file: str
    """Relative to the workspace, with forward slashes."""
    first_line: int
    first_column: int
    last_line: int
    last_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first_line}:{self.first_column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning of rustc or clippy."""

    level: str
    """`error`, `warning`, ... as rustc names it; an internal compiler error is `error: internal compiler error`."""
    code: str | None
    """`E0004`, `unused_imports`, `clippy::needless_return`; None for messages without one."""
    message: str
    span: Span | None
    """The first primary span; for a macro expansion the outermost call site in the workspace."""
    expanded_from: Span | None = None
    """Where the text itself stands (in the macro's body) when that is another place of the workspace than `span`."""
    related: tuple[Span, ...] = ()
    """Every other place of the workspace that the message or its notes point at, in rustc's order."""
    rendered: str = ""
    """rustc's own rendering, without colour."""

    @property
    def is_error(self) -> bool:
        """True for errors, internal compiler errors included."""
        return self.level.startswith("error")

    @property
    def headline(self) -> str:
        """`error[E0004]: message`, as rustc prints it."""
        code = f"[{self.code}]" if self.code else ""
        return f"{self.level}{code}: {self.message}"


def read_diagnostic(message: Mapping[str, Any], *, root: str) -> Diagnostic | None:
    """A rustc message as a `Diagnostic`; None for summaries such as "aborting due to 2 previous errors".

    `root` is the absolute path of the workspace: rustc gives paths relative to it, or absolute ones.
    The shape is described in the rustc book, "JSON output".
    """
    if message["level"] == "failure-note" or (not message["spans"] and _is_summary(message["message"])):
        return None
    primaries = [span for span in message["spans"] if span["is_primary"]]
    span, expanded_from = _outermost(primaries, root)
    others = (found for part in _with_children(message) for one in part["spans"] for found in _chain(one, root))
    related = tuple(dict.fromkeys(found for found in others if found != span))
    code = message.get("code")
    return Diagnostic(
        level=message["level"],
        code=code["code"] if code else None,
        message=message["message"],
        span=span,
        expanded_from=expanded_from,
        related=related,
        rendered=(message.get("rendered") or "").rstrip("\n"),
    )


def _is_summary(text: str) -> bool:
    return re.search(r"^aborting due to|\b\d+ warnings? emitted\b", text) is not None


def _outermost(primaries: Iterable[Mapping[str, Any]], root: str) -> tuple[Span | None, Span | None]:
    for primary in primaries:
        chain = list(_chain(primary, root))
        if chain:
            return chain[-1], chain[0] if chain[0] != chain[-1] else None
    return None, None


def _chain(span: Mapping[str, Any], root: str) -> Iterator[Span]:
    """The span and the call sites of the macros it was expanded from, innermost first; those in the workspace only."""
    current: Mapping[str, Any] | None = span
    while current is not None:
        file = _in_workspace(current["file_name"], root)
        if file is not None:
            yield Span(
                file,
                current["line_start"],
                current["column_start"],
                current["line_end"],
                current["column_end"],
            )
        expansion = current.get("expansion")
        current = expansion["span"] if expansion else None


def _in_workspace(file: str, root: str) -> str | None:
    if file.startswith("<"):  # <std macros>, <proc-macro source>
        return None
    path = PurePosixPath(file.replace("\\", "/"))
    if path.is_absolute():
        base = PurePosixPath(root.replace("\\", "/"))
        return str(path.relative_to(base)) if path.is_relative_to(base) else None
    return str(path)


def _with_children(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield message
    for child in message.get("children", ()):
        yield from _with_children(child)
