"""The lock of a tree: one candle-rocm at a time writes it, and a killed one leaves it open to the next."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codegen.errors import Conflict, InputOutputError
from codegen.plan.disk import remedy_for
from codegen.plan.record import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from codegen.plan.disk import Disk


@contextmanager
def locked(root: Path, disk: Disk) -> Iterator[Home]:
    """Holds the lock of the tree `root` and makes the folder of its record.

    The folder is removed again when no phase is applied at the end. Raises `Conflict` while another process holds the
    lock, and `InputOutputError` when `root` is no folder or the lock cannot be made.
    """
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
                f"cannot open {home.lock}: {error.strerror}", remedy=remedy_for(error.errno, "delete it")
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
