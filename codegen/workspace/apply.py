"""Applying, checking and taking back: the plan on one side, the tree and its record on the other."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.errors import Conflict, HandEdited, PhaseOrder
from codegen.plan.build import phase_specs
from codegen.record import transaction
from codegen.record.git import require_clean
from codegen.record.record import RecordHeader, digest_of, sha256
from codegen.terminal import shown_name
from codegen.workspace.analysis import analyse
from codegen.workspace.declare import planned_texts
from codegen.workspace.strays import strays
from codegen.workspace.workspace import other_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.plan.model import Plan
    from codegen.record.record import Declared, Record
    from codegen.spec.kinds import Gating, Runtime
    from codegen.workspace.analysis import Analysis
    from codegen.workspace.workspace import Workspace


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
    runtime: Runtime,
    leave_unknown: bool = False,
    allow_dirty: bool = False,
    force: bool = False,
    announce: transaction.Announce = transaction.unannounced,
) -> Analysis:
    """Write the phases that are not applied yet, ascending, and return the analysis with the plan of these alone.

    On any error none of them is written. Applied phases of which files are as before, as git leaves them after a
    checkout or stash, are written again and are among those returned; so are, with `force`, those whose files were
    edited by hand. Declared edits stay. Raises `PhaseOrder` for a phase whose predecessors are not applied,
    `HandEdited`, `DirtyTree`, `Conflict` when what is applied came from other specs or has another gating or runtime,
    and as `analyse` and `transaction.apply_phases`.
    """
    root, record = workspace.root, workspace.record
    wanted = _wanted(workspace, phases)
    condition = record.condition(root) if record is not None else None
    edited = condition.edited if condition is not None else ()
    if edited and not force:
        raise HandEdited(
            f"edited since candle-rocm wrote them: {', '.join(map(shown_name, edited))}",
            remedy="declare the edits with `candle-rocm declare` to keep them, or apply with --force to overwrite "
            "them, which keeps a backup",
        )
    if not allow_dirty:
        require_clean(root, record)
    _refuse_other_choices(record, gating, runtime)
    analysis = analyse(workspace, phases=wanted, gating=gating, runtime=runtime, leave_unknown=leave_unknown)
    plan = analysis.plan
    _refuse_stale(record, plan)
    again = _phases_to_repeat(record, (*edited, *(condition.taken_back if condition is not None else ())))
    todo = tuple(phase for phase in plan.phases if phase.phase in again or phase.phase not in workspace.applied)
    if todo:
        header = RecordHeader(__version__, plan.release, plan.gating, plan.runtime)
        transaction.apply_phases(root, todo, header, again=bool(again), force=force, announce=announce)
    elif record is not None and record.is_old:
        transaction.declare_edits(root, record.declared)
    return replace(analysis, plan=replace(plan, phases=todo))


def revert_phases(
    workspace: Workspace,
    *,
    down_to: int | None = None,
    force: bool = False,
    keep_edits: bool = False,
    announce: transaction.Announce = transaction.unannounced,
) -> tuple[int, ...]:
    """Take back every applied phase from the last one down to `down_to` (all by default); the numbers, in that order.

    Declared edits are kept, with `keep_edits` all edits, what was merged into the tree among them. Raises `PhaseOrder`
    when there is nothing to revert, `Conflict` where another release was merged, unless `keep_edits` (not even
    `force` writes an old release's files over a merge), and as `transaction.revert_phases`.
    """
    wanted = [number for number in reversed(workspace.applied) if down_to is None or number >= down_to]
    if not wanted:
        what = "no phase" if down_to is None else f"phase {down_to}"
        verb = "is applied" if down_to is None else "is not applied"
        raise PhaseOrder(f"{what} {verb}: there is nothing to revert", remedy="`candle-rocm status` shows what is")
    if workspace.merged and workspace.record is not None and not (keep_edits and not force):
        raise other_release(workspace.root, workspace.record, workspace.tree.release)
    given = planned_texts(workspace) if keep_edits else None
    transaction.revert_phases(
        workspace.root, down_to=wanted[-1], force=force, keep_edits=keep_edits, given=given, announce=announce
    )
    return tuple(wanted)


def deviations(
    workspace: Workspace, *, phases: Sequence[int], gating: Gating, runtime: Runtime, leave_unknown: bool = False
) -> tuple[Deviation, ...]:
    """The files that are not what apply would leave, and those that it would not leave, sorted by path.

    Raises as `analyse`.
    """
    wanted = set(phases) or set(workspace.applied) or {spec.phase for spec in phase_specs(workspace.specs, None)}
    required = {number for spec in workspace.specs.phases if spec.phase in wanted for number in spec.requires}
    together = sorted(wanted | required)
    plan = analyse(workspace, phases=together, gating=gating, runtime=runtime, leave_unknown=leave_unknown).plan
    expected = {change.path: change.after for change in plan.changes}
    own = workspace.record.own if workspace.record is not None else {}
    found = []
    for path, content in expected.items():
        actual = digest_of(workspace.root, path)
        if path in own:
            if (problem := _of_declared(own[path], sha256(content), actual)) is not None:
                found.append(Deviation(path, problem))
        elif actual is None:
            is_there = os.path.lexists(workspace.root / path)
            found.append(Deviation(path, "is no file of the tree" if is_there else "is missing"))
        elif actual != sha256(content):
            pristine = workspace.tree.exists(path) and actual == sha256(workspace.tree.read(path))
            found.append(Deviation(path, "is not applied" if pristine else "differs"))
    known = workspace.record.left() if workspace.record is not None else {}
    found += [Deviation(path, "would not be written any more") for path in known if path not in expected]
    new = {change.path for change in plan.changes if change.before is None}
    found += [Deviation(path, problem) for path, problem in strays(workspace.tree, new, {*expected, *known})]
    return tuple(sorted(found, key=lambda deviation: deviation.path))


def _of_declared(declared: Declared, expected: str, actual: str | None) -> str | None:
    """What is wrong with a file of declared edits."""
    if actual is None:
        return "is missing"
    if expected != declared.base:
        return "has declared edits of a text that apply would not write"
    if actual == declared.base:
        return "lacks the declared edits"
    return None if actual == declared.own else "differs from the declared edits"


def _wanted(workspace: Workspace, phases: Sequence[int]) -> tuple[int, ...]:
    """The phases to plan: those asked for and those applied. Asked-for phases must not jump over one."""
    if not phases:
        return tuple(spec.phase for spec in phase_specs(workspace.specs, None))
    ready = {spec.phase: spec for spec in phase_specs(workspace.specs, None)}
    have = {*workspace.applied, *phases}
    for number in sorted(ready.keys() & set(phases)):
        missing = [required for required in ready[number].requires if required not in have]
        if missing:
            raise PhaseOrder(
                f"phase {number} needs phase {missing[0]}, which is not applied",
                remedy=f"candle-rocm apply --phase {missing[0]}, or leave out --phase to apply all",
            )
    return tuple(sorted(have))


def _refuse_other_choices(record: Record | None, gating: Gating, runtime: Runtime) -> None:
    if record is None:
        return
    numbers = ", ".join(str(phase.phase) for phase in record.phases)
    for name, applied, wanted in (
        ("gating", record.header.gating, gating.value),
        ("runtime", record.header.runtime, runtime.value),
    ):
        if applied != wanted:
            raise Conflict(
                f"applied with {name} {applied}: phase {numbers}; it cannot be mixed with {wanted}",
                remedy=f"leave out --{name} to continue with {applied}, or revert everything: candle-rocm revert",
            )


def _refuse_stale(record: Record | None, plan: Plan) -> None:
    """What is applied must be what this version would write, or the next phase would build on other text."""
    planned = {phase.phase: {c.path: sha256(c.after) for c in phase.changes} for phase in plan.phases}
    for phase in record.phases if record is not None else ():
        if planned.get(phase.phase) != {file.path: file.after for file in phase.files}:
            raise Conflict(
                f"phase {phase.phase} was applied by other specs, or by another version of candle-rocm",
                remedy="candle-rocm revert, then apply again",
            )


def _phases_to_repeat(record: Record | None, edited: Sequence[str]) -> frozenset[int]:
    """The applied phases from the earliest one on that left one of the edited files as it should be."""
    if record is None or not edited:
        return frozenset()
    left_by = {file.path: phase.phase for phase in record.phases for file in phase.files}
    earliest = min(left_by[path] for path in edited)
    return frozenset(phase.phase for phase in record.phases if phase.phase >= earliest)
