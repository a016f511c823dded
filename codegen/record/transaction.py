"""Writing phases into a tree, and taking them back: all files of all these phases or none.

A transaction goes through four states, each told apart by one file below `.candle-rocm/local/transaction/` (see
journal.py):

    staged      neither file: new contents and current ones are being written and synced; the tree is untouched, and
                recovery just deletes the folder
    prepared    journal.json: files are renamed into the tree one by one; recovery ROLLS BACK by renaming the old ones
    committed   journal.json renamed to committed.json: every file is in place; recovery finishes the bookkeeping
                (the record, what is kept, backups, folders that taking back leaves empty)
    settled     no folder

So a process that is killed, or a machine that loses power, leaves a tree that the next apply or revert restores to
exactly before or exactly after; commands that only read refuse it until then. Rolling back, not forward: it needs no
disk space (renames only) and is what an error in the running process does as well. Files are replaced by rename (see
exchange.py), with the permission bits, owner and extended attributes that they had; one with several names (hard links)
is refused, since under the others the old bytes would stay. What comes back has a new modification time, or cargo
would take what it built from the patched file for fresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import CandleRocmError, Conflict, HandEdited, InputOutputError, PhaseOrder, Problem
from codegen.record.disk import DISK, Disk
from codegen.record.exchange import put, take_away
from codegen.record.home import Home, reading
from codegen.record.journal import (
    BACKUP,
    COMMITTED,
    DRAFT,
    LAST_BACKUP,
    ORIGINALS,
    PREPARED,
    Journal,
    JournalFile,
    finish,
    settle,
)
from codegen.record.lock import busy, is_locked, locked
from codegen.record.record import (
    AppliedPhase,
    Declared,
    Record,
    RecordHeader,
    encode_record,
    load_record,
    read_document,
    sha256,
)
from codegen.record.swaps import Content, Discarded, Draft, Renewal, Swap, missing_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codegen.patch.changes import PhaseChanges


Announce = Callable[[tuple[Discarded, ...], Path], None]
"""Called before anything is written, with what is discarded and the folder where the backup of it will be."""


def unannounced(discarded: tuple[Discarded, ...], backup: Path) -> None:
    """Nobody is told; the backup is made all the same."""


def apply_phases(
    root: Path,
    phases: Sequence[PhaseChanges],
    header: RecordHeader,
    *,
    again: bool = False,
    force: bool = False,
    disk: Disk = DISK,
    announce: Announce = unannounced,
) -> Record:
    """Writes one or more phases, ascending, and returns the new record: all files of all phases or, on any error, none.

    A file may hold its `before` or already its `after`; anything else is `HandEdited`, unless `force`, which keeps a
    backup. Declared edits are merged into what the phases make of their files. What reverting a phase gives back is
    what it found, in all cases. With `again`, applied phases from the first of `phases` on are taken back before, in
    the same transaction. Raises `PhaseOrder` when one of them or a later one is applied, `Conflict` when applied phases
    had another release, gating or runtime, when a path points outside the tree, or when another process is at work, and
    `InputOutputError` when something cannot be written.
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
        draft = Draft(root, record)
        draft.take_back(reversed(back), force=force)
        applied = draft.apply(phases, force=force)
        after = Record(header, (*_modern(draft, record, stay), *applied))
        after = replace(after, declared=draft.merge(after, force=force))
        _run(home, disk, draft, back, applied, after, announce)
        return after


def revert_phases(
    root: Path,
    *,
    down_to: int = 0,
    force: bool = False,
    keep_edits: bool = False,
    given: Mapping[str, bytes] | None = None,
    disk: Disk = DISK,
    announce: Announce = unannounced,
) -> Record | None:
    """Takes back all phases from the last one to `down_to`, and returns the record that is left, None when no phase is.

    All or, on any error, none. Every byte and permission bit is as it was before these phases, but for declared edits
    (with `keep_edits`, all edits), which are merged into it; `given` has texts by hash that may help to do so. Folders
    that they made are removed where nothing else is in them. Raises `PhaseOrder` when no such phase is applied,
    `HandEdited` when a file is nothing that the record knows, or edits conflict (with `force` it is overwritten, and a
    backup kept), and as `apply_phases`.
    """
    with locked(root, disk) as home:
        settle(home, disk, force=False)
        record = load_record(root)
        if record is None:
            raise PhaseOrder(f"no phase is applied to {root}", remedy="there is nothing to revert")
        stay = tuple(phase for phase in record.phases if phase.phase < down_to)
        back = record.phases[len(stay) :]
        if not back:
            raise PhaseOrder(
                f"the last phase that is applied to {root} is {record.last.phase}",
                remedy=f"there is nothing to revert from phase {down_to} on",
            )
        draft = Draft(root, record, keep_edits=keep_edits, given=given)
        draft.take_back(reversed(back), force=force)
        left = Record(record.header, _modern(draft, record, stay)) if stay else None
        declared = draft.merge(left, force=force)
        left = None if left is None else replace(left, declared=declared)
        _run(home, disk, draft, back, (), left, announce)
        return left


def upgrade_phases(root: Path, renewal: Renewal, header: RecordHeader, *, disk: Disk = DISK) -> Record:
    """Writes an upgrade in place of all phases that are applied, and returns the new record: all files or none.

    Raises `PhaseOrder` when nothing is applied, `HandEdited` when a file was changed since the upgrade was thought out,
    and as `apply_phases`.
    """
    with locked(root, disk) as home:
        settle(home, disk, force=False)
        record = load_record(root)
        if record is None:
            raise PhaseOrder(f"no phase is applied to {root}", remedy="there is nothing to upgrade: apply")
        draft = Draft(root, record)
        applied, declared = draft.renew(renewal)
        after = Record(header, applied, declared)
        _run(home, disk, draft, record.phases, applied, after, unannounced)
        return after


def declare_edits(root: Path, declared: Sequence[Declared], *, disk: Disk = DISK) -> Record:
    """Writes the record with these declared edits instead of those that it has, and returns it.

    Raises `PhaseOrder` when nothing is applied, and as `apply_phases`.
    """
    with locked(root, disk) as home:
        settle(home, disk, force=False)
        record = load_record(root)
        if record is None:
            raise PhaseOrder(f"no phase is applied to {root}", remedy="only files that candle-rocm wrote are declared")
        draft = Draft(root, record)
        phases = _modern(draft, record, record.phases)
        after = Record(record.header, phases, tuple(sorted(declared, key=lambda each: each.path)))
        _run(home, disk, draft, (), (), after, unannounced)
        return after


def _modern(draft: Draft, record: Record | None, phases: tuple[AppliedPhase, ...]) -> tuple[AppliedPhase, ...]:
    return draft.keep_old(phases) if record is not None and record.is_old else phases


def require_settled(root: Path) -> None:
    """Raises `Conflict` where a transaction was interrupted: what is read there would be half of it.

    Nothing is written: a command that only reads leaves the settling to one that writes.
    """
    if not Home.of(root).is_interrupted():
        return
    if is_locked(root):
        raise busy(root)
    raise Conflict(
        f"an apply, revert or upgrade of {root} was interrupted",
        remedy="undo it with `candle-rocm revert`, which restores the previous state, or continue with "
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
    if not home.is_interrupted() and (read_document(home.record) is not None or home.has_local_content()):
        return False
    with locked(root, disk) as home:
        return settle(home, disk, force=force) or (read_document(home.record) is None and not home.has_local_content())


def _require_order(present: Sequence[AppliedPhase], numbers: Sequence[int]) -> None:
    applied = [phase.phase for phase in present]
    for number in numbers:
        if number in applied:
            raise PhaseOrder(f"phase {number} is already applied", remedy="revert it first to apply it again")
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


def _run(
    home: Home,
    disk: Disk,
    draft: Draft,
    back: Sequence[AppliedPhase],
    applied: Sequence[AppliedPhase],
    after: Record | None,
    announce: Announce,
) -> None:
    """Takes a transaction from nothing to settled, or back to nothing."""
    work = home.transaction
    swaps = draft.swaps()
    backup = _next_backup(home) if draft.discarded else None
    if backup is not None:
        announce(draft.discarded, home.backups / str(backup))
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
        backup=backup,
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
                remedy="fix the cause of both; the next apply or revert of the tree then restores every file",
            ) from error
        if isinstance(error, InputOutputError):
            raise InputOutputError([*error.problems, Problem("the tree is as it was")], remedy=error.remedy) from error
        raise
    try:
        finish(home, disk, journal)
    except InputOutputError as error:
        raise InputOutputError(
            [*error.problems, Problem("all files of the tree are written, but not yet the record of it")],
            remedy="fix the cause; the next apply or revert of the tree then completes the record",
        ) from error


def _digest(content: Content | None) -> str | None:
    return None if content is None else sha256(content.data)


def _kept(swap: Swap, index: int) -> str | None:
    """Where below the folder of the transaction the old bytes of the swap `index` are put."""
    if swap.old is None:
        return None
    return f"{ORIGINALS}/{_digest(swap.old)}" if swap.is_original else f"old/{index}"


def _next_backup(home: Home) -> int:
    with reading(home.backups):
        numbers = [int(name) for name in beneath.names(home.backups) if name.isascii() and name.isdecimal()]
    number = max(numbers, default=0) + 1
    if number > LAST_BACKUP:
        raise Conflict(f"{home.backups} has {max(numbers)}", remedy="move away the backups that you no longer need")
    return number


def _stage(home: Home, disk: Disk, journal: Journal, draft: Draft, swaps: Sequence[Swap], after: Record | None) -> None:
    """Puts everything on disk that performing, finishing and rolling back need: from there on they only rename."""
    work = home.transaction
    backups = {work / BACKUP / each.path: each for each in draft.discarded}
    folders = {work, work / "old", work / "new", work / ORIGINALS, *([work / BACKUP] if backups else [])}
    folders |= {folder for path in backups for folder in _between(work, path)}
    for folder in sorted(folders):
        disk.make_folder(folder)
    for digest, original in draft.originals.items():
        _write(disk, work / ORIGINALS / digest, original.content, original.owner)
    for path, discarded in backups.items():
        _write(disk, path, discarded.content, discarded.owner)
    for index, swap in enumerate(swaps):
        if swap.old is not None and not swap.is_original:
            _write(disk, work / "old" / str(index), swap.old, swap.owner)
        if swap.new is not None:
            _write(disk, work / "new" / str(index), swap.new, swap.owner)
    if after is not None:
        disk.write(work / "record.json", encode_record(after))
    disk.write(work / DRAFT, journal.encode())
    with reading(home.originals):
        originals = beneath.status(home.originals)
    if draft.originals and originals is None:
        disk.make_folder(home.originals)
    for folder in sorted(folders):
        disk.sync(folder)
    disk.sync(home.local)
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
