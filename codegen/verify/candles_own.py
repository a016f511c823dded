"""Warnings that the patch cannot have caused, so that the unpatched tree need not be built to know that it has them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen.syntax.modules import folder_of_modules
from codegen.verify.provenance import trace

if TYPE_CHECKING:
    from codegen.verify.diagnostics import Diagnostic, Span
    from codegen.verify.patched_tree import Subject

OF_THEIR_TEXT = frozenset({"mismatched_lifetime_syntaxes", "unused_parens"})
"""Lints of rustc that look at nothing but the text that they point at."""
PRIVATE = tuple(
    f"{word} " for word in ("async fn", "const", "enum", "fn", "static", "struct", "trait", "type", "unsafe fn")
)
"""How a line begins that defines what only its own module and the modules in it can use."""


def is_candles_own(warning: Diagnostic, subject: Subject) -> bool:
    """Whether the unpatched tree must have the warning: all that it depends on is there as it is in the patched tree.

    That is so of lints that look at their own text, where the patch did not write it, and of private items that nothing
    uses, where it changes neither their module nor one in it. Of other warnings it is not known.
    """
    place = warning.span
    if place is None or warning.expanded_from is not None:
        return False
    if warning.code in OF_THEIR_TEXT:
        return place.file not in subject.differing and trace(warning, subject.regions).origin is None
    return warning.code == "dead_code" and not _changes_module(place.file, subject) and _is_private(place, subject)


def _changes_module(file: str, subject: Subject) -> bool:
    """Whether the patch changes the module that a file is, or one in its folder."""
    folder = folder_of_modules(PurePosixPath(file))
    return any(
        changed == file or PurePosixPath(changed).is_relative_to(folder)
        for changed in (*subject.pristine, *subject.patched)
    )


def _is_private(place: Span, subject: Subject) -> bool:
    lines = (subject.root / place.file).read_text(encoding="utf-8").split("\n")
    return place.first_line <= len(lines) and lines[place.first_line - 1].lstrip().startswith(PRIVATE)
