"""`specs/acceptance.yaml`: what the project was asked for, line by line, and what shows that it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from codegen.spec.model import Model, Reason
from codegen.spec.validation import parsed
from codegen.verify.steps import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.errors import Problem
    from codegen.spec.document import Document, MappingNode

ACCEPTANCE = "specs/acceptance.yaml"

_STEPS = {step.id for step in STEPS}


class Line(Model):
    """One thing that was asked for."""

    asks: Annotated[str, Field(min_length=5)]
    verify: tuple[str, ...] = ()
    """Steps of `candle-rocm verify` that show it."""
    pytest: tuple[str, ...] = ()
    """Files with tests that show it."""
    waits: int | None = None
    """The phase that brings it."""
    missing: bool = False
    """It is not there, for the reason given."""
    reason: Reason | None = None
    """Why it is done in another way than was asked, or is missing."""


class Seed(Model):
    """One of the documents that the project was created from."""

    document: str
    about: str
    lines: Annotated[tuple[Line, ...], Field(min_length=1)]


class Acceptance(Model):
    """The whole file."""

    seeds: tuple[Seed, ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of `verify` that lines name, each once."""
        return tuple(dict.fromkeys(name for seed in self.seeds for line in seed.lines for name in line.verify))

    @property
    def files(self) -> tuple[str, ...]:
        """The files with tests that lines name, each once."""
        return tuple(dict.fromkeys(path for seed in self.seeds for line in seed.lines for path in line.pytest))


def parse_acceptance(content: bytes) -> Acceptance:
    """The lines in `content`. Raises SpecInvalid with every finding and its place."""
    return parsed(
        ACCEPTANCE,
        content,
        Acceptance,
        remedy=f"The head of {ACCEPTANCE} says what the keys mean.",
        inconsistencies=_inconsistencies,
    )


def _inconsistencies(spec: Acceptance, document: Document) -> Iterator[Problem]:
    for seed, place in zip(spec.seeds, document.mapping.mappings("seeds"), strict=True):
        for line, own in zip(seed.lines, place.mappings("lines"), strict=True):
            yield from _complaints(line, own, document)


def _complaints(line: Line, place: MappingNode, document: Document) -> Iterator[Problem]:
    for name in line.verify:
        if name not in _STEPS:
            yield document.problem(f"verify has no step '{name}'", place.mark)
    proofs = bool(line.verify or line.pytest)
    if not proofs and line.waits is None and line.reason is None:
        yield document.problem("nothing shows it: name a step, a test, a phase or a reason", place.mark)
    if line.missing and (proofs or line.waits is not None or line.reason is None):
        yield document.problem("what is missing has a reason, and nothing that shows it", place.mark)
