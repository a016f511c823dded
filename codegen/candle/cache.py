"""The cache of fetched releases on disk.

    releases/0.11.1.json     which crates the release consists of, with checksums
    crates/NAME-VERSION.crate
    trees/0.11.1-L1/candle/  the workspace, and files.json beside it: what it looked like when it was made
    staging/                 unfinished work, renamed into place when it is complete

The number after L is that of the layout: a change of how workspaces are rebuilt needs a new one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import own_folder
from codegen.errors import InputOutputError
from codegen.release import is_version

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUT = 1
_STALE_SECONDS = 24 * 3600
_REMEDY = "choose a writable cache with CANDLE_ROCM_FETCH_DIR"


@contextlib.contextmanager
def io_errors(doing: str, *, remedy: str = _REMEDY) -> Iterator[None]:
    """Turn an OSError inside the block into an InputOutputError that says what was being done."""
    try:
        yield
    except OSError as cause:
        if cause.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"free disk space, or {remedy}"
        where = f"{cause.filename}: " if cause.filename else ""
        raise InputOutputError(f"{doing}: {where}{cause.strerror or cause}", remedy=remedy) from cause


@dataclass(frozen=True, slots=True)
class FetchCache:
    """Paths below the cache's root, and writes that are complete or did not happen."""

    root: Path

    def require_own(self) -> None:
        """Raises InputOutputError when others may write in the cache: its trees are believed, and built."""
        if (objection := own_folder.objection(self.root)) is not None:
            raise InputOutputError(
                f"the cache {self.root} {objection}",
                remedy="candle-rocm believes what is there: see that it is yours and that nobody else may write in it "
                "(chmod go-w), or choose another folder with CANDLE_ROCM_FETCH_DIR",
            )

    def release_file(self, version: str) -> Path:
        """The list of the crates of a release."""
        return self.root / "releases" / f"{version}.json"

    def crate_file(self, crate: str, version: str) -> Path:
        """A downloaded .crate file."""
        return self.root / "crates" / f"{crate}-{version}.crate"

    def tree(self, version: str) -> Path:
        """The rebuilt workspace of a release."""
        return self._tree_folder(version) / "candle"

    def _tree_folder(self, version: str) -> Path:
        return self.root / "trees" / f"{version}-L{LAYOUT}"

    def releases(self) -> tuple[str, ...]:
        """Versions whose crate list is here, in no order."""
        folder = self.root / "releases"
        names = [path.stem for path in folder.glob("*.json")] if folder.is_dir() else []
        return tuple(name for name in names if is_version(name))

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the cache, whole or not at all, whoever else writes it at the same time.

        Raises:
            OSError: nothing was written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with self.staging() as folder:
            part = folder / path.name
            part.write_bytes(content)
            part.replace(path)

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """An empty folder on the cache's file system that is gone after the block.

        Raises:
            OSError: the cache cannot be written.
        """
        own_folder.make(self.root)
        base = self.root / "staging"
        base.mkdir(parents=True, exist_ok=True)
        for left in base.iterdir():  # of a process that was killed
            with contextlib.suppress(OSError):
                if left.stat().st_mtime < time.time() - _STALE_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=base))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def install_tree(self, version: str, candle: Path) -> None:
        """Move a finished workspace, `tree/candle` inside `staging()`, to where `tree` says.

        A tree that is there already is replaced. When another process installs the same release at the same time,
        one of the two equal trees stays.

        Raises:
            OSError: the cache cannot be written; a tree that was there still is.
        """
        staged, target = candle.parent, self._tree_folder(version)
        (staged / "files.json").write_text(json.dumps(_appearance(candle)), encoding="utf-8")
        target.parent.mkdir(parents=True, exist_ok=True)
        with self.staging() as replaced:
            for attempt in range(10):  # others may install between our two renames
                try:
                    staged.rename(target)
                except OSError as cause:
                    if cause.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    if self.is_pristine(version):
                        return
                    with contextlib.suppress(FileNotFoundError):
                        target.rename(replaced / str(attempt))
                else:
                    return
        raise OSError(errno.EBUSY, "other processes keep replacing the folder", str(target))

    def is_pristine(self, version: str) -> bool:
        """Whether the workspace is there and nobody changed, added or removed a file below its folders.

        The root folder itself is free: cargo writes Cargo.lock and `target/` there. Size and time are compared, not
        content, so this costs a few milliseconds.
        """
        return bool(self.files(version)) and self._recorded(version) == _appearance(self.tree(version))

    def files(self, version: str) -> tuple[str, ...]:
        """The files of the workspace as it was made, relative to its root; empty when it is not there."""
        return tuple(path for path, (size, _) in self._recorded(version).items() if size >= 0)

    def _recorded(self, version: str) -> dict[str, tuple[int, int]]:
        try:
            content = json.loads((self._tree_folder(version) / "files.json").read_text(encoding="utf-8"))
            return {path: (size, changed) for path, (size, changed) in content.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}


def _appearance(root: Path) -> dict[str, tuple[int, int]]:
    """Size (-1 for a folder) and time of last change of root's Cargo.toml and of everything below its crate folders."""
    found: dict[str, tuple[int, int]] = {}

    def visit(folder: str, prefix: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    found[path] = (-1, status.st_mtime_ns)
                    visit(entry.path, path + "/")
                else:
                    found[path] = (status.st_size, status.st_mtime_ns)

    try:
        manifest = (root / "Cargo.toml").stat()
        found["Cargo.toml"] = (manifest.st_size, manifest.st_mtime_ns)
        for folder in sorted(root.glob("*/Cargo.toml")):
            status = folder.parent.stat()
            found[folder.parent.name] = (-1, status.st_mtime_ns)
            visit(str(folder.parent), folder.parent.name + "/")
    except OSError:
        return {}
    return found
