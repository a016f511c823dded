"""clang's messages about a rendered source, led back to the spec that made the line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.kernels.render import Source

_MESSAGE = re.compile(r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?P<kind>[a-z ]+): (?P<text>.*)")
_SHOWN_LINES = 12
"""Of one message with its excerpts; the rest of a deep template stack helps nobody."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error of the compiler about one source."""

    text: str
    """What is wrong."""
    location: Location
    """The spec's line if one made the code, else the line of the rendered file."""
    excerpt: str
    """The compiler's own words, with lines of the rendered files."""

    def problem(self, architectures: Iterable[str]) -> Problem:
        """As a finding, naming the architectures for which the compiler said so."""
        told = "\n".join(f"    {line}" for line in self.excerpt.splitlines())
        return Problem(f"{self.text} [{', '.join(architectures)}]\n{told}", self.location)


def read_diagnostics(output: str, source: Source) -> tuple[Diagnostic, ...]:
    """The errors in what a compiler printed about `source`; what cannot be read as such becomes one error.

    A warning counts as one: compilers are run with -Werror.
    """
    groups: list[list[str]] = []
    stack: list[str] = []  # `In file included from` stands before the error that it belongs to
    for line in output.splitlines():
        match = _MESSAGE.match(line)
        if match and match["kind"] in ("error", "fatal error", "warning"):
            groups.append([*stack, line])
            stack = []
        elif line.startswith("In file included from"):
            stack.append(line)
        elif groups:
            groups[-1] += [*stack, line]
            stack = []
    if not groups:
        told = output.strip() or "the compiler failed without a word"
        return (Diagnostic(told.partition("\n")[0], Location(source.path, 1), told),)
    return tuple(_diagnostic(group, source) for group in groups)


def _diagnostic(lines: list[str], source: Source) -> Diagnostic:
    places = [match for line in lines if (match := _MESSAGE.match(line))]
    error = next(match for match in places if match["kind"] in ("error", "fatal error", "warning"))
    # An error inside a shared header belongs to whoever instantiated the template: clang's notes name that line.
    in_source = [int(match["line"]) for match in places if match["file"] == source.path]
    origins = (source.origin(line) for line in in_source)
    made_by = next((origin for origin in origins if origin is not None), None)
    rendered = Location(error["file"], int(error["line"]), int(error["column"]))
    return Diagnostic(error["text"], made_by or rendered, "\n".join(lines[:_SHOWN_LINES]))
