"""The journal: what recovery needs to know of a transaction, and how recovery brings one to its end.

Everything lies below `.candle-rocm/local/transaction/`:

    originals/<sha256>      what files are before phases that are being applied; goes to `.candle-rocm/local/originals/`
    backup/<path>           what is overwritten because the user said so; becomes `.candle-rocm/local/backups/<number>/`
    old/<n>                 the file `n` of the journal as it is now, where `originals/` does not have that already
    new/<n>                 what the file `n` of the journal becomes; then, where files can be exchanged, what it was
    record.json             the record afterwards, missing when no phase is left
    journal.json            the journal; its name tells the state (see transaction.py)

A journal may have been made up, as a record may: it is held against the record that it would change, each file that it
names has the one name that we would give it, and what is given back has the hash that it says.
"""

from __future__ import annotations

import json
import stat
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, HandEdited, Problem
from codegen.record.exchange import digest_at, put, take_away
from codegen.record.fields import (
    checked_digest,
    checked_path,
    checked_phase,
    corrupt,
    decode_json,
    distinct,
    only,
    shown,
    start_of,
    take,
    take_optional,
)
from codegen.record.home import IGNORE_ALL, Home, reading
from codegen.record.record import (
    SCHEMA_VERSION,
    Record,
    decode_record,
    read_document,
    require_schema,
    target_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.record.disk import Disk

DRAFT = "draft.json"
PREPARED = "journal.json"
COMMITTED = "committed.json"
ORIGINALS = "originals"
BACKUP = "backup"
LAST_BACKUP = 999_999


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
    backup: int | None = None
    """The number of the backup of what is overwritten, None when there is none."""

    def encode(self) -> bytes:
        """The journal as the text of `journal.json`."""
        return (json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n").encode()

    @classmethod
    def read(cls, source: Path) -> Journal:
        """The journal in `source`. Raises `Conflict` when it is corrupt, and `InputOutputError`."""
        document = decode_json(read_document(source) or b"", source)
        try:
            require_schema(document, source, SCHEMA_VERSION)
            keys = ("files", "made", "dropped", "taken_back", "applied", "recorded", "backup")
            only(document, "schema_version", *keys)
            taken_back, applied = (
                tuple(checked_phase(number) for number in take(document, key, list))
                for key in ("taken_back", "applied")
            )
            files = tuple(_file(item, index) for index, item in enumerate(take(document, "files", list)))
            made, dropped = (
                tuple(checked_path(folder) for folder in take(document, key, list)) for key in ("made", "dropped")
            )
            for values, what in (
                (taken_back, "taken_back"),
                (applied, "applied"),
                (made, "made"),
                (dropped, "dropped"),
            ):
                distinct(values, f"'{what}'")
            distinct(sorted(file.path for file in files), "the paths of 'files'")
            claimed = [file.kept for file in files if file.kept is not None]
            distinct(sorted(claimed), "the places of 'files'")
            backup = take_optional(document, "backup", int)
            if backup is not None and not 0 < backup <= LAST_BACKUP:
                raise ValueError(f"'backup' is {shown(backup)}, not the number of a backup")
            recorded = take(document, "recorded", bool)
            if applied and not recorded:
                raise ValueError("'recorded' is false, which does not go with 'applied'")
        except ValueError as error:
            corrupt(Problem(str(error), start_of(source)), source)
        return cls(files, made, dropped, taken_back, applied, recorded, backup)


def _file(item: object, index: int) -> JournalFile:
    only(item, "path", "old", "new", "kept")
    path = checked_path(take(item, "path", str))
    old, new, kept = (take_optional(item, key, str) for key in ("old", "new", "kept"))
    if old == new:
        raise ValueError(f"'old' and 'new' of the file {index} are the same")
    places = (None,) if old is None else (f"old/{index}", f"originals/{old}")
    if kept not in places:
        raise ValueError(f"'kept' is {shown(kept)}, which does not go with 'old' and the path")
    return JournalFile(
        path, None if old is None else checked_digest(old), None if new is None else checked_digest(new), kept
    )


def settle(home: Home, disk: Disk, *, force: bool) -> bool:
    """Brings whatever is below `transaction/` to its end, and says whether there was something.

    Raises `HandEdited`, unless `force`, when a file to be rolled back was changed since, `Conflict` for a journal that
    is not ours or bytes that are damaged, and `InputOutputError`. The tree is then as it was.
    """
    if not home.is_interrupted():
        return False
    work = home.transaction
    if _is_there(work / COMMITTED):
        journal = Journal.read(work / COMMITTED)
        _require_own(home, journal, work / COMMITTED)
        finish(home, disk, journal)
    elif _is_there(work / PREPARED):
        _roll_back(home, disk, Journal.read(work / PREPARED), force=force)
    else:
        disk.drop(home.originals)
        disk.clear(work)
    return True


def _is_there(path: Path) -> bool:
    with reading(path):
        return beneath.status(path) is not None


def _require_own(home: Home, journal: Journal, source: Path) -> None:
    """A journal takes back phases of the record, removes folders that these made, and leaves a record of the rest.

    Raises `Conflict` otherwise.
    """
    before, after = read_document(home.record), read_document(home.transaction / "record.json")
    new = None if after is None else decode_record(after, home.transaction / "record.json")
    old = None if before is None else decode_record(before, home.record)
    if journal.recorded and new is None and old is None:
        corrupt(Problem("'recorded' is true, but there is no record", start_of(source)), source)
    if not _is_recorded(home, journal) and (wrong := _contradiction(journal, old, new)):
        corrupt(Problem(wrong, start_of(source)), source)


def _is_recorded(home: Home, journal: Journal) -> bool:
    """Whether the record is as the transaction leaves it: that is done last, and only clearing away is left."""
    return not _is_there(home.transaction / "record.json" if journal.recorded else home.record)


def _contradiction(journal: Journal, old: Record | None, new: Record | None) -> str | None:
    had = {phase.phase: phase for phase in old.phases} if old is not None else {}
    left = {phase.phase for phase in new.phases} if new is not None else set()
    if foreign := set(journal.taken_back) - had.keys():
        return f"'taken_back' has {min(foreign)}, which is not applied"
    made = {folder for phase in journal.taken_back for folder in had[phase].folders}
    deleted = (PurePosixPath(file.path) for file in journal.files if file.new is None)
    made |= {folder.as_posix() for path in deleted for folder in path.parents if folder.parts}
    if unmade := set(journal.dropped) - made:
        return f"'dropped' has {shown(min(unmade))}, which none of these phases made, and from which nothing is deleted"
    expected = (had.keys() - set(journal.taken_back)) | set(journal.applied)
    return None if left == expected else f"it leaves the phases {sorted(left)} instead of {sorted(expected)}"


def finish(home: Home, disk: Disk, journal: Journal) -> None:
    """The bookkeeping of a committed transaction. Each step is skipped when it is done already."""
    work = home.transaction
    disk.sync(work)
    if not _is_recorded(home, journal):
        _record(home, disk, journal)
    disk.sync(home.folder)
    disk.sync(home.local)
    disk.unlink(work / COMMITTED)
    disk.clear(work)


def _record(home: Home, disk: Disk, journal: Journal) -> None:
    work = home.transaction
    for folder in reversed(journal.dropped):
        disk.drop(home.root / folder)
    _keep_originals(home, disk)
    if journal.backup is not None and _is_there(work / BACKUP):
        if not _is_there(home.backups):
            disk.make_folder(home.backups)
        disk.replace(work / BACKUP, home.backups / str(journal.backup))
        disk.sync(home.backups)
    if home.has_old_originals():
        disk.clear(home.old_originals)
    if _is_old_ignore(home):
        disk.unlink(home.old_ignore)
    if journal.recorded:
        disk.replace(work / "record.json", home.record)
    else:
        disk.unlink(home.record)


def _keep_originals(home: Home, disk: Disk) -> None:
    """Moves what is to be kept to where it is kept, and deletes what the record names no more."""
    work = home.transaction
    after = read_document(work / "record.json")
    record = None if after is None else decode_record(after, work / "record.json")
    named = {file.before for phase in record.phases for file in phase.files} if record is not None else set()
    for name in _names(work / ORIGINALS):
        if name in named:
            disk.replace(work / ORIGINALS / name, home.original(name))
    for name in _names(home.originals):
        if name not in named and not _is_folder(home.original(name)):
            disk.unlink(home.original(name))
    if _names(home.originals):
        disk.sync(home.originals)
    else:
        disk.drop(home.originals)


def _is_old_ignore(home: Home) -> bool:
    with reading(home.old_ignore):
        found = beneath.status(home.old_ignore)
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size != len(IGNORE_ALL):
            return False
    return read_document(home.old_ignore) == IGNORE_ALL


def _names(folder: Path) -> tuple[str, ...]:
    with reading(folder):
        return beneath.names(folder)


def _is_folder(path: Path) -> bool:
    with reading(path):
        found = beneath.status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


@dataclass(frozen=True, slots=True)
class _Reached:
    """A file that the transaction replaced, made or deleted."""

    path: str
    target: Path
    now: str | None
    """The hash of what is there."""
    kept: Path | None
    """Where its old bytes are, None when it did not exist."""
    slot: Path
    """`new/<n>`."""


def _roll_back(home: Home, disk: Disk, journal: Journal, *, force: bool) -> None:
    """Gives every file back that was reached. Takes no space: renames and deletions only."""
    work = home.transaction
    reached: list[_Reached] = []
    edited: list[Problem] = []
    targets = [target_of(home.root, file.path) for file in journal.files]
    _require_parents(home, journal, targets)
    for index, (file, target) in enumerate(zip(journal.files, targets, strict=True)):
        slot = work / "new" / str(index)
        now, put_aside = digest_at(target), digest_at(slot)
        if now == file.old or not _is_reached(file, now, put_aside):
            continue
        if put_aside not in (None, file.old, file.new):
            edited.append(Problem(f"{file.path} was changed while candle-rocm replaced it; that version is in {slot}"))
        kept = None if file.old is None else _kept_bytes(work, file, slot, put_aside)
        if now != file.new:
            was = "it did not exist before" if kept is None else f"its old text is in {kept}"
            edited.append(
                Problem(f"{file.path} was changed after candle-rocm was interrupted while replacing it; {was}")
            )
        reached.append(_Reached(file.path, target, now, kept, slot))
    if edited and not force:
        raise HandEdited(edited, remedy="move your version away or restore that one, then run the command again")
    for file_ in reversed(reached):
        _give_back(disk, file_)
    for parent in sorted({file_.target.parent for file_ in reached}):
        if _is_there(parent):
            disk.sync(parent)
    for folder in reversed(journal.made):
        disk.drop(home.root / folder)
    disk.unlink(work / PREPARED)
    disk.drop(home.originals)
    disk.clear(work)


def _is_reached(file: JournalFile, now: str | None, put_aside: str | None) -> bool:
    """Whether the transaction came as far as this file, which is not what it was.

    Then `new/<n>` holds the new bytes no more: they were exchanged for the old ones, or renamed.
    """
    if file.new is None:
        return now is None or put_aside is not None
    return put_aside != file.new


def _kept_bytes(work: Path, file: JournalFile, slot: Path, put_aside: str | None) -> Path:
    """Where the old bytes of the file are. Raises `Conflict` when they are missing or damaged."""
    kept = work / (file.kept or "")
    found = digest_at(kept)
    if found == file.old:
        return kept
    if put_aside == file.old:
        return slot
    raise Conflict(
        f"{kept} is {'missing' if found is None else 'damaged'}: it holds what {file.path} was",
        remedy=f"put {file.path} back by hand (git checkout), then delete {work}",
    )


def _give_back(disk: Disk, file: _Reached) -> None:
    if file.kept is None:
        done = take_away(disk, file.target, file.slot, file.now)
    else:
        disk.touch(file.kept)
        done = put(disk, file.kept, file.target, file.now)
    if not done:
        raise HandEdited(f"{file.path} was changed while it was given back", remedy="run the command again")


def _require_parents(home: Home, journal: Journal, targets: list[Path]) -> None:
    """Folders that a transaction makes are those of files that it makes. Raises `Conflict` otherwise."""
    needed = {
        folder.as_posix()
        for file, target in zip(journal.files, targets, strict=True)
        if file.new is not None
        for folder in target.relative_to(home.root).parents
    }
    if foreign := set(journal.made) - needed:
        source = home.transaction / PREPARED
        wrong = f"'made' has {shown(min(foreign))}, in which it makes no file"
        corrupt(Problem(wrong, start_of(source)), source)
