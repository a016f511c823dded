"""Where the record of a tree and its parts lie.

    .candle-rocm/record.json               the record: committed with the tree (see record.py)
    .candle-rocm/local/                    of this copy of the tree only; nothing in it is needed, git ignores it
        .gitignore                         `*`
        originals/<sha256>                 bytes that files had before a phase, named for what they are
        backups/<number>/<path>            what `--force` overwrote
        lock                               held by the one candle-rocm that writes the tree (see lock.py)
        transaction/                       only while files are written or taken back (see journal.py)

Before schema 2 all of it was local: `.candle-rocm/.gitignore` was `*`, and bytes lay below `before/<phase>/<path>`.
Such a record is read, and written in the new way by the next command that writes.
"""

from __future__ import annotations

import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, InputOutputError
from codegen.record.disk import remedy_for
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IGNORE_ALL = b"*\n"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder `.candle-rocm` of the tree `root`."""

    root: Path
    """Free of links and absolute, where anything is read or written through this: see `of`."""

    @classmethod
    def of(cls, root: Path) -> Home:
        """The home of the record of the tree that `root` leads to; the user may name it by a link."""
        return cls(root.resolve())

    @property
    def folder(self) -> Path:
        return self.root / FOLDER

    @property
    def record(self) -> Path:
        return self.folder / "record.json"

    @property
    def local(self) -> Path:
        return self.folder / "local"

    @property
    def originals(self) -> Path:
        return self.local / "originals"

    @property
    def backups(self) -> Path:
        return self.local / "backups"

    @property
    def transaction(self) -> Path:
        return self.local / "transaction"

    @property
    def ignore(self) -> Path:
        return self.local / ".gitignore"

    @property
    def lock(self) -> Path:
        return self.local / "lock"

    @property
    def old_originals(self) -> Path:
        """Where schema 1 kept bytes, by phase and path."""
        return self.folder / "before"

    @property
    def old_ignore(self) -> Path:
        """With which schema 1 kept its record from git."""
        return self.folder / ".gitignore"

    def original(self, digest: str) -> Path:
        """Where the bytes with this hash are kept, if they are."""
        return self.originals / digest

    def exists(self) -> bool:
        """Whether the tree has the folder at all. Raises `Conflict` where it, or `local` in it, is a link or a file."""
        return is_own_folder(self.folder) and (is_own_folder(self.local) or True)

    def is_interrupted(self) -> bool:
        """Whether a transaction was begun and not brought to its end. Raises as `exists`."""
        if not self.exists():
            return False
        old = self.folder / "transaction"
        with reading(old):
            found = beneath.status(old)
        if found is not None:
            raise Conflict(
                f"{old} was left by an older candle-rocm that was interrupted",
                remedy="finish it with the version of candle-rocm that began it (0.1.0: candle-rocm revert)",
            )
        return is_own_folder(self.transaction)

    def has_old_originals(self) -> bool:
        """Whether bytes are kept in the way of schema 1. Raises as `exists`."""
        return _has_names(self.old_originals)

    def has_local_content(self) -> bool:
        """Whether anything is kept locally that may still be wanted. Raises as `exists`."""
        return _has_names(self.originals) or _has_names(self.backups) or self.has_old_originals()


def is_own_folder(path: Path) -> bool:
    """Whether there is such a folder. Raises `Conflict` where something else has its name."""
    with reading(path):
        found = beneath.status(path)
    if found is None or stat.S_ISDIR(found.st_mode):
        return found is not None
    raise Conflict(
        f"{path} is not a folder of candle-rocm's own (it is a link or a file)",
        remedy="move it away: candle-rocm keeps its record of the tree under that name",
    )


def _has_names(folder: Path) -> bool:
    with reading(folder):
        return is_own_folder(folder) and bool(beneath.names(folder))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns an OSError inside the block into an `InputOutputError` that names the path."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InputOutputError:
    """The error for what cannot be read."""
    return InputOutputError(
        f"cannot read {path}: {error.strerror}",
        remedy=remedy_for(error.errno, "make it readable, then run the command again"),
    )
