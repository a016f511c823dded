"""The disk: everything that changes a tree goes through here, one small step at a time."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WRITABLE = "give yourself write permission there (chmod u+w, or run as the owner), then run the command again"
_REMEDIES = {
    errno.ENOSPC: "free some space on that disk, then run the command again",
    errno.EDQUOT: "free some of your disk quota, then run the command again",
    errno.EROFS: "the disk is mounted read-only: work on a copy of the tree, or mount it writable",
    errno.EACCES: _WRITABLE,
    errno.EPERM: _WRITABLE,
}


def remedy_for(code: int | None, otherwise: str = "see to that file or folder, then run the command again") -> str:
    """What to do about the system's error number `code`."""
    return _REMEDIES.get(code or 0, otherwise)


class Disk:
    """The changes that a transaction makes. Each method names path and remedy in its `InputOutputError`."""

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
        """Removes an empty folder."""
        with self._changing("delete", path):
            path.rmdir()

    def drop(self, folder: Path) -> None:
        """Removes a folder where it is one and nothing is in it."""
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            self.remove_folder(folder)

    def clear(self, folder: Path) -> None:
        """Removes a folder and what is in it."""
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                self.clear(entry)
            else:
                self.unlink(entry)
        self.remove_folder(folder)

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
            raise InputOutputError(f"cannot {verb} {path}: {error.strerror}", remedy=remedy_for(error.errno)) from error


DISK = Disk()
