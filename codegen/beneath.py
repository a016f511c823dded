"""Files in folders that somebody else arranged: reached through no link, of regular files only, and bounded in size.

A path is walked one component at a time, and none of them is a link (folders.py says how). Paths are absolute; those
above the folder in question were made free of links by `Path.resolve`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen import folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codegen.folders import Folder

LARGEST = 32 << 20
"""Bytes of a file that is read: a hundred times what the largest one of Candle has."""
MOST_NAMES = 20_000
"""Names in one folder that is listed."""
Attributes = tuple[tuple[str, bytes], ...]
"""Extended attributes: names and values, access control lists among them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file."""

    data: bytes
    status: os.stat_result
    attributes: Attributes = ()


@contextmanager
def parent(path: Path) -> Iterator[tuple[Folder, str]]:
    """The opened folder that `path` is in, and the name in it, which may be missing or a link.

    Raises `OSError`: ELOOP where the folder is a link or lies behind one, ENOENT and ENOTDIR as the system does.
    """
    with _folder(path.parent) as folder:
        yield folder, path.name


def status(path: Path) -> os.stat_result | None:
    """What is there, links not followed; None where nothing is. Raises `OSError` as `parent`."""
    try:
        with parent(path) as (folder, name):
            return folder.status(name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read(path: Path, *, limit: int = LARGEST, attributes: bool = False) -> Found | None:
    """A regular file, with its extended attributes if asked for; None where there is nothing.

    Raises `OSError`: as `parent`, for what is no regular file (nothing of it is opened), and EFBIG for a larger one.
    """
    try:
        with parent(path) as (folder, name):
            _require_regular(folder.status(name), path)
            descriptor = folder.open_file(name, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        _require_regular(found, path)
        if found.st_size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit >> 10} KiB", str(path))
        pieces, left = [], limit + 1
        while left and (piece := file.read(min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        if not left:
            raise OSError(errno.EFBIG, f"larger than {limit >> 10} KiB", str(path))
        return Found(b"".join(pieces), found, _attributes(descriptor) if attributes else ())


def names(folder: Path) -> tuple[str, ...]:
    """The names in a folder, sorted; none where there is no folder. Raises `OSError` as `parent`, and for too many."""
    found: list[str] = []
    try:
        with _folder(folder) as opened:
            for name in opened.names():
                found.append(name)
                if len(found) > MOST_NAMES:
                    raise OSError(errno.EFBIG, f"more than {MOST_NAMES} names in it", str(folder))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(found))


@contextmanager
def _folder(path: Path) -> Iterator[Folder]:
    assert path.is_absolute(), path
    assert ".." not in path.parts, path
    here = folders.opened(path.anchor)
    try:
        for depth, part in enumerate(path.parts[1:], 2):
            try:
                inner = here.inside(part)
            except OSError as error:
                raise _explained(error, here, part, "/".join(path.parts[:depth])[1:]) from error
            here.close()
            here = inner
        yield here
    finally:
        here.close()


def _explained(error: OSError, folder: Folder, part: str, path: str) -> OSError:
    """Opened as a folder, a link is "not a directory" to Linux."""
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        try:
            if folders.is_link(folder.status(part)):
                return link_refused(path)
        except OSError:
            pass
    return OSError(error.errno, error.strerror, path)


def link_refused(path: str | Path) -> OSError:
    """What is raised where a link is met."""
    return OSError(errno.ELOOP, f"{os.path.basename(path)} is a symbolic link", str(path))  # noqa: PTH119 - text


def _require_regular(found: os.stat_result, path: Path) -> None:
    if folders.is_link(found):
        raise link_refused(path)
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def _attributes(descriptor: int) -> Attributes:
    if not hasattr(os, "listxattr"):
        return ()
    found = []
    try:
        for name in os.listxattr(descriptor):
            try:
                found.append((name, os.getxattr(descriptor, name)))
            except OSError as error:  # one that only others may read, or that is gone by now
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENODATA):
                    raise
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENOSYS):
            raise
    return tuple(sorted(found))


def set_attributes(descriptor: int, attributes: Attributes) -> None:
    """Gives an open file these extended attributes.

    Those of the system's own (labels of SELinux, capabilities) are its to refuse. Raises `OSError` for the others.
    """
    for name, value in attributes:
        try:
            os.setxattr(descriptor, name, value)
        except OSError as error:
            own = name.startswith("user.") or name == "system.posix_acl_access"
            if own or error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EINVAL):
                raise
