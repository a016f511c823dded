"""Opened folders, and system calls that begin at one.

Where the system has descriptors of folders, a path is walked one component at a time, each opened relative to the one
before it. So it does not matter what is put in the place of a folder between a look and the use of it. Windows has no
such descriptors: there a folder is its path, each component of which is looked at and must be no link and no junction.
What somebody changes between that look and the use of it is not noticed there.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HAS_DESCRIPTORS = os.open in os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_LISTED = os.O_RDONLY | _FOLDER
_SEARCHED = getattr(os, "O_PATH", os.O_RDONLY) | _FOLDER
"""To search a folder needs no permission to list it, where the system has such descriptors."""
_PLAIN = _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""For a file that is meant to be a regular one: a link is refused, and nothing else is waited for."""


class Folder(ABC):
    """An opened folder. Links are not followed; what fails raises `OSError`, ELOOP or ENOTDIR for a link."""

    @abstractmethod
    def inside(self, name: str) -> Folder:
        """The folder of that name in this one, to be closed as well."""

    @abstractmethod
    def close(self) -> None:
        """Gives it back."""

    @abstractmethod
    def open_file(self, name: str, flags: int, mode: int = 0o666) -> int:
        """The descriptor of a file in it."""

    @abstractmethod
    def status(self, name: str) -> os.stat_result:
        """What has that name in it."""

    @abstractmethod
    def names(self) -> Iterator[str]:
        """The names in it, in no order."""

    @abstractmethod
    def make(self, name: str) -> None:
        """Makes a folder in it."""

    @abstractmethod
    def rename(self, name: str, to: Folder, new_name: str) -> None:
        """Moves a file to another folder, where it replaces one that has the new name."""

    @abstractmethod
    def unlink(self, name: str) -> None:
        """Removes a file."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes an empty folder."""

    @abstractmethod
    def touch(self, name: str) -> None:
        """Gives a file the time of now."""

    @abstractmethod
    def may_write(self, name: str) -> bool:
        """Whether a file in it may be written."""

    @abstractmethod
    def to_flush(self, name: str) -> int | None:
        """A descriptor of the folder of that name, to be flushed; None where the system flushes no folders."""


def opened(path: str | Path, *, links: bool = False) -> Folder:
    """The folder at a path, whose last component may be a link if `links`. Raises `OSError` as `Folder`."""
    if HAS_DESCRIPTORS:
        return Descriptor(os.open(path, _SEARCHED | (0 if links else _NO_LINK)))
    return Named.checked(Path(path), links=links)


def is_link(found: os.stat_result) -> bool:
    """Whether it leads elsewhere: a symbolic link, or one of Windows' junctions."""
    junction = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return stat.S_ISLNK(found.st_mode) or (junction is not None and getattr(found, "st_reparse_tag", 0) == junction)


@dataclass(frozen=True, slots=True)
class Descriptor(Folder):
    """A folder by its descriptor."""

    number: int

    def inside(self, name: str) -> Folder:
        return Descriptor(os.open(name, _SEARCHED | _NO_LINK, dir_fd=self.number))

    def close(self) -> None:
        os.close(self.number)

    def open_file(self, name: str, flags: int, mode: int = 0o666) -> int:
        return os.open(name, flags | _PLAIN, mode, dir_fd=self.number)

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self.number, follow_symlinks=False)

    def names(self) -> Iterator[str]:
        listed = os.open(".", _LISTED, dir_fd=self.number)
        try:
            with os.scandir(listed) as entries:
                for entry in entries:
                    yield entry.name
        finally:
            os.close(listed)

    def make(self, name: str) -> None:
        os.mkdir(name, dir_fd=self.number)

    def rename(self, name: str, to: Folder, new_name: str) -> None:
        assert isinstance(to, Descriptor)
        os.rename(name, new_name, src_dir_fd=self.number, dst_dir_fd=to.number)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.number)

    def remove(self, name: str) -> None:
        os.rmdir(name, dir_fd=self.number)

    def touch(self, name: str) -> None:
        os.utime(name, dir_fd=self.number, follow_symlinks=False)

    def may_write(self, name: str) -> bool:
        return os.access(name, os.W_OK, dir_fd=self.number)

    def to_flush(self, name: str) -> int | None:
        return os.open(name, _LISTED | _NO_LINK, dir_fd=self.number)


@dataclass(frozen=True, slots=True)
class Named(Folder):
    """A folder by its path."""

    path: Path

    @classmethod
    def checked(cls, path: Path, *, links: bool = False) -> Named:
        """The folder at a path, after a look at what is there."""
        found = path.stat() if links else path.lstat()
        if is_link(found):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return cls(path)

    def inside(self, name: str) -> Folder:
        return self.checked(self.path / name)

    def close(self) -> None:
        """Nothing is open."""

    def open_file(self, name: str, flags: int, mode: int = 0o666) -> int:
        path = self.path / name
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        return os.open(path, flags | _PLAIN, mode)

    def status(self, name: str) -> os.stat_result:
        return (self.path / name).lstat()

    def names(self) -> Iterator[str]:
        with os.scandir(self.path) as entries:
            for entry in entries:
                yield entry.name

    def make(self, name: str) -> None:
        (self.path / name).mkdir()

    def rename(self, name: str, to: Folder, new_name: str) -> None:
        assert isinstance(to, Named)
        (self.path / name).replace(to.path / new_name)

    def unlink(self, name: str) -> None:
        (self.path / name).unlink()

    def remove(self, name: str) -> None:
        (self.path / name).rmdir()

    def touch(self, name: str) -> None:
        os.utime(self.path / name)

    def may_write(self, name: str) -> bool:
        return os.access(self.path / name, os.W_OK)

    def to_flush(self, name: str) -> int | None:  # noqa: ARG002 - it flushes none
        return None
