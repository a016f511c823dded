"""`specs/messages.yaml`: what each kind of error means, and what to do about it beyond what its message says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from codegen.spec.model import Model, Reason
from codegen.spec.validation import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.errors import Problem
    from codegen.spec.document import Document

MESSAGES = "specs/messages.yaml"


class Advice(Model):
    """One kind of error."""

    code: Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)*$")]
    name: str
    meaning: Reason
    do: Reason


class Advices(Model):
    """The whole file."""

    tool: tuple[Advice, ...]
    """Of candle-rocm; the name is what messages begin with."""
    build: tuple[Advice, ...]
    """Of what runs when a patched Candle is built."""
    backend: tuple[Advice, ...]
    """Of the ROCm backend; the name is a variant of `RocmError`."""


def parse_messages(content: bytes) -> Advices:
    """The kinds of errors in `content`. Raises SpecInvalid with every finding and its place."""
    return parsed(
        MESSAGES,
        content,
        Advices,
        remedy=f"The top of {MESSAGES} explains the keys.",
        inconsistencies=_inconsistencies,
    )


def _inconsistencies(spec: Advices, document: Document) -> Iterator[Problem]:
    """What no single entry shows."""
    seen: set[str] = set()
    for key in ("tool", "build", "backend"):
        for advice, place in zip(getattr(spec, key), document.mapping.mappings(key), strict=True):
            if advice.code in seen:
                yield document.problem(f"the code '{advice.code}' is there twice", place.mark)
            seen.add(advice.code)
