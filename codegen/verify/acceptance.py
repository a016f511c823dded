"""`specs/acceptance.yaml`: what the project was asked for, line by line, and what shows that it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from codegen.errors import SpecInvalid
from codegen.spec.document import read_document
from codegen.spec.model import Model, Reason
from codegen.spec.validation import validate
from codegen.verify.steps import STEPS, Judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.errors import Problem
    from codegen.spec.document import Document, MappingNode

ACCEPTANCE = "specs/acceptance.yaml"
DOCUMENTED = "docs/acceptance.md"
"""Made from it by templates/docs/acceptance.md.j2."""

_STEPS = {step.id: step for step in STEPS}
_ON_THE_DEVICE = ("tests/backend", "tests/emulator", "tests/kernels")
"""Tests of these folders run on the emulated device, or on a GPU where one answers."""

State = Literal["on the emulated device", "tested", "compiled", "waits for a phase", "done otherwise", "not there"]


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

    @property
    def state(self) -> State:
        """What may be said of it: the strongest of what its proofs show."""
        if self.missing:
            return "not there"
        if self.waits is not None:
            return "waits for a phase"
        steps = [_STEPS[name] for name in self.verify]
        if any(step.device for step in steps) or any(path.startswith(_ON_THE_DEVICE) for path in self.pytest):
            return "on the emulated device"
        if self.pytest or any(step.judge is Judge.TESTS for step in steps):
            return "tested"
        return "compiled" if steps else "done otherwise"

    @property
    def commands(self) -> tuple[str, ...]:
        """What shows it, as one types it."""
        shown = [f"candle-rocm verify CANDLE --only {name}" for name in self.verify]
        return (*shown, *(f"pytest {path}" for path in self.pytest))


class Seed(Model):
    """One of the documents that the project was created from."""

    document: str
    about: str
    lines: Annotated[tuple[Line, ...], Field(min_length=1)]


class Acceptance(Model):
    """The whole file."""

    seeds: tuple[Seed, ...]

    def count(self, state: State) -> int:
        """How many lines are in a state."""
        return sum(line.state == state for seed in self.seeds for line in seed.lines)


def parse_acceptance(content: bytes) -> Acceptance:
    """The lines in `content`. Raises SpecInvalid with every finding and its place."""
    document = read_document(ACCEPTANCE, content)
    spec, problems = validate(document, Acceptance)
    findings = [*document.problems, *problems]
    if spec is not None:
        findings += _inconsistencies(spec, document)
    if findings or spec is None:
        raise SpecInvalid(findings, remedy=f"The head of {ACCEPTANCE} says what the keys mean.")
    return spec


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
