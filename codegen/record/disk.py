"""The disk: everything that changes a tree goes through here, one small step at a time, and through no link.

Two files change places in one step of the system (`renameat2` with RENAME_EXCHANGE), so that what was in the place can
be looked at when nobody can change it there any more. Linux does that on ext4, xfs, btrfs, f2fs and tmpfs; where it is
not to be had, such as on NFS, `exchange`, `place` and `take` say so, and the caller looks right before it renames.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, InputOutputError
from codegen.record import renames

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codegen.folders import Folder

_HAS_OWNERS = hasattr(os, "fchown")
"""Whether files have an owner, a group, and permission bits for each: not on Windows."""
DEEPEST = 64
"""Folders in each other that are cleared away; candle-rocm makes about ten."""
_WRITABLE = "give yourself write permission there (chmod u+w, or run as the owner), then run the command again"
_REMEDIES = {
    errno.ENOSPC: "free some space on that disk, then run the command again",
    errno.EDQUOT: "free some of your disk quota, then run the command again",
    errno.EROFS: "the disk is mounted read-only: work on a copy of the tree, or mount it writable",
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
    errno.ELOOP: "candle-rocm follows no link there: see who made it, and delete it or put a folder in its place",
    errno.EFBIG: "candle-rocm did not write that: find out who did, and move it away",
}


def remedy_for(code: int | None, otherwise: str = "check that file or folder, then run the command again") -> str:
    """What to do about the system's error number `code`."""
    return _REMEDIES.get(code or 0, otherwise)


class Disk:
    """The changes that a transaction makes. Each method names path and remedy in its `InputOutputError`.

    Paths are absolute, and no part of one may be a link.
    """

    def step(self, verb: str, path: Path) -> None:
        """Called before each single change; tests raise an `OSError` here, or end the process."""

    def make_folder(self, path: Path) -> None:
        with self._changing("create", path) as (folder, name):
            folder.make(name)

    def write(
        self,
        path: Path,
        content: bytes,
        mode: int | None = None,
        owner: tuple[int, int] | None = None,
        attributes: beneath.Attributes = (),
    ) -> None:
        """Makes a file, where there is none, that survives a loss of power.

        It gets the permission bits and extended attributes given and, where allowed, the owner.
        """
        with self._changing("create", path) as (folder, name):
            descriptor = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            with self._changing("write", path):
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
                if owner is not None and _HAS_OWNERS and owner != (os.geteuid(), os.getegid()):
                    with suppress(PermissionError):
                        os.fchown(descriptor, *owner)
                beneath.set_attributes(descriptor, attributes)
                if mode is not None and _HAS_OWNERS:
                    os.fchmod(descriptor, mode)
            with self._changing("write", path):
                self.flush(descriptor)

    def touch(self, path: Path) -> None:
        with self._changing("write", path) as (folder, name):
            folder.touch(name)

    def replace(self, source: Path, target: Path) -> None:
        with self._changing("write", target) as (to, name), beneath.parent(source) as (folder, old_name):
            folder.rename(old_name, to, name)

    def exchange(self, source: Path, target: Path) -> bool:
        """Lets two files change places. False where the system cannot, and then nothing was done.

        Raises `FileNotFoundError` when one of them is gone.
        """
        return self._rename("write", target, source, target, renames.EXCHANGE)

    def place(self, source: Path, target: Path) -> bool:
        """Moves a file to where none is; False as `exchange`. Raises `FileExistsError` where one is."""
        return self._rename("write", target, source, target, renames.NO_REPLACE)

    def take(self, source: Path, aside: Path) -> bool:
        """Moves a file away, to where none is; False as `exchange`. Raises as `exchange` and `place`."""
        return self._rename("delete", source, source, aside, renames.NO_REPLACE)

    def _rename(self, verb: str, named: Path, source: Path, target: Path, how: int) -> bool:
        try:
            with (
                self._changing(verb, named),
                beneath.parent(source) as (folder, name),
                beneath.parent(target) as (to, new_name),
            ):
                return renames.rename(folder, name, to, new_name, how)
        except InputOutputError as error:
            if isinstance(error.__cause__, FileNotFoundError | FileExistsError):
                raise error.__cause__ from None
            raise

    def unlink(self, path: Path) -> None:
        with self._changing("delete", path) as (folder, name), suppress(FileNotFoundError):
            folder.unlink(name)

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder."""
        with self._changing("delete", path) as (folder, name):
            folder.remove(name)

    def drop(self, folder: Path) -> None:
        """Removes a folder where it is one, is reached through no link, and nothing is in it."""
        try:
            found = beneath.status(folder)
            is_empty = found is not None and stat.S_ISDIR(found.st_mode) and not beneath.names(folder)
        except OSError:
            return
        if is_empty:
            self.remove_folder(folder)

    def clear(self, folder: Path) -> None:
        """Removes a folder and what is in it. Raises `Conflict` for folders in each other as nobody makes them."""
        self._clear(folder, 0)

    def _clear(self, folder: Path, depth: int) -> None:
        if depth > DEEPEST:
            raise Conflict(
                f"{folder.parents[depth - 1]} has more than {DEEPEST} folders in each other",
                remedy="candle-rocm did not make them: find out who did, and delete them",
            )
        for path in self._entries(folder):
            if self._is_folder(path):
                self._clear(path, depth + 1)
            else:
                self.unlink(path)
        self.remove_folder(folder)

    def _entries(self, folder: Path) -> list[Path]:
        try:
            return [folder / name for name in beneath.names(folder)]
        except OSError as error:
            raise _failure("delete", folder, error) from error

    def _is_folder(self, path: Path) -> bool:
        try:
            found = beneath.status(path)
        except OSError as error:
            raise _failure("delete", path, error) from error
        return found is not None and stat.S_ISDIR(found.st_mode)

    def sync(self, folder: Path) -> None:
        """Makes the names in `folder` survive a loss of power."""
        with self._changing("write", folder) as (parent, name):
            descriptor = parent.to_flush(name)
            if descriptor is None:
                return
            try:
                self.flush(descriptor)
            finally:
                os.close(descriptor)

    def flush(self, descriptor: int) -> None:
        """Waits until a file or folder is on the medium."""
        os.fsync(descriptor)

    @contextmanager
    def _changing(self, verb: str, path: Path) -> Iterator[tuple[Folder, str]]:
        try:
            self.step(verb, path)
            with beneath.parent(path) as found:
                yield found
        except OSError as error:
            raise _failure(verb, path, error) from error


def _failure(verb: str, path: Path, error: OSError) -> InputOutputError:
    return InputOutputError(f"cannot {verb} {path}: {error.strerror}", remedy=remedy_for(error.errno))


DISK = Disk()
