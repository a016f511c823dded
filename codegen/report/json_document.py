"""What the JSON documents of all commands have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codegen import __version__

if TYPE_CHECKING:
    from codegen.errors import Problem
    from codegen.patch.changes import Origin

SCHEMA_VERSION = 1
"""Raised when a field of any document changes its meaning or goes away; a new field does not raise it."""

Document = dict[str, Any]


def document(command: str, *, release: str, tried: bool, **content: object) -> Document:
    """A command's document about a Candle tree."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "tool": {"name": "candle-rocm", "version": __version__},
        "candle": {"release": release, "tried": tried},
        **content,
    }


def dumps(content: Document) -> str:
    """The document as text, without a newline at its end."""
    import json

    return json.dumps(content, indent=2, ensure_ascii=False)


def problem_entry(problem: Problem) -> Document:
    """One finding of an error; the place is null where none is known."""
    place = problem.location
    return {
        "message": problem.message,
        "path": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "source_line": place.source_line if place else None,
    }


def origin_entry(origin: Origin) -> Document:
    """Why a piece of text was generated; `template` is null where it mirrors its CUDA sibling."""
    return {"rule": origin.rule, "spec": origin.spec, "phase": origin.phase, "template": origin.template}
