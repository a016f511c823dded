"""A program's folder and the port of it: planned, written, checked, taken back.

What is written is recorded as one phase in the folder's own `.candle-rocm`, by the transaction that patches Candle
(docs/decisions/0030-a-port-is-a-phase.md). So a port is planned from the files as they were before it, always.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.candle.program import find_program
from codegen.errors import Conflict, HandEdited, PhaseOrder, UsageError
from codegen.patch.changes import PhaseChanges
from codegen.paths import default_cache
from codegen.plan.port import plan_port
from codegen.record import transaction
from codegen.record.git import require_clean
from codegen.record.record import RecordHeader, digest_of, load_record, sha256
from codegen.record.texts import pristine_overlay
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating
from codegen.spec.loader import load_specs
from codegen.spec.parity import load_parity
from codegen.terminal import shown_name
from codegen.workspace.use import locked_candle, no_program, workspace_root

if TYPE_CHECKING:
    from codegen.plan.port import PortPlan
    from codegen.record.record import Record

PHASE = 0
"""The number under which a port is recorded; a program has no phases of its own."""
NAME = "port"


@dataclass(frozen=True, slots=True)
class Port:
    """A program's folder, what the port of it is, and what is recorded there."""

    root: Path
    plan: PortPlan
    record: Record | None

    @property
    def written(self) -> bool:
        """Whether a port is written there."""
        return self.record is not None


def open_port(app: str | Path, *, for_writing: bool = False) -> Port:
    """The port of the program in the folder `app`, planned from its files as they were before one was written.

    A write that was interrupted is settled first when `for_writing`.

    Raises:
        UsageError: there is no program that depends on Candle, the folder is a member of a workspace, or there is no
            lock that says on which Candle it depends.
        NotACandleTree: a manifest is no TOML, a Rust file is not UTF-8, or the lock has several Candles.
        Conflict: the record is damaged, or a write was interrupted and this is not `for_writing`.
        InputOutputError: a file cannot be read.
    """
    given = Path(app).absolute()
    root = workspace_root(given)
    if os.path.realpath(root) != os.path.realpath(given):
        raise UsageError(
            f"{app} belongs to the workspace {root}", remedy=f"port the workspace: candle-rocm port {root}"
        )
    if for_writing:
        transaction.recover(root)
    else:
        transaction.require_settled(root)
    program = find_program(root)
    if program is None:
        raise no_program(app, root)
    release = locked_candle(root)[0].version
    record = load_record(root)
    if record is not None:
        program = replace(program, overlay=pristine_overlay(root, record))
    plan = plan_port(program, load_specs(cache=default_cache() / "specs"), load_parity(), release)
    return Port(root, plan, record)


def write_port(port: Port, *, allow_dirty: bool = False) -> None:
    """Write all files of the port, or on any error none.

    Raises:
        Conflict: a port is written already that is not this one.
        HandEdited: a file was changed since the port was planned.
        DirtyTree: the folder has changes that are not committed, unless `allow_dirty`.
        InputOutputError: something cannot be written.
    """
    if port.record is not None:
        edited = port.record.condition(port.root).edited
        if edited or deviations(port):
            what = ", ".join(map(shown_name, edited or [path for path, _ in deviations(port)]))
            raise Conflict(
                f"a port is written already, and these files are not as it would be written now: {what}",
                remedy="keep them; or take the port back (candle-rocm port DIR --revert), and write it again",
            )
        return
    if not port.plan.changes:
        return
    if not allow_dirty:
        require_clean(port.root, None)
    header = RecordHeader(__version__, port.plan.release, Gating.DUMMY.value, DEFAULT_RUNTIME.value)
    phase = PhaseChanges(PHASE, NAME, "The port of a program.", port.plan.changes)
    transaction.apply_phases(port.root, [phase], header)


def revert_port(app: str | Path, *, keep_edits: bool = False) -> tuple[str, ...]:
    """Take a port back, byte for byte, and return the paths of its files; with `keep_edits`, edits by hand stay.

    Raises `PhaseOrder` where none is written, `HandEdited` for a file that somebody changed, and as
    `open_port` and `codegen.record.transaction.revert_phases`.
    """
    root = Path(app).absolute()
    transaction.recover(root)
    record = load_record(root)
    if record is None:
        raise PhaseOrder(f"no port is written to {app}", remedy="there is nothing to take back")
    edited = record.condition(root).edited
    if edited and not keep_edits:
        raise HandEdited(
            f"edited since candle-rocm wrote them: {', '.join(map(shown_name, edited))}",
            remedy="take the port back with --keep-edits, which leaves your edits where they do not overlap with it",
        )
    given = {sha256(change.after): change.after for change in open_port(app).plan.changes} if keep_edits else None
    transaction.revert_phases(root, keep_edits=keep_edits, given=given)
    return tuple(sorted(record.left()))


def deviations(port: Port) -> tuple[tuple[str, str], ...]:
    """The files that are not as the port would leave them, and what is wrong with each, sorted by path."""
    found = []
    for change in port.plan.changes:
        actual = digest_of(port.root, change.path)
        if actual is None:
            found.append((change.path, "is missing"))
        elif actual != sha256(change.after):
            is_before = change.before is not None and actual == sha256(change.before)
            found.append((change.path, "is not ported" if is_before else "differs"))
    planned = {change.path for change in port.plan.changes}
    left = port.record.left() if port.record is not None else {}
    found += [(path, "would not be written any more") for path in left if path not in planned]
    return tuple(sorted(found))
