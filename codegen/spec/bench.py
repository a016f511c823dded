"""`specs/bench.yaml`: what the rows of `candle-rocm bench --random` are drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from codegen.errors import InputOutputError
from codegen.paths import repository_root
from codegen.spec.model import Model
from codegen.spec.validation import parsed

if TYPE_CHECKING:
    from pathlib import Path

BENCH = "specs/bench.yaml"

Weight = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


def _rising(ends: tuple[int, int]) -> tuple[int, int]:
    if ends[0] > ends[1]:
        raise ValueError(f"{ends[0]} is more than {ends[1]}")
    return ends


Range = Annotated[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]], AfterValidator(_rising)]
"""The least and the greatest."""


def _drawn_at_all(weights: dict[str, int]) -> dict[str, int]:
    if not any(weights.values()):
        raise ValueError("every weight is 0")
    return weights


class Family(Model):
    """Operations that are drawn alike."""

    weight: Weight
    ranges: dict[Name, Range]


class Drawing(Model):
    """The whole file."""

    elements: Range
    dtypes: Annotated[dict[Literal["f32", "f16", "bf16"], Weight], AfterValidator(_drawn_at_all)]
    views: Annotated[
        dict[Literal["contiguous", "offset", "narrow", "permute", "broadcast"], Weight], AfterValidator(_drawn_at_all)
    ]
    families: Annotated[dict[Name, Family], Field(min_length=1)]


def parse_drawing(content: bytes) -> Drawing:
    """The drawing in `content`. Raises SpecInvalid with every finding and its place."""
    return parsed(BENCH, content, Drawing, remedy=f"The top of {BENCH} explains the keys.")


def load_drawing(root: Path | None = None) -> Drawing:
    """The repository's. Raises SpecInvalid, and InputOutputError if it cannot be read."""
    try:
        content = ((root or repository_root()) / BENCH).read_bytes()
    except OSError as error:
        raise InputOutputError(f"cannot read {BENCH}: {error.strerror}", remedy="install candle-rocm again") from error
    return parse_drawing(content)
