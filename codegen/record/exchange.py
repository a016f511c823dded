"""Putting a file in the place of another without losing what somebody wrote there in the last moment.

Where the file system can exchange two files, that is done first and looked at afterwards: what came out is what nobody
reaches by the file's name any more. If it is not what was expected, it is put back. Elsewhere the look comes right
before the rename, and an edit in between is lost; that is as long as two calls of the system take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen import beneath
from codegen.record.record import sha256

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.record.disk import Disk


def digest_at(path: Path) -> str | None:
    """SHA-256 of a file, None where there is none; an empty text for what is there and is no file to be read."""
    try:
        found = beneath.read(path)
    except OSError:
        return ""
    return None if found is None else sha256(found.data)


def put(disk: Disk, source: Path, target: Path, expected: str | None) -> bool:
    """Puts the file `source` in the place of `target`, if that has the hash `expected` (None: if it is not there).

    False when it has another, and then it is as somebody left it. Where the system exchanges files, `source` has the
    old bytes afterwards; elsewhere it is gone. Raises `InputOutputError`.
    """
    if expected is None:
        try:
            if disk.place(source, target):
                return True
        except FileExistsError:
            return False
    else:
        try:
            if disk.exchange(source, target):
                if digest_at(source) == expected:
                    return True
                disk.exchange(source, target)
                return False
        except FileNotFoundError:
            return False
    if digest_at(target) != expected:
        return False
    disk.replace(source, target)
    return True


def take_away(disk: Disk, target: Path, aside: Path, expected: str | None) -> bool:
    """Deletes the file `target`, if it has the hash `expected`; False when not, and then it is as somebody left it.

    Where the system has what that takes, the bytes are at `aside` afterwards. Raises `InputOutputError`.
    """
    try:
        if disk.take(target, aside):
            if digest_at(aside) == expected:
                return True
            disk.place(aside, target)
            return False
    except FileNotFoundError:
        return expected is None
    except FileExistsError:  # something is at `aside`, or somebody made a new file: that one stays
        if digest_at(aside) != expected:
            return False
    if digest_at(target) != expected:
        return False
    disk.unlink(target)
    return True
