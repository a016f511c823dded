"""Writing a phase into a tree, and taking it back: all of its files or none.

A transaction goes through four states, each told apart by one file below `.candle-rocm/transaction/`:

    staged      neither file: new contents (`new/<n>`) and current ones (`old/<path>`) are being written and synced;
                the tree is untouched, and recovery just deletes the folder
    prepared    journal.json: files are renamed into the tree one by one; recovery ROLLS BACK from `old/`
    committed   journal.json renamed to committed.json: every file is in place; recovery finishes the bookkeeping
                (the record, `old/` becomes `before/<phase>/`, folders that a revert leaves empty)
    settled     no folder

So a process that is killed, or a machine that loses power, leaves a tree that the next command restores to exactly
before or exactly after. Rolling back, not forward: it needs no disk space (renames only) and is what an error in the
running process does as well. Files are replaced by rename, with the permission bits and owner that they had. What comes
back has a new modification time, or cargo would take what it built from the patched file for fresh.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from codegen.errors import CandleRocmError, Conflict, HandEdited, InputOutputError, PhaseOrder, Problem
from codegen.plan.record import (
    FOLDER,
    SCHEMA_VERSION,
    AppliedFile,
    AppliedPhase,
    Home,
    Record,
    RecordHeader,
    checked_path,
    corrupt,
    decode_json,
    digest_of,
    encode_record,
    load_record,
    original_bytes,
    sha256,
    take,
    take_optional,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from codegen.plan.model import FileChange

_REMEDIES = {
    errno.ENOSPC: "free some space on that disk, then run the command again",
    errno.EDQUOT: "free some of your disk quota, then run the command again",
    errno.EROFS: "the disk is mounted read-only: work on a copy of the tree, or mount it writable",
    errno.EACCES: "give yourself write permission there (chmod u+w, or run as the owner), then run the command again",
    errno.EPERM: "give yourself write permission there (chmod u+w, or run as the owner), then run the command again",
}


class Disk:
    """Everything that changes a tree. Each method names path and remedy in its `InputOutputError`."""

    def step(self, verb: str, path: Path) -> None:
        """Called before each single change; tests raise an `OSError` here, or end the process."""

    def make_folder(self, path: Path) -> None:
        with self._changing("create", path):
            path.mkdir()

    def write(self, path: Path, content: bytes, mode: int | None = None, owner: tuple[int, int] | None = None) -> None:
        """Makes a file that survives a loss of power, with the permission bits and, where allowed, the owner given."""
        with self._changing("create", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            with self._changing("write", path):
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
                if owner is not None and owner != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):
                        os.fchown(descriptor, *owner)
                if mode is not None:
                    os.fchmod(descriptor, mode)
            with self._changing("write", path):
                self.flush(descriptor)

    def touch(self, path: Path) -> None:
        with self._changing("write", path):
            os.utime(path)

    def replace(self, source: Path, target: Path) -> None:
        with self._changing("write", target):
            source.replace(target)

    def unlink(self, path: Path) -> None:
        with self._changing("delete", path):
            path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        with self._changing("delete", path):
            path.rmdir()

    def sync(self, folder: Path) -> None:
        """Makes the names in `folder` survive a loss of power."""
        with self._changing("write", folder):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self.flush(descriptor)
            finally:
                os.close(descriptor)

    def flush(self, descriptor: int) -> None:
        """Waits until a file or folder is on the medium."""
        os.fsync(descriptor)

    @contextmanager
    def _changing(self, verb: str, path: Path) -> Iterator[None]:
        try:
            self.step(verb, path)
            yield
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "see to that file or folder, then run the command again")
            raise InputOutputError(f"cannot {verb} {path}: {error.strerror}", remedy=remedy) from error


DISK = Disk()


@dataclass(frozen=True, slots=True)
class _Swap:
    """One file of a transaction: what it is now, and what it becomes. None means: no such file."""

    path: str
    target: Path
    """Where `path` leads, links inside the tree followed."""
    old: bytes | None
    new: bytes | None
    new_mode: int | None
    status: os.stat_result | None
    """Of `target` when `old` was read."""

    @property
    def changes(self) -> bool:
        return self.old != self.new

    @property
    def mode(self) -> int | None:
        return None if self.status is None else stat.S_IMODE(self.status.st_mode)

    @property
    def owner(self) -> tuple[int, int] | None:
        return None if self.status is None else (self.status.st_uid, self.status.st_gid)


@dataclass(frozen=True, slots=True)
class _JournalFile:
    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class _Journal:
    """What recovery needs to know of a transaction."""

    phase: int
    reverting: bool
    recorded: bool
    """Whether a record is left afterwards."""
    files: tuple[_JournalFile, ...]
    made: tuple[str, ...]
    """Folders that the transaction makes, parents first; rolling back removes them."""
    dropped: tuple[str, ...]
    """Folders that finishing removes where they are empty, parents first."""

    def encode(self) -> bytes:
        return (json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n").encode()

    @classmethod
    def read(cls, source: Path) -> _Journal:
        document = decode_json(source.read_bytes(), source)
        try:
            files = tuple(
                _JournalFile(
                    checked_path(take(file, "path", str)),
                    take_optional(file, "old", str),
                    take_optional(file, "new", str),
                )
                for file in take(document, "files", list)
            )
            made, dropped = (
                tuple(checked_path(folder) for folder in take(document, key, list)) for key in ("made", "dropped")
            )
            reverting, recorded = (take(document, key, bool) for key in ("reverting", "recorded"))
            return cls(take(document, "phase", int), reverting, recorded, files, made, dropped)
        except ValueError as error:
            corrupt(Problem(f"{source}: {error}"), source)


def apply_phase(
    root: Path,
    phase: int,
    changes: Sequence[FileChange],
    header: RecordHeader,
    *,
    force: bool = False,
    disk: Disk = DISK,
) -> Record:
    """Writes `changes` into the tree and returns the new record: all files or, on any error, none.

    A file may hold its `before` or already its `after`; anything else is `HandEdited`, unless `force`. What reverting
    gives back is what was on disk, in all three cases. Raises `PhaseOrder` when this phase or a later one is applied,
    `Conflict` when applied phases had another release, gating or runtime, when a path leads out of the tree, or when
    another process is at work, and `InputOutputError` when something cannot be written.
    """
    with _session(root, disk) as home:
        _settle(home, disk, force=False)
        record = load_record(root)
        _require_order(record, phase, header)
        if home.original(phase, "").exists():
            raise Conflict(
                f"{home.original(phase, '')} holds files as they were before phase {phase}, which is not applied",
                remedy="restore the record that goes with it, or move that folder away",
            )
        swaps = _apply_swaps(root, changes, force=force)
        made = _missing_folders(root, swaps)
        files = tuple(
            AppliedFile(swap.path, _digest(swap.old), sha256(swap.new or b""), swap.mode)
            for swap in sorted(swaps, key=lambda swap: swap.path)
        )
        after = Record(header, (*(record.phases if record else ()), AppliedPhase(phase, files, made)))
        journal = _Journal(phase, reverting=False, recorded=True, files=_journal_files(swaps), made=made, dropped=())
        _run(home, disk, journal, swaps, after)
        return after


def revert_phase(root: Path, *, force: bool = False, disk: Disk = DISK) -> Record | None:
    """Takes the last phase back and returns the record that is left, None when no phase is.

    Every byte and permission bit is as it was before that phase; folders that the phase made are removed where nothing
    else is in them. Raises `PhaseOrder` when nothing is applied, `HandEdited` when a file is not what the phase left
    (with `force` it is overwritten, and the edits are lost), and as `apply_phase`.
    """
    with _session(root, disk) as home:
        _settle(home, disk, force=False)
        record = load_record(root)
        if record is None:
            raise PhaseOrder(f"no phase is applied to {root}", remedy="there is nothing to take back")
        swaps = _revert_swaps(root, record.last, force=force)
        made = _missing_folders(root, [swap for swap in swaps if swap.new is not None])
        left = Record(record.header, record.phases[:-1]) if len(record.phases) > 1 else None
        journal = _Journal(
            record.last.phase,
            reverting=True,
            recorded=left is not None,
            files=_journal_files(swaps),
            made=made,
            dropped=record.last.folders,
        )
        _run(home, disk, journal, swaps, left)
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
    with _session(root, disk):
        return _settle(home, disk, force=force) or not home.record.exists()


@contextmanager
def _session(root: Path, disk: Disk) -> Iterator[Home]:
    """Holds the lock of the tree. Leaves nothing behind when no phase is applied at the end."""
    home = Home(root)
    if not root.is_dir():
        raise InputOutputError(f"{root} is not a folder", remedy="give the root of a Candle tree")
    descriptor = _lock(home, disk)
    try:
        if not home.ignore.exists():
            disk.write(home.ignore, b"*\n")
        yield home
    finally:
        try:
            if not (home.record.exists() or os.path.lexists(home.transaction) or home.has_originals()):
                with suppress(InputOutputError):  # a leftover harms nobody, and `recover` removes it
                    _remove_home(home, disk)
        finally:
            os.close(descriptor)


def _lock(home: Home, disk: Disk) -> int:
    while True:
        if not home.exists():
            with suppress(FileExistsError):
                disk.make_folder(home.folder)
        try:
            descriptor = os.open(home.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:
            continue  # its last owner removed the folder just now
        except OSError as error:
            raise InputOutputError(
                f"cannot open {home.lock}: {error.strerror}", remedy=_REMEDIES.get(error.errno or 0, "delete it")
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), home.lock.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise Conflict(
                f"another candle-rocm is changing {home.root}", remedy="wait until it is done, then run this again"
            ) from None
        except FileNotFoundError:
            pass  # its last owner removed the file between our opening and locking it
        except OSError as error:
            os.close(descriptor)
            raise InputOutputError(
                f"cannot lock {home.lock}: {error.strerror}", remedy="work on a disk that has file locks, such as /tmp"
            ) from error
        os.close(descriptor)


def _remove_home(home: Home, disk: Disk) -> None:
    if home.originals.is_dir():
        disk.remove_folder(home.originals)
    disk.unlink(home.lock)
    disk.unlink(home.ignore)
    disk.remove_folder(home.folder)


def _require_order(record: Record | None, phase: int, header: RecordHeader) -> None:
    if record is None:
        return
    numbers = [applied.phase for applied in record.phases]
    if phase in numbers:
        raise PhaseOrder(f"phase {phase} is already applied", remedy="revert it first to apply it anew")
    if phase < numbers[-1]:
        raise PhaseOrder(
            f"phase {phase} comes before phase {numbers[-1]}, which is applied",
            remedy=f"revert phase {numbers[-1]} first",
        )
    for name, applied, wanted in (
        ("Candle release", record.header.release, header.release),
        ("gating", record.header.gating, header.gating),
        ("runtime", record.header.runtime, header.runtime),
    ):
        if applied != wanted:
            raise Conflict(
                f"phase {numbers[-1]} was applied with {name} {applied}, phase {phase} is planned with {wanted}",
                remedy=f"plan with {name} {applied}, or revert all phases first",
            )


def _apply_swaps(root: Path, changes: Sequence[FileChange], *, force: bool) -> tuple[_Swap, ...]:
    swaps = []
    edited = []
    for change in changes:
        target = _target(root, checked_path(change.path))
        current, status = _read(target)
        if current not in (change.before, change.after):
            reason = (
                "is missing"
                if current is None
                else "exists already"
                if change.before is None
                else "is not what the plan was made from"
            )
            edited.append(Problem(f"{change.path} {reason}"))
        mode = None if status is None else stat.S_IMODE(status.st_mode)
        swaps.append(_Swap(change.path, target, current, change.after, mode, status))
    if edited and not force:
        raise HandEdited(edited, remedy="take the edits out of those files, or overwrite them with --force")
    _require_distinct(swaps)
    _require_writable(swaps)
    return tuple(swaps)


def _revert_swaps(root: Path, applied: AppliedPhase, *, force: bool) -> tuple[_Swap, ...]:
    swaps = []
    edited = []
    for file in applied.files:
        target = _target(root, file.path)
        current, status = _read(target)
        if _digest(current) != file.after:
            reason = "is missing" if current is None else f"was changed since phase {applied.phase} was applied"
            edited.append(Problem(f"{file.path} {reason}"))
        swaps.append(
            _Swap(file.path, target, current, original_bytes(root, applied.phase, file), file.mode, status),
        )
    if edited and not force:
        raise HandEdited(edited, remedy="take the edits out of those files, or lose them with --force")
    _require_writable(swaps)
    return tuple(swaps)


def _target(root: Path, path: str) -> Path:
    """Where `path` leads. Raises `Conflict` when that is outside of the tree, or in a folder of git or the record."""
    real_root = root.resolve()
    try:
        target = (root / path).resolve()
        inside = target.relative_to(real_root)
    except (OSError, RuntimeError, ValueError):
        inside = None
    if inside is None or inside.parts[:1] in ((), (FOLDER,), (".git",)):
        raise Conflict(
            f"{root / path} leads out of the tree through a symbolic link",
            remedy="replace the link by what it leads to; nothing outside of a tree is ever written",
        )
    return target


def _read(target: Path) -> tuple[bytes | None, os.stat_result | None]:
    try:
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Conflict(f"{target} is not a regular file", remedy="move it away: a file belongs there")
        return target.read_bytes(), status
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError as error:
        raise InputOutputError(
            f"cannot read {target}: {error.strerror}", remedy="make it readable for you, then run the command again"
        ) from error


def _require_distinct(swaps: Sequence[_Swap]) -> None:
    seen: dict[Path, str] = {}
    for swap in swaps:
        other = seen.setdefault(swap.target, swap.path)
        if other is not swap.path:
            raise Conflict(
                f"{other} and {swap.path} are the same file, {swap.target}",
                remedy="replace the symbolic link by a copy",
            )


def _require_writable(swaps: Sequence[_Swap]) -> None:
    """A rename would replace a write-protected file all the same; whoever protected it meant something else."""
    for swap in swaps:
        if swap.changes and swap.old is not None and not os.access(swap.target, os.W_OK):
            raise InputOutputError(
                f"cannot write {swap.target}: it is write-protected",
                remedy=_REMEDIES[errno.EACCES],
            )


def _missing_folders(root: Path, swaps: Iterable[_Swap]) -> tuple[str, ...]:
    real_root = root.resolve()
    missing = set()
    for swap in swaps:
        for folder in swap.target.relative_to(real_root).parents:
            if folder.parts and not os.path.lexists(real_root / folder):
                missing.add(folder.as_posix())
    return tuple(sorted(missing))


def _journal_files(swaps: Iterable[_Swap]) -> tuple[_JournalFile, ...]:
    return tuple(_JournalFile(swap.path, _digest(swap.old), _digest(swap.new)) for swap in swaps)


def _digest(content: bytes | None) -> str | None:
    return None if content is None else sha256(content)


def _run(home: Home, disk: Disk, journal: _Journal, swaps: Sequence[_Swap], after: Record | None) -> None:
    """Takes a transaction from nothing to settled, or back to nothing."""
    work = home.transaction
    try:
        _stage(home, disk, journal, swaps, after)
        disk.replace(work / "draft.json", work / "journal.json")
        disk.sync(work)
        _perform(home, disk, journal, swaps)
        disk.replace(work / "journal.json", work / "committed.json")
    except BaseException as error:
        try:
            _settle(home, disk, force=False)
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
        _finish(home, disk, journal)
    except InputOutputError as error:
        raise InputOutputError(
            [*error.problems, Problem("all files of the tree are written, but not yet the record of it")],
            remedy="see to the cause; the next candle-rocm command on the tree then completes the record",
        ) from error


def _stage(home: Home, disk: Disk, journal: _Journal, swaps: Sequence[_Swap], after: Record | None) -> None:
    """Puts everything on disk that performing, finishing and rolling back need: from there on they only rename."""
    work = home.transaction
    folders = {work, work / "old", work / "new"}
    folders |= {folder for swap in swaps for folder in _between(work / "old", work / "old" / swap.path)}
    for folder in sorted(folders):
        disk.make_folder(folder)
    for index, swap in enumerate(swaps):
        if swap.old is not None:
            disk.write(work / "old" / swap.path, swap.old, swap.mode, swap.owner)
        if swap.new is not None and swap.changes:
            disk.write(work / "new" / str(index), swap.new, swap.new_mode, swap.owner)
    if after is not None:
        disk.write(work / "record.json", encode_record(after))
    disk.write(work / "draft.json", journal.encode())
    for folder in sorted(folders):
        disk.sync(folder)
    disk.sync(home.folder)


def _between(top: Path, bottom: Path) -> Iterator[Path]:
    """The folders below `top` that lead to `bottom`."""
    for folder in bottom.parents:
        if folder == top:
            return
        yield folder


def _perform(home: Home, disk: Disk, journal: _Journal, swaps: Sequence[_Swap]) -> None:
    real_root = home.root.resolve()
    for folder in journal.made:
        disk.make_folder(real_root / folder)
    for index, swap in enumerate(swaps):
        if not swap.changes:
            continue
        if _identity(_status(swap.target)) != _identity(swap.status):
            raise HandEdited(f"{swap.path} was changed while it was about to be replaced", remedy="run this again")
        if swap.new is None:
            disk.unlink(swap.target)
        else:
            disk.replace(home.transaction / "new" / str(index), swap.target)
    for parent in sorted({swap.target.parent for swap in swaps if swap.changes}):
        disk.sync(parent)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identity(status: os.stat_result | None) -> tuple[int, int, int] | None:
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns)


def _settle(home: Home, disk: Disk, *, force: bool) -> bool:
    """Brings whatever is below `transaction/` to its end, and says whether there was something."""
    work = home.transaction
    if not os.path.lexists(work):
        return False
    if (work / "committed.json").exists():
        _finish(home, disk, _Journal.read(work / "committed.json"))
    elif (work / "journal.json").exists():
        _roll_back(home, disk, _Journal.read(work / "journal.json"), force=force)
    else:
        _clear(work, disk)
    return True


def _finish(home: Home, disk: Disk, journal: _Journal) -> None:
    """The bookkeeping of a committed transaction. Each step is skipped when it is done already."""
    work = home.transaction
    disk.sync(work)
    originals = home.original(journal.phase, "")
    if journal.reverting:
        for folder in reversed(journal.dropped):
            _drop(home.root.resolve() / folder, disk)
        if originals.exists():
            _clear(originals, disk)
    elif (work / "old").exists():
        if not home.originals.exists():
            disk.make_folder(home.originals)
        disk.replace(work / "old", originals)
        disk.sync(home.originals)
    if not journal.recorded:
        disk.unlink(home.record)
    elif (work / "record.json").exists():
        disk.replace(work / "record.json", home.record)
    disk.sync(home.folder)
    disk.unlink(work / "committed.json")
    _clear(work, disk)


def _roll_back(home: Home, disk: Disk, journal: _Journal, *, force: bool) -> None:
    work = home.transaction
    replaced = []
    edited = []
    for index, file in enumerate(journal.files):
        if file.old == file.new:
            continue
        target = _target(home.root, file.path)
        current = digest_of(target)
        not_reached = (work / "new" / str(index)).exists() if file.new is not None else current is not None
        if current == file.old or not_reached:
            continue
        if current != file.new:
            edited.append(Problem(f"{file.path} was changed after candle-rocm was interrupted while replacing it"))
        replaced.append((target, None if file.old is None else work / "old" / file.path))
    if edited and not force:
        raise HandEdited(
            edited,
            remedy=f"what the files were is below {work / 'old'}: move your version away or put that one back, "
            "then run the command again",
        )
    for target, original in reversed(replaced):
        if original is None:
            disk.unlink(target)
        else:
            disk.touch(original)
            disk.replace(original, target)
    for parent in sorted({target.parent for target, _ in replaced if target.parent.exists()}):
        disk.sync(parent)
    for folder in reversed(journal.made):
        _drop(home.root.resolve() / folder, disk)
    disk.unlink(work / "journal.json")
    _clear(work, disk)


def _drop(folder: Path, disk: Disk) -> None:
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        disk.remove_folder(folder)


def _clear(folder: Path, disk: Disk) -> None:
    """Deletes a folder and what is in it."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            _clear(entry, disk)
        else:
            disk.unlink(entry)
    disk.remove_folder(folder)
