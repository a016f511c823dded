"""The plan: frozen data that `generate`, `diff`, `apply`, `check` and `report` all read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


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
class NewFile:
    """A file that pristine Candle does not have."""

    path: str
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


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that generating does, decided before anything is written."""

    release: str
    gating: str
    runtime: str
    phases: tuple[PhaseChanges, ...]

    def only(self, phases: Collection[int]) -> Plan:
        """The changes of these phases only, on top of the others; all when `phases` is empty."""
        return replace(self, phases=tuple(phase for phase in self.phases if not phases or phase.phase in phases))

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """All phases together: each file as it was before the first and is after the last."""
        merged: dict[str, FileChange] = {}
        for phase in self.phases:
            for change in phase.changes:
                first = merged.get(change.path)
                before = first.before if first is not None else change.before
                merged[change.path] = FileChange(change.path, before, change.after, change.regions)
        return tuple(merged[path] for path in sorted(merged))
