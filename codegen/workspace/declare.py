"""Declaring edits: what somebody changed in files that candle-rocm wrote, and means to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import CandleRocmError, Conflict, PhaseOrder, Problem, UsageError
from codegen.patch.undo import undo_edits
from codegen.record import transaction
from codegen.record.record import Declared, text_of
from codegen.record.record import sha256 as digest
from codegen.record.texts import Texts
from codegen.terminal import shown_name
from codegen.workspace.analysis import analyse
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codegen.record.record import Record
    from codegen.workspace.workspace import Workspace


def declare(workspace: Workspace, files: Sequence[str]) -> tuple[str, ...]:
    """Declare the edits in these files, by default in all that were edited by hand; their paths, sorted.

    Raises `UsageError` for a file that candle-rocm did not write, `Conflict` for one that was not edited, that is gone,
    or whose text without the edits cannot be told, and as `transaction.declare_edits`.
    """
    record = _record(workspace)
    wanted = sorted(set(files)) if files else _edited(workspace, record)
    left = record.left()
    _require_known(wanted, left, "candle-rocm did not write")
    texts: Texts | None = None
    declared = {path: each for path, each in record.own.items() if path not in wanted}
    problems = []
    for path in wanted:
        own = text_of(workspace.root, path)
        if own is None:
            problems.append(Problem(f"{shown_name(path)} is not there: only what is in a file can be declared"))
            continue
        if digest(own) == left[path]:
            problems.append(Problem(f"{shown_name(path)} is as candle-rocm left it: there is nothing to declare"))
            continue
        texts = texts or Texts(workspace.root, record, planned_texts(workspace))
        base = texts.get(path, left[path])
        if base is None:
            problems.append(Problem(f"{shown_name(path)}: the text that candle-rocm wrote there cannot be found"))
            continue
        declared[path] = Declared(path, left[path], digest(own), undo_edits(base, own))
    if problems:
        raise Conflict(
            problems,
            remedy="leave out files without edits, and restore missing files (git checkout); candle-rocm's own text is "
            "found in git's objects if it was committed, or made again by the version that applied it",
        )
    if wanted:
        transaction.declare_edits(workspace.root, tuple(declared.values()))
    return tuple(wanted)


def withdraw(workspace: Workspace, files: Sequence[str]) -> tuple[str, ...]:
    """Declare the edits in these files, by default in all, no more; the files stay as they are. Their paths, sorted.

    Raises `UsageError` for a file that has no declared edits, and as `transaction.declare_edits`.
    """
    record = _record(workspace)
    wanted = sorted(set(files)) if files else sorted(record.own)
    _require_known(wanted, record.own, "there are no declared edits in")
    if wanted:
        transaction.declare_edits(
            workspace.root, tuple(each for path, each in record.own.items() if path not in wanted)
        )
    return tuple(wanted)


def _record(workspace: Workspace) -> Record:
    if workspace.record is None:
        raise PhaseOrder(
            "no phase is applied: there is nothing that edits could be told from",
            remedy="edits of a pristine tree need no declaring; apply first",
        )
    return workspace.record


def _edited(workspace: Workspace, record: Record) -> list[str]:
    return [path for path in record.hand_edited(workspace.root) if text_of(workspace.root, path) is not None]


def _require_known(paths: Sequence[str], known: Mapping[str, object], what: str) -> None:
    unknown = [Problem(f"{what} {shown_name(path)}") for path in paths if path not in known]
    if unknown:
        raise UsageError(unknown, remedy="give paths relative to the tree, as `candle-rocm status` lists them")


def planned_texts(workspace: Workspace) -> Mapping[str, bytes]:
    """What the phases left, by hash, where this version would write the same; empty where it cannot plan."""
    try:
        analysis = analyse(
            open_workspace(workspace.root),
            phases=workspace.applied,
            gating=workspace.gating(None),
            runtime=workspace.runtime(None),
        )
    except CandleRocmError:
        return {}
    return {digest(change.after): change.after for change in analysis.plan.changes}
