"""Locks of open files, which end with the process that holds them: flock, and what Windows has for it."""

from __future__ import annotations

import errno
import time
from importlib import import_module
from typing import Any

_FLOCK: Any
_WINDOWS: Any
try:
    _FLOCK, _WINDOWS = import_module("fcntl"), None
except ImportError:
    _FLOCK, _WINDOWS = None, import_module("msvcrt")
_PAUSE = 0.1
"""Seconds between two looks."""


def take(descriptor: int) -> None:
    """Takes the lock for this process alone. Raises `BlockingIOError` while another has it, else `OSError`."""
    if _FLOCK:
        _FLOCK.flock(descriptor, _FLOCK.LOCK_EX | _FLOCK.LOCK_NB)
    else:
        _first_byte(descriptor, _WINDOWS.LK_NBLCK)


def wait_for(descriptor: int) -> None:
    """Takes the lock, as soon as nobody else has it."""
    if _FLOCK:
        _FLOCK.flock(descriptor, _FLOCK.LOCK_EX)
        return
    while True:
        try:
            take(descriptor)
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return


def is_taken(descriptor: int) -> bool:
    """Whether another process has the lock. Raises `OSError` where there are no locks."""
    try:
        if _FLOCK:
            _FLOCK.flock(descriptor, _FLOCK.LOCK_SH | _FLOCK.LOCK_NB)
        else:
            _first_byte(descriptor, _WINDOWS.LK_NBLCK)
            _first_byte(descriptor, _WINDOWS.LK_UNLCK)
    except BlockingIOError:
        return True
    return False


def _first_byte(descriptor: int, how: int) -> None:
    """Windows locks bytes, also such as a file does not have; a lock counts for the place in the file."""
    try:
        _WINDOWS.locking(descriptor, how, 1)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EDEADLK):
            raise BlockingIOError(errno.EAGAIN, "another process has the lock") from error
        raise
