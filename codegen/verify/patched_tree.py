"""What is verified: a Candle tree on disk, the plan's changes over it, and where the generated lines are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.patch.changes import Region

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from pathlib import Path

    from codegen.patch.changes import FileChange
    from codegen.plan.model import Plan

    Overlay = Mapping[str, bytes | None]


class OnDisk(StrEnum):
    """How the tree on disk relates to the plan."""

    UNPATCHED = "unpatched"
    """No planned change is there: all are laid over a scratch copy."""
    PARTLY = "partly applied"
    """Some first phases are there and nothing else: the rest is laid over a scratch copy."""
    APPLIED = "applied"
    """Exactly what the plan would leave."""
    OTHER = "neither unpatched nor as planned"
    """Edited by hand, or patched by another version: verified as it lies, and lines are traced as far as they fit."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A tree to verify. `verify` builds scratch copies of it and never writes into it."""

    root: Path
    on_disk: OnDisk
    patched: Overlay = field(default_factory=dict)
    """Laid over `root`, gives the patched tree."""
    pristine: Overlay = field(default_factory=dict)
    """Laid over `root`, gives the unpatched tree."""
    regions: Mapping[str, tuple[Region, ...]] = field(default_factory=dict)
    """Generated lines per file. Of files that are not as planned only the new ones, which are ours from end to end."""
    differing: tuple[str, ...] = ()
    """Planned files that are not as the whole plan leaves them, when the tree is in the state OTHER."""

    @classmethod
    def of_plan(cls, root: Path, plan: Plan) -> Subject:
        """The subject for a tree on disk, whether or not the plan is applied there."""
        changes = plan.changes
        before: Overlay = {change.path: change.before for change in changes}
        after: Overlay = {change.path: change.after for change in changes}
        found = {path: _content(root / path) for path in before}
        state = _state(plan, found, before)
        as_it_lies = state in (OnDisk.APPLIED, OnDisk.OTHER)
        odd = tuple(path for path in found if state is OnDisk.OTHER and found[path] != after[path])
        return cls(
            root=root,
            on_disk=state,
            patched={} if as_it_lies else after,
            pristine=before,
            regions=_regions(changes, odd, found),
            differing=odd,
        )


def _regions(changes: Iterable[FileChange], odd: Container[str], found: Overlay) -> dict[str, tuple[Region, ...]]:
    """Where the plan's lines are; in an edited file nobody knows, unless the whole file is new."""
    regions = {}
    for change in changes:
        content = found[change.path]
        if change.path not in odd:
            regions[change.path] = change.regions
        elif change.before is None and change.regions and content is not None:
            regions[change.path] = (Region(1, content.count(b"\n") + 1, change.regions[0].origin),)
    return regions


def _state(plan: Plan, found: Overlay, before: Overlay) -> OnDisk:
    """Compare the files on disk with what the phases leave one after another."""
    current = dict(before)
    matching = [0] if found == current else []
    for number, phase in enumerate(plan.phases, start=1):
        current |= {change.path: change.after for change in phase.changes}
        if found == current:
            matching.append(number)
    if not matching:
        return OnDisk.OTHER
    if matching[-1] == len(plan.phases):
        return OnDisk.APPLIED
    return OnDisk.UNPATCHED if matching[-1] == 0 else OnDisk.PARTLY


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
