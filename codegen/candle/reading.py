"""Files of a tree, which is somebody else's: plain files of a sensible size below its root, and nothing else.

A pipe would be waited for, a device has no end, and a link leads anywhere; none of them is opened.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codegen import folders
from codegen.errors import InputOutputError
from codegen.tree_path import is_guarded, is_tree_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from codegen.folders import Folder

LARGEST_FILE = 2 << 20
"""Bytes. Candle's largest source has 250 KiB, and a parsed one takes two hundred times its size."""
MOST_ENTRIES = 200_000
"""Files and folders that a tree's crates may have; Candle's have 3,000."""
MOST_BYTES = 256 << 20
"""Bytes that the sources of a tree may have; Candle's have 12 MiB."""
DEEPEST = 100
"""Folders in one another."""
_REMEDY = "check that the tree is complete and can be read"
_MADE = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
"""Names of files that say of a folder that a program fills it."""


def read_below(root: Path, path: str, *, largest: int = LARGEST_FILE) -> bytes:
    """The content of a plain file; `path` is relative to `root`, and no part of it may be a link.

    Raises:
        InputOutputError: there is no such file, it cannot be read, or it is no plain file of at most `largest` bytes.
    """
    try:
        with _opened(root, path) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise not_plain(path, status.st_mode)
            chunks, room = [], largest + 1
            while room and (chunk := os.read(file, min(room, 1 << 20))):
                chunks.append(chunk)
                room -= len(chunk)
            if not room:
                raise InputOutputError(
                    f"{path} has more than {largest >> 20} MiB", remedy="Candle's files are smaller: take it away"
                )
            return b"".join(chunks)
    except OSError as cause:
        raise unreadable(root / path, cause) from cause
    except ValueError as cause:  # a NUL in the name
        raise InputOutputError(f"{path}: {cause}", remedy=_REMEDY) from cause


@contextmanager
def _opened(root: Path, path: str) -> Iterator[int]:
    """The file, opened one folder after the other, so that no link is followed below the root."""
    *parents, name = path.split("/")
    at = folders.opened(root, links=True)
    try:
        for depth, folder in enumerate(parents):
            _refuse_special(at, folder, "/".join(parents[: depth + 1]), stat.S_ISDIR)
            inner = at.inside(folder)
            at.close()
            at = inner
        _refuse_special(at, name, path, stat.S_ISREG)
        file = at.open_file(name, os.O_RDONLY)
    except OSError as cause:
        cause.filename = str(root / path)
        raise
    finally:
        at.close()
    try:
        yield file
    finally:
        os.close(file)


def _refuse_special(folder: Folder, name: str, path: str, wanted: Callable[[int], bool]) -> None:
    """What is not looked at cannot be opened by mistake: opening a device may already do something."""
    mode = folder.status(name).st_mode
    if not wanted(mode) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise not_plain(path, mode)


def not_plain(path: str, mode: int) -> InputOutputError:
    """The error for a link, a pipe, a socket or a device in place of a file."""
    kinds = ((stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    kind = next((words for is_kind, words in kinds if is_kind(mode)), "not a plain file")
    return InputOutputError(
        f"{path} is {kind}, and candle-rocm reads plain files only", remedy="put a plain file in its place"
    )


def unreadable(path: Path | str, cause: OSError) -> InputOutputError:
    """The error for a file or folder that the system refuses."""
    return InputOutputError(f"{cause.filename or path}: {cause.strerror}", remedy=_REMEDY)


def walk(
    root: Path, folder: str, endings: tuple[str, ...], skipped: frozenset[str], crates: Iterable[str]
) -> Iterator[str]:
    """Paths below `root` of the files in `folder` whose names end in one of `endings`, in no order.

    Folders that are hidden or `skipped` are left out. Links are not followed: one into a folder of `crates` hides
    nothing, because what it leads to is found where it lies.

    Raises:
        InputOutputError: a folder cannot be read, a link or a special file stands where sites may be, or there is more
            than MOST_ENTRIES or MOST_BYTES.
    """
    entries, size = 0, 0
    waiting = [folder]
    while waiting:
        inside = waiting.pop()
        if inside.count("/") > DEEPEST:
            raise _too_much(inside, f"folders are nested deeper than {DEEPEST}")
        try:
            with os.scandir(os.path.join(root, inside)) as found:  # noqa: PTH118 - 5x faster
                for entry in found:
                    entries += 1
                    name, path = entry.name, f"{inside}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        if name not in skipped and not name.startswith("."):
                            waiting.append(path)
                    elif entry.is_symlink():
                        if name not in skipped and not name.startswith("."):
                            _refuse_hiding(root, path, endings, skipped, crates)
                    elif name.endswith(endings):
                        status = entry.stat(follow_symlinks=False)
                        if not stat.S_ISREG(status.st_mode):
                            raise not_plain(path, status.st_mode)
                        _refuse_name(path)
                        size += status.st_size
                        yield path
        except OSError as cause:
            raise unreadable(root / inside, cause) from cause
        if entries > MOST_ENTRIES:
            raise _too_much(folder, f"it has more than {MOST_ENTRIES} files and folders")
        if size > MOST_BYTES:
            raise _too_much(folder, f"its sources have more than {MOST_BYTES >> 20} MiB")


def plain_files(root: Path, skipped: frozenset[str]) -> frozenset[str]:
    """Paths of all plain files of a tree, hidden ones too, but for git's, ours, links, and what programs put there.

    Left out are folders that are `skipped`, that say that they are a cache (CACHEDIR.TAG, as cargo's are) or a virtual
    environment of Python, and files whose names cannot stand in a record.

    Raises:
        InputOutputError: a folder cannot be read, or there is more than MOST_ENTRIES.
    """
    found: set[str] = set()
    entries, waiting = 0, [""]
    while waiting:
        inside = waiting.pop()
        if inside.count("/") > DEEPEST:
            raise _too_much(inside, f"folders are nested deeper than {DEEPEST}")
        try:
            with os.scandir(root / inside) as listed:
                here = list(listed)
        except OSError as cause:
            raise unreadable(root / inside, cause) from cause
        entries += len(here)
        if entries > MOST_ENTRIES:
            raise _too_much(str(root), f"it has more than {MOST_ENTRIES} files and folders")
        if inside and not _MADE.isdisjoint(entry.name for entry in here):
            continue
        for entry in here:
            path = f"{inside}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in skipped and not is_guarded((entry.name,)):
                    waiting.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False) and is_tree_path(path):
                found.add(path)
    return frozenset(found)


def _refuse_hiding(
    root: Path, path: str, endings: tuple[str, ...], skipped: frozenset[str], crates: Iterable[str]
) -> None:
    """Refuse a link behind which there may be sites that nobody looks at."""
    link = root / path
    if not (link.is_dir() or (path.endswith(endings) and link.exists())):
        return
    target = os.path.realpath(link)
    below = os.path.relpath(target, os.path.realpath(root)).replace(os.sep, "/")
    parts = below.split("/")
    in_crate = any(below == crate or below.startswith(f"{crate}/") for crate in crates)
    left_out = any(part in skipped or part.startswith(".") for part in parts)
    if in_crate and not left_out and (link.is_dir() or below.endswith(endings)):
        return
    raise InputOutputError(
        f"{path} is a symbolic link to {os.readlink(link)}: what is behind it would be compiled, and not looked at",  # noqa: PTH115
        remedy="put a copy in its place; links may lead to folders and files of the tree's own crates",
    )


def _refuse_name(path: str) -> None:
    if not path.isprintable() and any(ord(c) < 0x20 or 0xD800 <= ord(c) <= 0xDFFF for c in path):
        raise InputOutputError(
            f"{path!r}: the name of a source has control characters, or is not UTF-8", remedy="rename the file"
        )


def _too_much(path: str, what: str) -> InputOutputError:
    return InputOutputError(f"{path}: {what}, which is no Candle", remedy="give the root of a Candle checkout")
