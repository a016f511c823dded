"""Writing phases into a tree, and taking them back: all files of all these phases or none.

A transaction goes through four states, each told apart by one file below `.candle-rocm/transaction/` (see journal.py):

    staged      neither file: new contents and current ones are being written and synced; the tree is untouched, and
                recovery just deletes the folder
    prepared    journal.json: files are renamed into the tree one by one; recovery ROLLS BACK by renaming the old ones
    committed   journal.json renamed to committed.json: every file is in place; recovery finishes the bookkeeping
                (the record, what is kept of each phase, folders that taking back leaves empty)
    settled     no folder

So a process that is killed, or a machine that loses power, leaves a tree that the next apply or revert restores to
exactly before or exactly after; commands that only read refuse it until then. Rolling back, not forward: it needs no
disk space (renames only) and is what an error in the running process does as well. Files are replaced by rename (see
exchange.py), with the permission bits, owner and extended attributes that they had; one with several names (hard links)
is refused, since under the others the old bytes would stay. What comes back has a new modification time, or cargo
would take what it built from the patched file for fresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import CandleRocmError, Conflict, HandEdited, InputOutputError, PhaseOrder, Problem
from codegen.plan.disk import DISK, Disk
from codegen.plan.draft import Content, Draft, Swap, missing_folders
from codegen.plan.exchange import put, take_away
from codegen.plan.journal import COMMITTED, DRAFT, PREPARED, Journal, JournalFile, finish, settle
from codegen.plan.lock import busy, is_locked, locked
from codegen.plan.record import (
    AppliedPhase,
    Home,
    Record,
    RecordHeader,
    encode_record,
    load_record,
    read_document,
    reading,
    sha256,
)

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


def require_settled(root: Path) -> None:
    """Raises `Conflict` where a transaction was interrupted: what is read there would be half of it.

    Nothing is written: a command that only reads leaves the settling to one that writes.
    """
    if not Home.of(root).is_interrupted():
        return
    if is_locked(root):
        raise busy(root)
    raise Conflict(
        f"an apply or revert of {root} was interrupted, and waits to be settled",
        remedy="settle it with `candle-rocm revert`, which gives back what was before, or go on with "
        "`candle-rocm apply`; other commands write nothing",
    )


def recover(root: Path, *, force: bool = False, disk: Disk = DISK) -> bool:
    """Settles a transaction that was interrupted, and says whether there was one.

    Rolls back what was not committed, finishes what was. Commands that write call this before they read a tree; without
    an interrupted transaction it writes nothing and takes no lock. Raises `Conflict` while another process is at work
    and for a journal that is not ours, and `HandEdited` when a file was changed since the interruption (with `force` it
    is overwritten).
    """
    home = Home.of(root)
    if not home.exists():
        return False
    if not home.is_interrupted() and (read_document(home.record) is not None or home.has_originals()):
        return False
    with locked(root, disk) as home:
        return settle(home, disk, force=force) or read_document(home.record) is None


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
        with reading(home.kept(number)):
            kept = beneath.status(home.kept(number))
        if kept is not None:
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
                remedy="see to the cause of both; the next apply or revert of the tree then restores every file",
            ) from error
        if isinstance(error, InputOutputError):
            raise InputOutputError([*error.problems, Problem("the tree is as it was")], remedy=error.remedy) from error
        raise
    try:
        finish(home, disk, journal)
    except InputOutputError as error:
        raise InputOutputError(
            [*error.problems, Problem("all files of the tree are written, but not yet the record of it")],
            remedy="see to the cause; the next apply or revert of the tree then completes the record",
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
        _write(disk, path, original.content, original.owner)
    for index, swap in enumerate(swaps):
        if swap.old is not None and swap.original_of is None:
            _write(disk, work / "old" / str(index), swap.old, swap.owner)
        if swap.new is not None:
            _write(disk, work / "new" / str(index), swap.new, swap.owner)
    if after is not None:
        disk.write(work / "record.json", encode_record(after))
    disk.write(work / DRAFT, journal.encode())
    with reading(home.originals):
        originals = beneath.status(home.originals)
    if journal.applied and originals is None:
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


def _write(disk: Disk, path: Path, content: Content, owner: tuple[int, int] | None) -> None:
    disk.write(path, content.data, content.mode, owner, content.attributes)


def _perform(home: Home, disk: Disk, journal: Journal, swaps: Sequence[Swap]) -> None:
    for folder in journal.made:
        disk.make_folder(home.root / folder)
    for index, swap in enumerate(swaps):
        slot, old = home.transaction / "new" / str(index), _digest(swap.old)
        change = take_away(disk, swap.target, slot, old) if swap.new is None else put(disk, slot, swap.target, old)
        if not change:
            raise HandEdited(f"{swap.path} was changed while it was about to be replaced", remedy="run this again")
    for parent in sorted({swap.target.parent for swap in swaps}):
        disk.sync(parent)
