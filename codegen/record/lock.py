"""The lock of a tree: one candle-rocm at a time writes it, and a killed one leaves it open to the next."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codegen import beneath, file_locks, folders
from codegen.errors import CandleRocmError, Conflict, InputOutputError
from codegen.record.disk import remedy_for
from codegen.record.home import IGNORE_ALL, Home, is_own_folder, reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codegen.record.disk import Disk


@contextmanager
def locked(root: Path, disk: Disk) -> Iterator[Home]:
    """Holds the lock of the tree `root` and makes the folder of its record.

    The folder is removed again when no phase is applied at the end. Raises `Conflict` while another process holds the
    lock, and `InputOutputError` when `root` is no folder or the lock cannot be made.
    """
    if not root.is_dir():
        raise InputOutputError(f"{root} is not a folder", remedy="give the root of a Candle tree")
    home = Home.of(root)
    held = os.fdopen(_lock(home, disk), "rb", buffering=0)
    try:
        with reading(home.ignore):
            ignore = beneath.status(home.ignore)
            if ignore is not None and stat.S_ISLNK(ignore.st_mode):
                raise beneath.link_refused(home.ignore)
        if ignore is None:
            disk.write(home.ignore, IGNORE_ALL)
        yield home
    finally:
        try:
            with suppress(CandleRocmError):  # a leftover harms nobody, and the next one to write removes it
                if not _is_used(home):
                    if not folders.HAS_DESCRIPTORS:  # Windows deletes no open file
                        held.close()
                    _remove_home(home, disk)
        finally:
            held.close()


def is_locked(root: Path) -> bool:
    """Whether another process is writing the tree `root` in this moment. Nothing is made or written."""
    home = Home.of(root)
    try:
        descriptor = _open(home, os.O_RDONLY)
    except OSError:
        return False
    try:
        return file_locks.is_taken(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def busy(root: Path) -> Conflict:
    """What is raised while another process writes the tree."""
    return Conflict(f"another candle-rocm is changing {root}", remedy="wait until it is done, then run this again")


def _is_used(home: Home) -> bool:
    with reading(home.record):
        found = beneath.status(home.record) or beneath.status(home.transaction)
    return found is not None or home.has_local_content()


def _open(home: Home, how: int) -> int:
    """The open file of the lock. Raises `OSError`, also where it is a link or no file."""
    with beneath.parent(home.lock) as (folder, name):
        descriptor = folder.open_file(name, how)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(home.lock))
    return descriptor


def _lock(home: Home, disk: Disk) -> int:
    while True:
        try:
            for folder in (home.folder, home.local):
                if not is_own_folder(folder):
                    disk.make_folder(folder)
        except InputOutputError as error:
            if not isinstance(error.__cause__, FileExistsError | FileNotFoundError):
                with suppress(CandleRocmError):  # as below: a leftover harms nobody
                    disk.drop(home.folder)
                raise
        try:
            descriptor = _open(home, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            continue  # its last owner removed the folder just now
        except OSError as error:
            raise InputOutputError(
                f"cannot open {home.lock}: {error.strerror}", remedy=remedy_for(error.errno, "delete it")
            ) from error
        try:
            file_locks.take(descriptor)
            now = beneath.status(home.lock)
            if now is not None and os.path.samestat(os.fstat(descriptor), now):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise busy(home.root) from None
        except OSError as error:
            os.close(descriptor)
            raise InputOutputError(
                f"cannot lock {home.lock}: {error.strerror}", remedy="work on a disk that has file locks, such as /tmp"
            ) from error
        os.close(descriptor)


def _remove_home(home: Home, disk: Disk) -> None:
    for folder in (home.originals, home.backups):
        with reading(folder):
            kept = beneath.status(folder)
        if kept is not None:
            disk.remove_folder(folder)
    disk.unlink(home.lock)
    disk.unlink(home.ignore)
    disk.remove_folder(home.local)
    disk.drop(home.folder)
