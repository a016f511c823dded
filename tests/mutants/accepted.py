"""Mutants that may survive, because no result tells them from the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from codegen.errors import SpecInvalid
from codegen.spec.document import read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mutants.mutant import Mutant
    from mutants.results import Result


class Entry(Model):
    """Mutants of one line, whose number may change."""

    file: str
    line: str
    """The source line, without the blanks around it."""
    change: str
    """`replace < with <= in function`."""
    reason: Annotated[str, Field(min_length=12)]


class Document(Model):
    """The file accepted.yaml."""

    accepted: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Review:
    """Survivors that are accepted, and entries that accept nothing any more."""

    accepted: Mapping[str, str]
    """The reason, by the mutant's name."""
    complaints: tuple[str, ...]


def read_accepted(path: Path) -> tuple[Entry, ...]:
    """The entries. Raises SpecInvalid with all findings."""
    document = read_document(f"tests/mutants/{path.name}", path.read_bytes())
    found, findings = validate(document, Document)
    problems = [*document.problems, *findings]
    if problems or found is None:
        raise SpecInvalid(problems, remedy="tests/mutants/accepted.py says what the keys mean.")
    return found.accepted


def reviewed(
    entries: Iterable[Entry], mutants: Iterable[Mutant], lines: Mapping[str, list[str]], results: Mapping[str, Result]
) -> Review:
    """Which survivors are accepted. `mutants` are all there are, `lines` the files' lines, `results` of those tried."""
    by_place: dict[tuple[str, str, str], list[Mutant]] = {}
    for mutant in mutants:
        line = lines[mutant.file][mutant.line - 1].strip()
        by_place.setdefault((mutant.file, line, mutant.change), []).append(mutant)
    accepted: dict[str, str] = {}
    complaints = []
    for entry in entries:
        place = f"{entry.file}: {entry.change}: {entry.line}"
        meant = by_place.get((entry.file, entry.line, entry.change), [])
        if not meant:
            complaints.append(f"accepted, but there is no such mutant: {place}")
        tried = [results[mutant.name] for mutant in meant if mutant.name in results]
        if tried and not any(result.verdict.survived for result in tried):
            complaints.append(f"accepted, but it does not survive ({tried[0].verdict}): {place}")
        accepted |= {mutant.name: entry.reason for mutant in meant}
    return Review(accepted, tuple(complaints))
