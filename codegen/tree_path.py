"""Paths of files in a Candle tree, as specs, plans and records spell them: relative, with forward slashes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = ".candle-rocm"
"""Name of the folder of the record, in the root of the tree."""
RECORD = f"{FOLDER}/record.json"
"""The record's path in a tree."""
TREE_FILE = "candle-rocm.yaml"
"""Name of the tree's own specs, in its root."""
LONGEST_PATH = 1024
LONGEST_NAME = 255
"""Bytes of a path and of each of its parts."""
_GUARDED = frozenset({FOLDER, ".git"})


def is_tree_path(path: str) -> bool:
    """Whether a path names something below a tree, in one spelling only, and outside of git's and the record's folders.

    It has no control characters and is text that UTF-8 can spell, of a length that file systems take.
    """
    parts = PurePosixPath(path).parts
    return (
        not path.startswith("/")
        and ".." not in parts
        and "/".join(parts) == path
        and not is_guarded(parts)
        and _is_spelled_well(path)
    )


def is_guarded(parts: Iterable[str]) -> bool:
    """Whether a path is or leads into a folder of git or of the record, in the tree or deeper in it.

    Some file systems take `.GIT` for the same.
    """
    return any(part.casefold() in _GUARDED for part in parts)


def _is_spelled_well(path: str) -> bool:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    if not 0 < length <= LONGEST_PATH or any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):
        return False
    return all(len(part.encode()) <= LONGEST_NAME for part in path.split("/"))
