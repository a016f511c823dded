"""The plan and the decisions behind it: frozen data that `generate`, `diff`, `apply`, `check` and `report` all read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.patch.changes import FileChange, PhaseChanges

if TYPE_CHECKING:
    from collections.abc import Collection

    from codegen.syntax.site import Site


class State(StrEnum):
    """What the table says about a site."""

    HANDLED = "handled"
    PENDING = "not applied"
    LEFT = "left alone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """One site and what the specs say about it."""

    site: Site
    crate: str
    state: State
    rule: str = ""
    phase: int | None = None
    """The phase that the site belongs to by theme."""
    lands: int | None = None
    """The phase that writes its final form."""
    stand_in: int | None = None
    """The earlier phase that writes a typed error in its place, because rustc demands an arm by then."""
    verb: str = ""
    reason: str = ""
    inside: bool = False
    """Whether the site lies in another one, whose edit covers it."""
    fallback: bool = False
    """Whether a rule decided that is meant for what releases yet unknown may add."""
    review: str = ""
    """What a person should look at, though a rule decides: the mirrored text answers as CUDA does."""


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
