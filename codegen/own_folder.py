"""Folders that only we write: caches whose content is believed, or even run.

Such a folder belongs to this user or to root, nobody else may write in it, and it is no link; the same goes for each
file that is read from it. Anything else counts as not there.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codegen import folders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codegen.folders import Folder


def read(folder: Path, name: str) -> bytes:
    """The file of that name. Raises `OSError` where it is missing, and EPERM where others could have written it."""
    with _opened(folder) as opened:
        found = opened.open_file(name, os.O_RDONLY)
    with os.fdopen(found, "rb") as file:
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(folder / name))
        _require_ours(status, folder / name)
        return file.read()


def write(folder: Path, name: str, content: bytes) -> None:
    """Makes or replaces the file, whole or not at all; the folder is made if need be. Raises `OSError` as `read`."""
    make(folder)
    with _opened(folder) as opened:
        part = f".{secrets.token_hex(8)}"
        made = opened.open_file(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(made, "wb") as file:
                file.write(content)
            opened.rename(part, opened, name)
        except BaseException:
            with suppress(OSError):
                opened.unlink(part)
            raise


def make(folder: Path) -> None:
    """Makes the folder for this user alone where there is none. Raises `OSError`."""
    if not os.path.lexists(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def objection(folder: Path) -> str | None:
    """Why what is in the folder is not to be believed; None where it is ours, or not there."""
    try:
        with _opened(folder):
            return None
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return "is a symbolic link" if folder.is_symlink() else "is not a folder"
        return error.strerror if error.errno == errno.EPERM else None


@contextmanager
def _opened(folder: Path) -> Iterator[Folder]:
    opened = folders.opened(folder)
    try:
        _require_ours(opened.status("."), folder)
        yield opened
    finally:
        opened.close()


def _require_ours(status: os.stat_result, path: Path) -> None:
    if not hasattr(os, "geteuid"):
        return  # Windows has no such owners: what is below a user's profile is that user's
    if status.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))
    # Where each user has a group alone, as on Debian and Fedora, it has the user's number.
    writers = stat.S_IWOTH | (0 if status.st_gid == status.st_uid else stat.S_IWGRP)
    if status.st_mode & writers:
        mode = stat.S_IMODE(status.st_mode)
        raise PermissionError(errno.EPERM, f"may be written by others (mode {mode:o})", str(path))
