"""The journal: what recovery needs to know of a transaction, and how recovery brings one to its end.

Everything lies below `.candle-rocm/transaction/`:

    before/<phase>/<path>   what a file is before a phase that is being applied; becomes `.candle-rocm/before/<phase>/`
    old/<n>                 the file `n` of the journal as it is now, where `before/` does not have that already
    new/<n>                 what the file `n` of the journal becomes
    record.json             the record afterwards, missing when no phase is left
    journal.json            the journal; its name tells the state (see transaction.py)
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from codegen.errors import HandEdited, Problem
from codegen.plan.record import (
    SCHEMA_VERSION,
    Home,
    checked_path,
    corrupt,
    decode_json,
    digest_of,
    take,
    take_optional,
    target_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.plan.disk import Disk

DRAFT = "draft.json"
PREPARED = "journal.json"
COMMITTED = "committed.json"


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file that a transaction replaces, makes or deletes."""

    path: str
    old: str | None
    """SHA-256 in hexadecimal, None when the file does not exist."""
    new: str | None
    kept: str | None
    """Where below the folder of the transaction the old bytes are, None when there are none."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What a transaction does to a tree and to its record."""

    files: tuple[JournalFile, ...]
    made: tuple[str, ...]
    """Folders that the transaction makes, parents first; rolling back removes them."""
    dropped: tuple[str, ...]
    """Folders that finishing removes where they are empty, parents first."""
    taken_back: tuple[int, ...]
    """Phases that are applied before and taken back."""
    applied: tuple[int, ...]
    """Phases that are applied, some of `taken_back` perhaps among them."""
    recorded: bool
    """Whether a record is left afterwards."""

    def encode(self) -> bytes:
        """The journal as the text of `journal.json`."""
        return (json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n").encode()

    @classmethod
    def read(cls, source: Path) -> Journal:
        """The journal in `source`. Raises `Conflict` when it is corrupt."""
        document = decode_json(source.read_bytes(), source)
        try:
            files = tuple(_file(item) for item in take(document, "files", list))
            made, dropped = (
                tuple(checked_path(folder) for folder in take(document, key, list)) for key in ("made", "dropped")
            )
            taken_back, applied = (
                tuple(_phase(number) for number in take(document, key, list)) for key in ("taken_back", "applied")
            )
            return cls(files, made, dropped, taken_back, applied, take(document, "recorded", bool))
        except ValueError as error:
            corrupt(Problem(f"{source}: {error}"), source)


def _file(item: object) -> JournalFile:
    old, kept = take_optional(item, "old", str), take_optional(item, "kept", str)
    if (old is None) != (kept is None):
        raise ValueError(f"'kept' is {json.dumps(kept)}, which does not go with 'old'")
    return JournalFile(
        checked_path(take(item, "path", str)),
        old,
        take_optional(item, "new", str),
        None if kept is None else checked_path(kept),
    )


def _phase(number: object) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{json.dumps(number)} is not the number of a phase")
    return number


def settle(home: Home, disk: Disk, *, force: bool) -> bool:
    """Brings whatever is below `transaction/` to its end, and says whether there was something.

    Raises `HandEdited`, unless `force`, when a file to be rolled back was changed since.
    """
    work = home.transaction
    if not os.path.lexists(work):
        return False
    if (work / COMMITTED).exists():
        finish(home, disk, Journal.read(work / COMMITTED))
    elif (work / PREPARED).exists():
        _roll_back(home, disk, Journal.read(work / PREPARED), force=force)
    else:
        disk.clear(work)
    return True


def finish(home: Home, disk: Disk, journal: Journal) -> None:
    """The bookkeeping of a committed transaction. Each step is skipped when it is done already."""
    work = home.transaction
    disk.sync(work)
    for folder in reversed(journal.dropped):
        disk.drop(home.root.resolve() / folder)
    for phase in journal.taken_back:
        # Of a phase that is also applied anew, what is kept may be the new bytes already.
        superseded = phase not in journal.applied or (work / "before" / str(phase)).exists()
        if superseded and home.kept(phase).exists():
            disk.clear(home.kept(phase))
    for phase in journal.applied:
        if (work / "before" / str(phase)).exists():
            disk.replace(work / "before" / str(phase), home.kept(phase))
    if journal.applied:
        disk.sync(home.originals)
    if not journal.recorded:
        disk.unlink(home.record)
    elif (work / "record.json").exists():
        disk.replace(work / "record.json", home.record)
    disk.sync(home.folder)
    disk.unlink(work / COMMITTED)
    disk.clear(work)


def _roll_back(home: Home, disk: Disk, journal: Journal, *, force: bool) -> None:
    """Gives every file back that was reached. Takes no space: renames and deletions only."""
    work = home.transaction
    replaced = []
    edited = []
    for index, file in enumerate(journal.files):
        target = target_of(home.root, file.path)
        current = digest_of(target)
        not_reached = (work / "new" / str(index)).exists() if file.new is not None else current is not None
        if current == file.old or not_reached:
            continue
        kept = None if file.kept is None else work / file.kept
        if current != file.new:
            was = "it did not exist before" if kept is None else f"what it was is in {kept}"
            edited.append(
                Problem(f"{file.path} was changed after candle-rocm was interrupted while replacing it; {was}")
            )
        replaced.append((target, kept))
    if edited and not force:
        raise HandEdited(edited, remedy="move your version away or put that one back, then run the command again")
    for target, kept in reversed(replaced):
        if kept is None:
            disk.unlink(target)
        else:
            disk.touch(kept)
            disk.replace(kept, target)
    for parent in sorted({target.parent for target, _ in replaced if target.parent.exists()}):
        disk.sync(parent)
    for folder in reversed(journal.made):
        disk.drop(home.root.resolve() / folder)
    disk.unlink(work / PREPARED)
    disk.clear(work)
