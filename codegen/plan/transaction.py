"""Writing phases into a tree, and taking them back: all files of all these phases or none.

A transaction goes through four states, each told apart by one file below `.candle-rocm/transaction/` (see journal.py):

    staged      neither file: new contents and current ones are being written and synced; the tree is untouched, and
                recovery just deletes the folder
    prepared    journal.json: files are renamed into the tree one by one; recovery ROLLS BACK by renaming the old ones
    committed   journal.json renamed to committed.json: every file is in place; recovery finishes the bookkeeping
                (the record, what is kept of each phase, folders that taking back leaves empty)
    settled     no folder

So a process that is killed, or a machine that loses power, leaves a tree that the next command restores to exactly
before or exactly after. Rolling back, not forward: it needs no disk space (renames only) and is what an error in the
running process does as well. Files are replaced by rename, with the permission bits and owner that they had. What comes
back has a new modification time, or cargo would take what it built from the patched file for fresh.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codegen.errors import CandleRocmError, Conflict, HandEdited, InputOutputError, PhaseOrder, Problem
from codegen.plan.disk import DISK, Disk
from codegen.plan.draft import Content, Draft, Swap, missing_folders
from codegen.plan.journal import COMMITTED, DRAFT, PREPARED, Journal, JournalFile, finish, settle
from codegen.plan.lock import locked
from codegen.plan.record import AppliedPhase, Home, Record, RecordHeader, encode_record, load_record, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from codegen.plan.model import PhaseChanges


def apply_phases(
    root: Path,
    phases: Sequence[PhaseChanges],
    header: RecordHeader,
    *,
    again: bool = False,
    force: bool = False,
    disk: Disk = DISK,
) -> Record:
    """Writes one or more phases, ascending, and returns the new record: all files of all phases or, on any error, none.

    A file may hold its `before` or already its `after`; anything else is `HandEdited`, unless `force`. What reverting
    a phase gives back is what it found, in all three cases. With `again`, applied phases from the first of `phases` on
    are taken back before, in the same transaction. Raises `PhaseOrder` when one of them or a later one is applied,
    `Conflict` when applied phases had another release, gating or runtime, when a path leads out of the tree, or when
    another process is at work, and `InputOutputError` when something cannot be written.
    """
    numbers = tuple(phase.phase for phase in phases)
    assert numbers, "no phase to apply"
    assert numbers == tuple(sorted(set(numbers))), f"phases {numbers} are not ascending"
    with locked(root, disk) as home:
        settle(home, disk, force=False)
        record = load_record(root)
        present = record.phases if record is not None else ()
        stay = tuple(phase for phase in present if not (again and phase.phase >= numbers[0]))
        back = present[len(stay) :]
        _require_order(stay, numbers)
        _require_same_choices(record, stay, header, numbers[0])
        _require_nothing_kept(home, sorted(set(numbers) - {phase.phase for phase in back}))
        draft = Draft(root)
        draft.take_back(reversed(back), force=force)
        applied = draft.apply(phases, force=force)
        after = Record(header, (*stay, *applied))
        _run(home, disk, draft, back, applied, after)
        return after


def revert_phases(root: Path, *, down_to: int = 0, force: bool = False, disk: Disk = DISK) -> Record | None:
    """Takes back all phases from the last one to `down_to`, and returns the record that is left, None when no phase is.

    All or, on any error, none. Every byte and permission bit is as it was before these phases; folders that they made
    are removed where nothing else is in them. Raises `PhaseOrder` when no such phase is applied, `HandEdited` when a
    file is not what its phase left (with `force` it is overwritten, and the edits are lost), and as `apply_phases`.
    """
    with locked(root, disk) as home:
        settle(home, disk, force=False)
        record = load_record(root)
        if record is None:
            raise PhaseOrder(f"no phase is applied to {root}", remedy="there is nothing to take back")
        stay = tuple(phase for phase in record.phases if phase.phase < down_to)
        back = record.phases[len(stay) :]
        if not back:
            raise PhaseOrder(
                f"the last phase that is applied to {root} is {record.last.phase}",
                remedy=f"there is nothing to take back from phase {down_to} on",
            )
        draft = Draft(root)
        draft.take_back(reversed(back), force=force)
        left = Record(record.header, stay) if stay else None
        _run(home, disk, draft, back, (), left)
        return left


def recover(root: Path, *, force: bool = False, disk: Disk = DISK) -> bool:
    """Settles a transaction that was interrupted, and says whether there was one.

    Rolls back what was not committed, finishes what was. Every command calls this before it reads a tree; without an
    interrupted transaction it writes nothing and takes no lock. Raises `Conflict` while another process is at work, and
    `HandEdited` when a file was changed since the interruption (with `force` it is overwritten).
    """
    home = Home(root)
    if not home.exists():
        return False
    if not os.path.lexists(home.transaction) and (home.record.exists() or home.has_originals()):
        return False
    with locked(root, disk):
        return settle(home, disk, force=force) or not home.record.exists()


def _require_order(present: Sequence[AppliedPhase], numbers: Sequence[int]) -> None:
    applied = [phase.phase for phase in present]
    for number in numbers:
        if number in applied:
            raise PhaseOrder(f"phase {number} is already applied", remedy="revert it first to apply it anew")
        if applied and number < applied[-1]:
            raise PhaseOrder(
                f"phase {number} comes before phase {applied[-1]}, which is applied",
                remedy=f"revert phase {applied[-1]} first",
            )


def _require_same_choices(
    record: Record | None, present: Sequence[AppliedPhase], header: RecordHeader, first: int
) -> None:
    if record is None or not present:
        return
    for name, applied, wanted in (
        ("Candle release", record.header.release, header.release),
        ("gating", record.header.gating, header.gating),
        ("runtime", record.header.runtime, header.runtime),
    ):
        if applied != wanted:
            raise Conflict(
                f"phase {present[-1].phase} was applied with {name} {applied}, phase {first} is planned with {wanted}",
                remedy=f"plan with {name} {applied}, or revert all phases first",
            )


def _require_nothing_kept(home: Home, numbers: Sequence[int]) -> None:
    for number in numbers:
        if home.kept(number).exists():
            raise Conflict(
                f"{home.kept(number)} holds files as they were before phase {number}, which is not applied",
                remedy="restore the record that goes with it, or move that folder away",
            )


def _run(
    home: Home,
    disk: Disk,
    draft: Draft,
    back: Sequence[AppliedPhase],
    applied: Sequence[AppliedPhase],
    after: Record | None,
) -> None:
    """Takes a transaction from nothing to settled, or back to nothing."""
    work = home.transaction
    swaps = draft.swaps()
    journal = Journal(
        files=tuple(
            JournalFile(swap.path, _digest(swap.old), _digest(swap.new), _kept(swap, index))
            for index, swap in enumerate(swaps)
        ),
        made=missing_folders(home.root, (swap.target for swap in swaps if swap.new is not None)),
        dropped=draft.dropped,
        taken_back=tuple(phase.phase for phase in back),
        applied=tuple(phase.phase for phase in applied),
        recorded=after is not None,
    )
    try:
        _stage(home, disk, journal, draft, swaps, after)
        disk.replace(work / DRAFT, work / PREPARED)
        disk.sync(work)
        _perform(home, disk, journal, swaps)
        disk.replace(work / PREPARED, work / COMMITTED)
    except BaseException as error:
        try:
            settle(home, disk, force=False)
        except CandleRocmError as second:
            first = error.problems if isinstance(error, CandleRocmError) else (Problem(str(error)),)
            raise InputOutputError(
                [*first, Problem("and what was written so far could not be taken back:"), *second.problems],
                remedy="see to the cause of both; the next candle-rocm command on the tree then restores every file",
            ) from error
        if isinstance(error, InputOutputError):
            raise InputOutputError([*error.problems, Problem("the tree is as it was")], remedy=error.remedy) from error
        raise
    try:
        finish(home, disk, journal)
    except InputOutputError as error:
        raise InputOutputError(
            [*error.problems, Problem("all files of the tree are written, but not yet the record of it")],
            remedy="see to the cause; the next candle-rocm command on the tree then completes the record",
        ) from error


def _digest(content: Content | None) -> str | None:
    return None if content is None else sha256(content.data)


def _kept(swap: Swap, index: int) -> str | None:
    """Where below the folder of the transaction the old bytes of the swap `index` are put."""
    if swap.old is None:
        return None
    return f"old/{index}" if swap.original_of is None else f"before/{swap.original_of}/{swap.path}"


def _stage(home: Home, disk: Disk, journal: Journal, draft: Draft, swaps: Sequence[Swap], after: Record | None) -> None:
    """Puts everything on disk that performing, finishing and rolling back need: from there on they only rename."""
    work = home.transaction
    kept = {work / "before" / str(original.phase) / original.path: original for original in draft.originals}
    folders = {work, work / "old", work / "new", work / "before"}
    folders |= {work / "before" / str(phase) for phase in journal.applied}
    folders |= {folder for path in kept for folder in _between(work, path)}
    for folder in sorted(folders):
        disk.make_folder(folder)
    for path, original in kept.items():
        disk.write(path, original.content.data, original.content.mode, original.owner)
    for index, swap in enumerate(swaps):
        if swap.old is not None and swap.original_of is None:
            disk.write(work / "old" / str(index), swap.old.data, swap.old.mode, swap.owner)
        if swap.new is not None:
            disk.write(work / "new" / str(index), swap.new.data, swap.new.mode, swap.owner)
    if after is not None:
        disk.write(work / "record.json", encode_record(after))
    disk.write(work / DRAFT, journal.encode())
    if journal.applied and not home.originals.exists():
        disk.make_folder(home.originals)
    for folder in sorted(folders):
        disk.sync(folder)
    disk.sync(home.folder)


def _between(top: Path, bottom: Path) -> Iterator[Path]:
    """The folders below `top` that lead to `bottom`."""
    for folder in bottom.parents:
        if folder == top:
            return
        yield folder


def _perform(home: Home, disk: Disk, journal: Journal, swaps: Sequence[Swap]) -> None:
    real_root = home.root.resolve()
    for folder in journal.made:
        disk.make_folder(real_root / folder)
    for index, swap in enumerate(swaps):
        if _identity(_status(swap.target)) != _identity(swap.status):
            raise HandEdited(f"{swap.path} was changed while it was about to be replaced", remedy="run this again")
        if swap.new is None:
            disk.unlink(swap.target)
        else:
            disk.replace(home.transaction / "new" / str(index), swap.target)
    for parent in sorted({swap.target.parent for swap in swaps}):
        disk.sync(parent)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identity(status: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)
