"""Which mutants are on lines that a change of this repository touches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.render.new_file import HEADER_LINES
from codegen.report.source_line import template_of
from codegen.spec.folders import is_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mutants.mutant import Mutant

FILE = re.compile(r"^\+\+\+ b/(?P<path>.+)$")
HUNK = re.compile(r"^@@ -\S+ \+(?P<first>\d+)(?:,(?P<count>\d+))? @@")
GENERATED = re.compile(r"^generated/[\w-]+/(?P<path>.+)$")


def touched_lines(diff: str) -> dict[str, set[int]]:
    """The lines, by file, that `git diff --unified=0` added or changed; where lines are gone, the one before them."""
    found: dict[str, set[int]] = {}
    path = ""
    for line in diff.splitlines():
        if (file := FILE.match(line)) is not None:
            path = file["path"]
        elif (hunk := HUNK.match(line)) is not None:
            first, count = int(hunk["first"]), int(hunk["count"] or 1)
            found.setdefault(path, set()).update(range(first, first + max(count, 1)))
    return found


def touched(
    mutants: Iterable[Mutant],
    lines: Mapping[str, Collection[int]],
    committed: Mapping[str, bytes],
    tree: Mapping[str, bytes],
) -> tuple[Mutant, ...]:
    """The mutants in touched lines.

    `lines` are the repository's, `committed` its generated files as they are now, `tree` the patched release's files.
    A plain source stands in its file behind a header. Of a file that has neither a plain source nor a committed text
    for this release, all mutants count if its template changed.
    """
    known: dict[str, Collection[int]] = {}
    for path, content in committed.items():
        matched = GENERATED.match(path)
        if matched is not None and tree.get(matched["path"]) == content:
            known[matched["path"]] = lines.get(path, ())
    for path, content in tree.items():
        source = template_of(content.decode(errors="replace"))
        if source is not None and is_plain(source):
            known[path] = {line + HEADER_LINES for line in lines.get(source, ())}
    rendered = {
        path
        for path, content in tree.items()
        if path not in known and template_of(content.decode(errors="replace")) in lines
    }
    return tuple(
        mutant
        for mutant in mutants
        if mutant.file in rendered
        or any(mutant.start[0] <= line <= mutant.end[0] for line in known.get(mutant.file, ()))
    )
