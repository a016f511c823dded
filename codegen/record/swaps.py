"""The draft of a transaction: phases are applied and taken back in memory, and what remains are swaps of whole files.

A file that several phases change is read once and replaced once. What it was before each of these phases is kept all
the same, so that they can be taken back one at a time.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, HandEdited, InputOutputError, Problem
from codegen.patch.merge import MergeConflict, merged
from codegen.patch.undo import undo_edits
from codegen.record.disk import remedy_for
from codegen.record.fields import checked_path
from codegen.record.home import reading
from codegen.record.record import AppliedFile, AppliedPhase, Declared, blob_name, sha256, target_of
from codegen.record.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codegen.patch.changes import FileChange, PhaseChanges
    from codegen.record.record import Record


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
    is_original: bool
    """Whether the old content is kept as what the file was before a phase."""
    status: os.stat_result | None
    """Of `target` when `old` was read."""

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group."""
        return owner_of(self.status)


@dataclass(frozen=True, slots=True)
class Original:
    """What a file is before a phase, to be kept for taking that phase back."""

    path: str
    content: Content
    owner: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Discarded:
    """What somebody made of a file, and what is overwritten or deleted because they said so."""

    path: str
    content: Content
    owner: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A file as it is on disk, and under which name the transaction came upon it."""

    path: str
    content: Content | None
    status: os.stat_result | None


@dataclass(frozen=True, slots=True)
class _Own:
    """A file with edits of the user's own, which are to stay: merged into what the phases make of its base."""

    base: bytes
    own: bytes


@dataclass(frozen=True, slots=True)
class Renewal:
    """What an upgrade makes of a tree: other files of Candle below the phases, and the owner's edits on top of them."""

    phases: tuple[PhaseChanges, ...]
    pristine: Mapping[str, bytes | None]
    """What files are before all phases, those that this changes and those that phases change; None for none."""
    final: Mapping[str, bytes | None]
    """What files become in the end where that is not what the phases make of them."""
    found: Mapping[str, str | None]
    """SHA-256 of each of these files, and of those that the phases make, when all of this was thought out."""
    declared: frozenset[str]
    """Files whose edits stay declared."""
    executable: frozenset[str] = frozenset()
    """New files that are programs."""


class Draft:
    """A tree as the phases taken back and applied so far would leave it. Nothing is written.

    Files with declared edits take part as what they were without them; the edits are merged in at the end.
    """

    def __init__(
        self,
        root: Path,
        record: Record | None,
        *,
        keep_edits: bool = False,
        given: Mapping[str, bytes] | None = None,
    ) -> None:
        self._root = root
        self._record = record
        self._texts = None if record is None else Texts(root, record, given)
        self._history = {} if record is None else record.history()
        self._declared = {} if record is None else record.own
        self._keep_edits = keep_edits
        self._found: dict[Path, _Found] = {}
        self._now: dict[Path, Content | None] = {}
        self._own: dict[Path, _Own] = {}
        self._originals: dict[str, Original] = {}
        self._discarded: dict[Path, Discarded] = {}
        self._dropped: set[str] = set()
        self._emptied: set[str] = set()
        self._made: set[str] = set()

    def take_back(self, phases: Iterable[AppliedPhase], *, force: bool) -> None:
        """Gives back what the files were before each of `phases`, in that order.

        A file may be what the phases left, or what it was before any of them. Raises `HandEdited`, unless `force`, when
        it is something else, and `Conflict` when what it was cannot be derived.
        """
        edited = []
        for phase in phases:
            for file in phase.files:
                target = target_of(self._root, file.path)
                if target not in self._found:
                    current = self._look(target, file.path)
                    if not self._is_known(target, file.path, current):
                        reason = (
                            "is missing" if current is None else f"was changed since phase {phase.phase} was applied"
                        )
                        if self._keep_edits and current is not None:
                            reason += ", and the text that was written there cannot be found"
                        edited.append(Problem(f"{file.path} {reason}"))
                        self._discard(target)
                elif not _has(self._now[target], file.after):  # edits that a later phase was forced over
                    edited.append(Problem(f"{file.path} was changed since phase {phase.phase} was applied"))
                    self._discard(target, self._now[target])
                self._now[target] = self._original(phase.phase, file, self._now[target])
            self._dropped.update(phase.folders)
        if edited and not force:
            raise HandEdited(
                edited,
                remedy="declare the edits (candle-rocm declare) or merge them (--keep-edits), undo them in those "
                "files, or discard them with --force, which keeps a backup",
            )

    def apply(self, phases: Sequence[PhaseChanges], *, force: bool) -> tuple[AppliedPhase, ...]:
        """Makes the changes of each of `phases`, and returns what the record is to say of them.

        Raises `HandEdited`, unless `force`, when a file is neither what the plan was made from nor what it leads to,
        and `Conflict` when two paths of a phase are the same file.
        """
        edited: list[Problem] = []
        applied = []
        for phase in phases:
            _require_distinct(self._root, phase.changes)
            files = [self._change(change, edited) for change in phase.changes]
            folders = self._missing(target_of(self._root, file.path) for file in files) - self._made
            self._made |= folders
            files.sort(key=lambda file: file.path)
            applied.append(AppliedPhase(phase.phase, tuple(files), tuple(sorted(folders))))
        if edited and not force:
            raise HandEdited(edited, remedy="undo the edits in those files, or overwrite them with --force")
        return tuple(applied)

    def renew(self, renewal: Renewal) -> tuple[tuple[AppliedPhase, ...], tuple[Declared, ...]]:
        """Puts what an upgrade makes of the tree in place of all that is applied; the phases, and the declared edits.

        Raises `HandEdited` when a file is no longer what the upgrade was thought out for, and `Conflict` when two paths
        are the same file.
        """
        edited = []
        for phase in self._record.phases if self._record is not None else ():
            self._dropped.update(phase.folders)
        for path, digest in renewal.found.items():
            target = target_of(self._root, checked_path(path))
            if target in self._found:
                raise Conflict(
                    f"{self._found[target].path} and {path} are the same file, {target}",
                    remedy="replace the symbolic link by a copy",
                )
            content, status = _read(target)
            if (None if content is None else sha256(content.data)) != digest:
                edited.append(Problem(f"{path} was changed while this command worked"))
            self._found[target], self._now[target] = _Found(path, content, status), content
            if path in renewal.pristine:
                self._put(target, renewal.pristine[path])
        if edited:
            raise HandEdited(edited, remedy="run the command again")
        self._made.update(
            folder for path, text in renewal.pristine.items() if text is not None for folder in _above(path)
        )
        applied = self.apply(renewal.phases, force=False)
        declared = []
        for path, text in renewal.final.items():
            target = target_of(self._root, path)
            made = self._now[target]
            self._put(target, text, is_program=path in renewal.executable)
            if text is None and renewal.found[path] is not None:
                self._emptied.update(_above(path))
            if path in renewal.declared and made is not None and text is not None and text != made.data:
                declared.append(Declared(path, sha256(made.data), sha256(text), undo_edits(made.data, text)))
        return applied, tuple(sorted(declared, key=lambda each: each.path))

    def _put(self, target: Path, data: bytes | None, *, is_program: bool = False) -> None:
        """Lets a file have this content; what it has besides stays what it is on disk."""
        old = self._found[target].content
        mode = _usual_mode(is_program=is_program) if old is None else old.mode
        self._now[target] = None if data is None else Content(data, mode, () if old is None else old.attributes)

    def merge(self, after: Record | None, *, force: bool) -> tuple[Declared, ...]:
        """Puts the user's own edits into what became of their files, and returns those that `after` is to declare.

        Raises `HandEdited`, unless `force`, where they conflict.
        """
        left = {} if after is None else after.left()
        declared, conflicts = [], []
        for target, own in tuple(self._own.items()):
            path, new = self._found[target].path, self._now[target]
            try:
                text = _merged(own, new)
            except MergeConflict as conflict:
                if new is not None and not names_rocm(own.own):
                    self._now[target] = Content(own.own, new.mode, new.attributes)
                    continue
                conflicts.append(Problem(f"{path}: your own edits {_where(conflict)}"))
                self._discard(target)
                continue
            if new is not None and text is not None:
                self._now[target] = Content(text, new.mode, new.attributes)
            if path in self._declared and text is not None and path in left and sha256(text) != left[path]:
                assert new is not None
                declared.append(Declared(path, left[path], sha256(text), undo_edits(new.data, text)))
        if conflicts and not force:
            raise HandEdited(
                conflicts,
                remedy="undo the edits in those files, do this, and make them again; or discard them with --force, "
                "which keeps a backup",
            )
        found = {self._found[target].path for target in self._found}
        rest = [each for path, each in self._declared.items() if path not in found and left.get(path) == each.base]
        return tuple(sorted((*declared, *rest), key=lambda each: each.path))

    def keep_old(self, phases: Iterable[AppliedPhase]) -> tuple[AppliedPhase, ...]:
        """Phases of a record of schema 1 as schema 2 has them; what they keep is kept in the new way."""
        assert self._texts is not None
        return tuple(replace(phase, files=tuple(map(self._modern, phase.files))) for phase in phases)

    def _modern(self, file: AppliedFile) -> AppliedFile:
        assert self._texts is not None
        before = None if file.before is None else self._texts.get(file.path, file.before)
        after = self._texts.get(file.path, file.after)
        if before is not None and file.mode is not None:
            self._originals.setdefault(sha256(before), Original(file.path, Content(before, file.mode), None))
        return AppliedFile(
            *(file.path, file.before, file.after, file.mode),
            None if before is None else blob_name(before),
            None if after is None else blob_name(after),
            None if before is None or after is None else undo_edits(before, after),
        )

    def swaps(self) -> tuple[Swap, ...]:
        """The files that have another content in the end. Raises `InputOutputError` for a write-protected one."""
        return tuple(self._swaps())

    @property
    def originals(self) -> Mapping[str, Original]:
        """What has to be kept of the phases applied, by its hash."""
        return self._originals

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """What is lost but for the backup, sorted by path."""
        lost = (each for target, each in self._discarded.items() if not _same(each.content, self._now[target]))
        return tuple(sorted(lost, key=lambda each: each.path))

    @property
    def dropped(self) -> tuple[str, ...]:
        """Folders, parents first, that the phases taken back had made, and those of files that an upgrade deletes."""
        return tuple(sorted(self._dropped | self._emptied))

    def _change(self, change: FileChange, edited: list[Problem]) -> AppliedFile:
        target = target_of(self._root, checked_path(change.path))
        self._look(target, change.path)
        current = self._now[target]
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
            self._discard(target)
        self._now[target] = (
            Content(change.after, _usual_mode())
            if current is None
            else Content(change.after, current.mode, current.attributes)
        )
        after = sha256(change.after), blob_name(change.after)
        if current is None:
            return AppliedFile(change.path, None, after[0], None, None, after[1])
        before = sha256(current.data)
        self._originals[before] = Original(change.path, current, owner_of(self._found[target].status))
        undo = undo_edits(current.data, change.after)
        return AppliedFile(change.path, before, after[0], current.mode, blob_name(current.data), after[1], undo)

    def _original(self, phase: int, file: AppliedFile, current: Content | None) -> Content | None:
        """What the file was before the phase; its extended attributes stay what they are now."""
        assert self._texts is not None
        data = self._texts.before(phase, file)
        if data is None or file.mode is None:
            return None
        return Content(data, file.mode, self._texts.attributes(file.before) if current is None else current.attributes)

    def _look(self, target: Path, path: str) -> Content | None:
        """What the file is on disk. From then on it takes part in the draft, without the user's own edits."""
        if target not in self._found:
            content, status = _read(target)
            self._found[target] = _Found(path, content, status)
            self._now[target] = content
            declared = self._declared.get(path)
            if declared is not None and content is not None and sha256(content.data) == declared.own:
                self._set_aside(target, path, content, declared.base)
        return self._found[target].content

    def _set_aside(self, target: Path, path: str, content: Content, base: str) -> bool:
        """Whether the edits could be told from what they were made on; they are merged in at the end."""
        assert self._texts is not None
        text = self._texts.get(path, base)
        if text is None:
            return False
        self._own[target] = _Own(text, content.data)
        self._now[target] = Content(text, content.mode, content.attributes)
        return True

    def _is_known(self, target: Path, path: str, current: Content | None) -> bool:
        if target in self._own:
            return True
        files = self._history[path]
        if current is None:
            return files[0].before is None
        if sha256(current.data) in {digest for file in files for digest in (file.before, file.after)}:
            return True
        return self._keep_edits and self._set_aside(target, path, current, files[-1].after)

    def _discard(self, target: Path, content: Content | None = None) -> None:
        """Notes that this content, by default what is on disk, is lost but for a backup."""
        found = self._found[target]
        self._own.pop(target, None)
        content = content or found.content
        if content is not None and target not in self._discarded:
            self._discarded[target] = Discarded(found.path, content, owner_of(found.status))

    def _missing(self, targets: Iterable[Path]) -> set[str]:
        """The folders above `targets` that do not exist, or were made by phases that are taken back."""
        return set(missing_folders(self._root, targets, also=self._dropped))

    def _swaps(self) -> Iterator[Swap]:
        claimed: set[str] = set()
        for target, found in self._found.items():
            old, new = found.content, self._now[target]
            if _same(old, new):
                continue
            if old is not None:
                _require_replaceable(target, found, gone=new is None)
            digest = "" if old is None else sha256(old.data)
            kept = self._originals.get(digest)
            is_original = kept is not None and kept.path == found.path and digest not in claimed
            if is_original:
                claimed.add(digest)
            yield Swap(found.path, target, old, new, is_original, found.status)


def names_rocm(text: bytes) -> bool:
    """Whether there may be anything of a phase in a text: each edit of Candle's files names ROCm somewhere.

    A file that was resolved to another release's version in a merge has nothing to be taken out of it.
    """
    return b"rocm" in text.lower()


def _has(content: Content | None, digest: str) -> bool:
    return content is not None and sha256(content.data) == digest


def _same(one: Content | None, other: Content | None) -> bool:
    return (None if one is None else one.data) == (None if other is None else other.data)


def _merged(own: _Own, new: Content | None) -> bytes | None:
    """Raises `MergeConflict`: also where the file is to go, and its edits would go with it."""
    if new is None:
        if own.own == own.base:
            return None
        raise MergeConflict(())
    return merged(own.base, own.own, new.data)


def _where(conflict: MergeConflict) -> str:
    if not conflict.lines:
        return "would go with the file, which candle-rocm made"
    lines = ", ".join(map(str, conflict.lines[:10]))
    return f"conflict with what becomes of the file ({'line' if len(conflict.lines) == 1 else 'lines'} {lines})"


def _above(path: str) -> tuple[str, ...]:
    """The folders of a tree that a path of it leads through."""
    return tuple(folder.as_posix() for folder in PurePosixPath(path).parents if folder.parts)


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


def _usual_mode(*, is_program: bool = False) -> int:
    """Permission bits of a new file: the umask can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return (0o777 if is_program else 0o666) & ~umask


def _read(target: Path) -> tuple[Content | None, os.stat_result | None]:
    try:
        found = beneath.read(target, attributes=True)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL):
            raise Conflict(
                f"{target} is not a regular file", remedy="move it away: it must be a regular file"
            ) from error
        raise InputOutputError(
            f"cannot read {target}: {error.strerror}",
            remedy=remedy_for(error.errno, "make it readable, then run the command again"),
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
        writable = folder.may_write(name)
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
