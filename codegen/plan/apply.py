"""Applying, checking and taking back: the plan on one side, the tree and its record on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.errors import CandleRocmError, Conflict, HandEdited, PhaseOrder
from codegen.plan.analysis import analyse
from codegen.plan.build import phase_specs
from codegen.plan.git import require_clean
from codegen.plan.record import RecordHeader, digest_of, sha256
from codegen.plan.transaction import apply_phase, revert_phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.plan.model import PhaseChanges, Plan
    from codegen.plan.workspace import Workspace
    from codegen.spec.model import Gating

RUNTIME = "rocm-rs"
"""How the generated backend reaches HIP; the only choice so far."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A file that is not what apply would leave."""

    path: str
    problem: str


def apply_phases(
    workspace: Workspace,
    *,
    phases: Sequence[int],
    gating: Gating,
    allow_dirty: bool = False,
    force: bool = False,
) -> tuple[PhaseChanges, ...]:
    """Write the phases that are not applied yet, ascending, and return them; on any error none of them is written.

    Raises `PhaseOrder` for a phase whose predecessors are not applied, `DirtyTree`, `HandEdited`, `Conflict` when
    what is applied came from other specs, and as `analyse` and `apply_phase`.
    """
    root, record = workspace.root, workspace.record
    wanted = _wanted(workspace, phases)
    if not allow_dirty:
        require_clean(root, record)
    edited = record.hand_edited(root) if record is not None else ()
    if edited and not force:
        raise HandEdited(
            f"changed since candle-rocm wrote them: {', '.join(edited)}",
            remedy="move the edits elsewhere and `candle-rocm revert --force`, or apply with --force to overwrite them",
        )
    plan = analyse(workspace, phases=wanted, gating=gating).plan
    _refuse_stale(workspace, plan)
    header = RecordHeader(__version__, plan.release, plan.gating, RUNTIME)
    done: list[PhaseChanges] = []
    try:
        for phase in plan.phases:
            if phase.phase not in workspace.applied:
                apply_phase(root, phase.phase, phase.changes, header, force=force)
                done.append(phase)
    except (CandleRocmError, KeyboardInterrupt):
        for _ in done:
            revert_phase(root, force=True)
        raise
    return tuple(done)


def revert_phases(workspace: Workspace, *, down_to: int | None = None, force: bool = False) -> tuple[int, ...]:
    """Take back every applied phase from the last one down to `down_to` (all by default); the numbers, in that order.

    Raises `PhaseOrder` when there is nothing to take back, and `HandEdited` unless `force`.
    """
    wanted = [number for number in reversed(workspace.applied) if down_to is None or number >= down_to]
    if not wanted:
        what = "no phase" if down_to is None else f"phase {down_to}"
        verb = "is applied" if down_to is None else "is not applied"
        raise PhaseOrder(f"{what} {verb}: there is nothing to take back", remedy="`candle-rocm status` shows what is")
    assert workspace.record is not None
    edited = workspace.record.hand_edited(workspace.root)
    if edited and not force:
        raise HandEdited(
            f"changed since candle-rocm wrote them: {', '.join(edited)}",
            remedy="move the edits elsewhere, or revert with --force to lose them",
        )
    for _ in wanted:
        revert_phase(workspace.root, force=force)
    return tuple(wanted)


def deviations(workspace: Workspace, *, phases: Sequence[int], gating: Gating) -> tuple[Deviation, ...]:
    """The files that are not what apply would leave, sorted by path."""
    wanted = tuple(phases) or workspace.applied or tuple(spec.phase for spec in phase_specs(workspace.specs, None))
    closed = {
        number for spec in workspace.specs.phases if spec.phase in wanted for number in (*spec.requires, spec.phase)
    }
    plan = analyse(workspace, phases=sorted(closed), gating=gating).plan
    expected = {change.path: change.after for change in plan.changes}
    found = []
    for path, content in expected.items():
        actual = digest_of(workspace.root / path)
        if actual is None:
            found.append(Deviation(path, "is missing"))
        elif actual != sha256(content):
            pristine = workspace.tree.exists(path) and actual == sha256(workspace.tree.read(path))
            found.append(Deviation(path, "is not applied" if pristine else "differs"))
    known = workspace.record.left() if workspace.record is not None else {}
    found += [Deviation(path, "would not be written any more") for path in known if path not in expected]
    return tuple(sorted(found, key=lambda deviation: deviation.path))


def _wanted(workspace: Workspace, phases: Sequence[int]) -> tuple[int, ...]:
    """The phases to plan: those asked for and those applied. Asked-for phases must not jump over one."""
    if not phases:
        return tuple(spec.phase for spec in phase_specs(workspace.specs, None))
    by_number = {spec.phase: spec for spec in workspace.specs.phases}
    have = {*workspace.applied, *phases}
    for number in sorted(phases):
        missing = [required for required in by_number[number].requires if required not in have]
        if missing and by_number[number].applied:
            raise PhaseOrder(
                f"phase {number} needs phase {missing[0]}, which is not applied",
                remedy=f"candle-rocm apply --phase {missing[0]}, or leave --phase away to apply all",
            )
    return tuple(sorted(have))


def _refuse_stale(workspace: Workspace, plan: Plan) -> None:
    """What is applied must be what this version would write, or the next phase would build on other text."""
    if workspace.record is None:
        return
    applied = {phase.phase: {file.path: file.after for file in phase.files} for phase in workspace.record.phases}
    for phase in plan.phases:
        if phase.phase not in applied:
            continue
        planned = {change.path: sha256(change.after) for change in phase.changes}
        if planned != applied[phase.phase] and workspace.record.header.gating == plan.gating:
            raise Conflict(
                f"phase {phase.phase} was applied by other specs, or by another version of candle-rocm",
                remedy="candle-rocm revert, then apply again",
            )
