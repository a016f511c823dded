"""`specs/parity.yaml`: what ROCm's side has for public items of CUDA's side whose renamed form it lacks, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from codegen.errors import InputOutputError, SpecInvalid
from codegen.paths import repository_root
from codegen.release import in_range, precedence
from codegen.spec.document import MappingNode, read_document
from codegen.spec.model import Model, OneOrMore, Reason, VersionRange
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from codegen.errors import Location, Problem
    from codegen.spec.document import Document

PARITY = "specs/parity.yaml"
REMEDY = f"The top of {PARITY} explains the keys."

Uses = Annotated[int, Field(ge=1)]


class ParityCrate(Model):
    """A crate whose public items are compared."""

    name: str
    whole: bool = False
    """Whether all of its items are CUDA's, whatever they are called."""


class Features(Model):
    """Cargo features that are on."""

    cuda: Annotated[OneOrMore, Field(min_length=1)]
    """On CUDA's side."""
    rocm: Annotated[OneOrMore, Field(min_length=1)]
    """On ROCm's side."""


class Further(VersionRange):
    """An item of CUDA's that neither its name nor a `cfg` shows to be one."""

    item: str
    reason: Reason


class Answer(VersionRange):
    """What there is on ROCm's side for items whose renamed form is not there, or has another signature.

    Exactly one of `form` (with `how`), `none` and `missing` is given.
    """

    within: str = ""
    """The path in front of the items' names: a type, a trait or a module."""
    item: Annotated[OneOrMore, Field(min_length=1)]
    form: OneOrMore = ()
    """Paths of the public items of ROCm's side that do the work."""
    how: Reason | None = None
    """In what they differ from CUDA's."""
    none: Reason | None = None
    """Why there is no counterpart, and will be none."""
    missing: Reason | None = None
    """What a counterpart waits for."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The items, in full."""
        return tuple(f"{self.within}::{name}" if self.within else name for name in self.item)

    @model_validator(mode="after")
    def _one_answer(self) -> Answer:
        if sum((bool(self.form), self.none is not None, self.missing is not None)) != 1:
            raise ValueError("say one of `form`, `none` and `missing`")
        if bool(self.form) != (self.how is not None):
            raise ValueError("`form` and `how` go together")
        return self


class ParitySpec(Model):
    """The whole file."""

    crates: Annotated[tuple[ParityCrate, ...], Field(min_length=1)]
    names: Annotated[OneOrMore, Field(min_length=1)]
    """An item whose path or signature has one of these, in any case, is CUDA's."""
    features: Features
    further: tuple[Further, ...] = ()
    uses: Annotated[dict[str, Uses], Field(default_factory=dict)]
    """How many of the 24 programs that were looked at use an item."""
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """An answer for one item, and where the file names the item."""

    path: str
    answer: Answer
    place: Location


@dataclass(frozen=True, slots=True)
class Parity:
    """The file, with the places of what it says."""

    spec: ParitySpec
    answers: tuple[Placed, ...]
    further: tuple[tuple[Further, Location], ...]
    uses: tuple[tuple[str, Location], ...]

    def answers_in(self, release: str) -> dict[str, Placed]:
        """The answers that hold for a release, by the path of their item."""
        return {
            placed.path: placed
            for placed in self.answers
            if in_range(release, placed.answer.since, placed.answer.until)
        }

    def further_in(self, release: str) -> Iterator[tuple[Further, Location]]:
        """The further items of a release."""
        return (each for each in self.further if in_range(release, each[0].since, each[0].until))


def parse_parity(content: bytes) -> Parity:
    """The answers in `content`. Raises SpecInvalid with every finding and its place."""
    document = read_document(PARITY, content)
    spec, problems = validate(document, ParitySpec)
    findings = [*document.problems, *problems]
    if findings or spec is None:
        raise SpecInvalid(findings, remedy=REMEDY)
    parity = Parity(spec, tuple(_answers(spec, document)), tuple(_further(spec, document)), tuple(_uses(document)))
    findings += _twice(parity.answers)
    if findings:
        raise SpecInvalid(findings, remedy=REMEDY)
    return parity


def load_parity(root: Path | None = None) -> Parity:
    """The answers of a repository. Raises as `parse_parity`, and InputOutputError where there is no such file."""
    try:
        return parse_parity(((root or repository_root()) / PARITY).read_bytes())
    except OSError as error:
        raise InputOutputError(f"cannot read {PARITY}: {error.strerror}", remedy="reinstall candle-rocm") from error


def _answers(spec: ParitySpec, document: Document) -> Iterator[Placed]:
    for answer, node in zip(spec.answers, document.mapping.mappings("answers"), strict=True):
        for path, name in zip(answer.paths, node.scalars("item"), strict=True):
            yield Placed(path, answer, _place(document, name.mark.line, name.mark.column))


def _further(spec: ParitySpec, document: Document) -> Iterator[tuple[Further, Location]]:
    for further, node in zip(spec.further, document.mapping.mappings("further"), strict=True):
        yield further, _place(document, node.mark.line, node.mark.column)


def _uses(document: Document) -> Iterator[tuple[str, Location]]:
    node = document.mapping.get("uses")
    for entry in node.entries if isinstance(node, MappingNode) else ():
        yield entry.key, _place(document, entry.mark.line, entry.mark.column)


def _place(document: Document, line: int, column: int) -> Location:
    from codegen.errors import Location

    return Location.in_text(document.file, document.text, line, column)


def _twice(answers: Sequence[Placed]) -> Iterator[Problem]:
    """Items that two answers are about, in the same release, and ranges without a release."""
    from codegen.errors import Problem

    seen: dict[str, list[Placed]] = {}
    for placed in answers:
        since, until = placed.answer.since, placed.answer.until
        if since is not None and until is not None and precedence(since) > precedence(until):
            yield Problem(f"no release lies between {since} and {until}", placed.place)
        for other in seen.get(placed.path, ()):
            if _overlap(placed.answer, other.answer):
                yield Problem(f"line {other.place.line} answers {placed.path}, too", placed.place)
        seen.setdefault(placed.path, []).append(placed)


def _overlap(one: VersionRange, other: VersionRange) -> bool:
    """Whether a release can lie in both ranges."""
    ends = ((one.since, other.until), (other.since, one.until))
    return all(since is None or until is None or precedence(since) <= precedence(until) for since, until in ends)
