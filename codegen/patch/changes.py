"""Changes of files: what is put where, and why; phase by phase."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Why a piece of generated text exists."""

    rule: str
    """Rule id, such as `core.dispatch`."""
    spec: str
    """`specs/phases/1-core.yaml:42`, relative to the repository."""
    phase: int
    template: str | None = None
    """Path below `templates/`, or None where the text is mirrored from its CUDA sibling."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace bytes `start..end` of a pristine file by `text` (an insertion when they are equal)."""

    path: str
    """Relative to the Candle tree, with forward slashes."""
    start: int
    end: int
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Region:
    """Lines `first..last` (from 1, inclusive) of a changed file, and why they are there."""

    first: int
    last: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after a step: a phase (then `before` is what the phases before it left) or all of a plan."""

    path: str
    before: bytes | None
    """None when the file is new."""
    after: bytes
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class PhaseChanges:
    """What one phase does to the tree that the phases before it left."""

    phase: int
    name: str
    summary: str
    changes: tuple[FileChange, ...]
