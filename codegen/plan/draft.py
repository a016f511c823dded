"""The draft of a transaction: phases are applied and taken back in memory, and what remains are swaps of whole files.

A file that several phases change is read once and replaced once. What it was before each of these phases is kept all
the same, so that they can be taken back one at a time.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, HandEdited, InputOutputError, Problem
from codegen.plan.disk import remedy_for
from codegen.plan.fields import checked_path
from codegen.plan.record import AppliedFile, AppliedPhase, original, reading, sha256, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from codegen.plan.model import FileChange, PhaseChanges


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds, its permission bits and extended attributes."""

    data: bytes
    mode: int
    attributes: beneath.Attributes = ()


@dataclass(frozen=True, slots=True)
class Swap:
    """One file of a transaction: what it is now, and what it becomes. None means: no such file."""

    path: str
    target: Path
    """Where `path` leads, links inside the tree followed."""
    old: Content | None
    new: Content | None
    original_of: int | None
    """The phase as whose original the old content is kept, None when there is none."""
    status: os.stat_result | None
    """Of `target` when `old` was read."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group."""
        return owner_of(self.status)


@dataclass(frozen=True, slots=True)
class Original:
    """What a file is before a phase, to be kept for taking that phase back."""

    phase: int
    path: str
    content: Content
    owner: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A file as it is on disk, and under which name the transaction came upon it."""

    path: str
    content: Content | None
    status: os.stat_result | None
    original_of: int | None


class Draft:
    """A tree as the phases taken back and applied so far would leave it. Nothing is written."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: dict[Path, _Found] = {}
        self._now: dict[Path, Content | None] = {}
        self._originals: list[Original] = []
        self._dropped: set[str] = set()
        self._made: set[str] = set()

    def take_back(self, phases: Iterable[AppliedPhase], *, force: bool) -> None:
        """Gives back what the files were before each of `phases`, in that order.

        Raises `HandEdited`, unless `force`, when a file is not what its phase left, and `Conflict` when what it was is
        missing or damaged.
        """
        edited = []
        for phase in phases:
            for file in phase.files:
                target = target_of(self._root, file.path)
                current = self._look(target, file.path)
                if (None if current is None else sha256(current.data)) != file.after:
                    reason = "is missing" if current is None else f"was changed since phase {phase.phase} was applied"
                    edited.append(Problem(f"{file.path} {reason}"))
                self._now[target] = self._original(phase.phase, file, current)
            self._dropped.update(phase.folders)
        if edited and not force:
            raise HandEdited(edited, remedy="take the edits out of those files, or lose them with --force")

    def apply(self, phases: Sequence[PhaseChanges], *, force: bool) -> tuple[AppliedPhase, ...]:
        """Makes the changes of each of `phases`, and returns what the record is to say of them.

        Raises `HandEdited`, unless `force`, when a file is neither what the plan was made from nor what it leads to,
        and `Conflict` when two paths of a phase are the same file.
        """
        edited: list[Problem] = []
        applied = []
        for phase in phases:
            _require_distinct(self._root, phase.changes)
            files = [self._change(phase.phase, change, edited) for change in phase.changes]
            folders = self._missing(target_of(self._root, file.path) for file in files) - self._made
            self._made |= folders
            files.sort(key=lambda file: file.path)
            applied.append(AppliedPhase(phase.phase, tuple(files), tuple(sorted(folders))))
        if edited and not force:
            raise HandEdited(edited, remedy="take the edits out of those files, or overwrite them with --force")
        return tuple(applied)

    def swaps(self) -> tuple[Swap, ...]:
        """The files that have another content in the end. Raises `InputOutputError` for a write-protected one."""
        return tuple(self._swaps())

    @property
    def originals(self) -> tuple[Original, ...]:
        """What has to be kept of the phases applied."""
        return tuple(self._originals)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Folders, parents first, that the phases taken back had made."""
        return tuple(sorted(self._dropped))

    def _change(self, phase: int, change: FileChange, edited: list[Problem]) -> AppliedFile:
        target = target_of(self._root, checked_path(change.path))
        current = self._look(target, change.path, phase)
        data = None if current is None else current.data
        if data not in (change.before, change.after):
            reason = (
                "is missing"
                if data is None
                else "exists already"
                if change.before is None
                else "is not what the plan was made from"
            )
            edited.append(Problem(f"{change.path} {reason}"))
        self._now[target] = (
            Content(change.after, _usual_mode())
            if current is None
            else Content(change.after, current.mode, current.attributes)
        )
        if current is None:
            return AppliedFile(change.path, None, sha256(change.after), None)
        self._originals.append(Original(phase, change.path, current, owner_of(self._found[target].status)))
        return AppliedFile(change.path, sha256(current.data), sha256(change.after), current.mode)

    def _original(self, phase: int, file: AppliedFile, current: Content | None) -> Content | None:
        """What the file was before the phase; its extended attributes stay what they are now."""
        found = original(self._root, phase, file)
        if found is None or file.mode is None:
            return None
        return Content(found.data, file.mode, found.attributes if current is None else current.attributes)

    def _look(self, target: Path, path: str, phase: int | None = None) -> Content | None:
        if target not in self._found:
            content, status = _read(target)
            self._found[target] = _Found(path, content, status, phase if content is not None else None)
            self._now[target] = content
        return self._now[target]

    def _missing(self, targets: Iterable[Path]) -> set[str]:
        """The folders above `targets` that do not exist, or were made by phases that are taken back."""
        return set(missing_folders(self._root, targets, also=self._dropped))

    def _swaps(self) -> Iterator[Swap]:
        for target, found in self._found.items():
            old, new = found.content, self._now[target]
            if (old.data if old is not None else None) == (new.data if new is not None else None):
                continue
            if old is not None:
                _require_replaceable(target, found, gone=new is None)
            yield Swap(found.path, target, old, new, found.original_of, found.status)


def missing_folders(root: Path, targets: Iterable[Path], also: Iterable[str] = ()) -> tuple[str, ...]:
    """The folders of the tree above `targets` that do not exist or are among `also`, parents first."""
    real_root = root.resolve()
    counted = set(also)
    missing = set()
    for target in targets:
        for folder in target.relative_to(real_root).parents:
            if folder.parts and (folder.as_posix() in counted or not os.path.lexists(real_root / folder)):
                missing.add(folder.as_posix())
    return tuple(sorted(missing))


def owner_of(status: os.stat_result | None) -> tuple[int, int] | None:
    """User and group of a file."""
    return None if status is None else (status.st_uid, status.st_gid)


def _usual_mode() -> int:
    """Permission bits of a new file: the umask can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o666 & ~umask


def _read(target: Path) -> tuple[Content | None, os.stat_result | None]:
    try:
        found = beneath.read(target, attributes=True)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            raise Conflict(f"{target} is not a regular file", remedy="move it away: a file belongs there") from error
        raise InputOutputError(
            f"cannot read {target}: {error.strerror}",
            remedy=remedy_for(error.errno, "make it readable for you, then run the command again"),
        ) from error
    if found is None:
        return None, None
    return Content(found.data, stat.S_IMODE(found.status.st_mode), found.attributes), found.status


def _require_replaceable(target: Path, found: _Found, *, gone: bool) -> None:
    """Raises `InputOutputError` for a write-protected file, and `Conflict` for one that has other names.

    A rename would replace the first all the same, and whoever protected it meant something else. Under the other names
    of the second the old bytes would stay, which does not matter where the file is to be gone.
    """
    with reading(target), beneath.parent(target) as (folder, name):
        writable = os.access(name, os.W_OK, dir_fd=folder)
    if not writable:
        raise InputOutputError(f"cannot write {target}: it is write-protected", remedy=remedy_for(errno.EACCES))
    if not gone and found.status is not None and found.status.st_nlink > 1:
        raise Conflict(
            f"{target} is one of {found.status.st_nlink} names of the same file (hard links), and the others would not "
            "be changed with it",
            remedy=f"make it a file of its own (cp -p {found.path} copy; mv copy {found.path}), or work on a copy of "
            "the tree",
        )


def _require_distinct(root: Path, changes: Iterable[FileChange]) -> None:
    seen: dict[Path, str] = {}
    for change in changes:
        target = target_of(root, checked_path(change.path))
        if target in seen:
            raise Conflict(
                f"{seen[target]} and {change.path} are the same file, {target}",
                remedy="replace the symbolic link by a copy",
            )
        seen[target] = change.path
