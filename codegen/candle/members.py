"""Folders that a workspace names by patterns, found as plain folders of the tree: no link is followed."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from codegen.candle.reading import DEEPEST, MOST_ENTRIES, not_plain, unreadable
from codegen.errors import InputOutputError, NotACandleTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY_DEPTH = "**"
_SPECIAL = "*?["


def is_pattern(text: str) -> bool:
    """Whether it stands for any number of folders, as cargo reads it."""
    return any(special in text for special in _SPECIAL)


def matching(root: Path, pattern: str) -> tuple[str, ...]:
    """The folders below `root` that a pattern means, sorted, relative to `root`.

    A link that the pattern itself matches is among them: who reads a file in it is told that it is one.

    Raises:
        NotACandleTree: it points outside the tree, or has `**` in more than one place or in a part of a name.
        InputOutputError: a link to a folder stands where the pattern goes on, a folder cannot be read, or there is too
            much to look at.
    """
    parts = pattern.split("/")
    mixed = any(ANY_DEPTH in part and part != ANY_DEPTH for part in parts)
    if mixed or parts.count(ANY_DEPTH) > 1 or len(parts) > DEEPEST or parts[0] in ("", ".."):
        raise NotACandleTree(
            f"Cargo.toml names its crates by {pattern[:80]!r}", remedy="name them by folders, or by a pattern with *"
        )
    found = [""]
    look = _Look(root)
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        found = [match for folder in found for match in look.step(folder, part, last=last)]
    return tuple(sorted(set(found) - {""}))


def is_meant(folder: str, pattern: str) -> bool:
    """Whether a pattern means a folder of that path."""
    return _fits(tuple(folder.split("/")), tuple(pattern.split("/")))


def _fits(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == ANY_DEPTH:
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


class _Look:
    """Counts what one pattern makes us look at."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = MOST_ENTRIES

    def step(self, folder: str, part: str, *, last: bool) -> Iterator[str]:
        """What one part of a pattern means in a folder."""
        if part == ANY_DEPTH:
            yield from self._all_below(folder)
        elif is_pattern(part):
            for name, path in self._inside(folder, links=last):
                if fnmatchcase(name, part):
                    yield path
        else:
            path = f"{folder}/{part}".lstrip("/")
            if os.path.isdir(self._root / path):  # noqa: PTH112 - False for a NUL, too
                if not last:
                    self._refuse_link(path)
                yield path

    def _all_below(self, folder: str) -> Iterator[str]:
        waiting = [folder]
        while waiting:
            inside = waiting.pop()
            yield inside
            if inside.count("/") < DEEPEST:
                waiting += [path for _, path in self._inside(inside, links=False)]

    def _inside(self, folder: str, *, links: bool) -> Iterator[tuple[str, str]]:
        """Names and paths of the folders in a folder; links to folders are refused unless they are asked for."""
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        raise InputOutputError(
                            f"Cargo.toml names its crates by patterns that match more than {MOST_ENTRIES} folders",
                            remedy="give the root of a Candle checkout",
                        )
                    path = f"{folder}/{entry.name}".lstrip("/")
                    if entry.is_dir():
                        if not links:
                            self._refuse_link(path)
                        yield entry.name, path
        except OSError as cause:
            raise unreadable(self._root / folder, cause) from cause

    def _refuse_link(self, path: str) -> None:
        mode = os.lstat(self._root / path).st_mode
        if stat.S_ISLNK(mode):
            raise not_plain(path, mode)
