"""A copy of a Candle tree that cargo may build, so that verification never writes into the user's tree."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen import file_locks
from codegen.candle import lock
from codegen.candle.members import is_pattern, matching
from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SKIPPED_FOLDERS = frozenset({"target", "node_modules", "cutlass"})
"""Besides hidden ones other than .cargo. cutlass is a git submodule of CUDA headers that nothing here compiles."""
OWNERS = "candle-rocm-scratch.json"
TURN = "candle-rocm.lock"
CARGO_LOCK = lock.FILE


@dataclass(frozen=True, slots=True)
class ScratchTree:
    """A folder that is brought to the wanted state file by file before each build.

    Only files whose bytes differ are written, so cargo rebuilds exactly what changed. cargo names a workspace member
    by its path relative to the workspace and then trusts modification times: two workspaces of the same release that
    share a target folder would pass each other's results off as fresh, compile errors included. `sync` therefore
    records in the target folder which scratch tree built a release last, and renews all modification times when that
    was another one.
    """

    root: Path
    target_dir: Path

    def sync(self, source: Path, overlay: Mapping[str, bytes | None] | None = None) -> None:
        """Make the folder equal to `source` with `overlay` laid over it (None removes a file).

        A Cargo.lock that cargo made in the scratch tree stays when the source has none, so that every build of one
        scratch tree resolves to the same crates. Raises InputOutputError when files cannot be read or written.
        """
        overlay = overlay or {}
        try:
            wanted = set(self._copy(source, overlay)) | self._overlay(overlay)
            self._remove_others(wanted)
            self._claim()
        except OSError as error:
            raise InputOutputError(
                f"cannot prepare the scratch tree {self.root}: {error}",
                remedy="free some disk space, or choose another folder with --work",
            ) from error

    @contextlib.contextmanager
    def exclusive(self, on_message: Callable[[str], None] = lambda _line: None) -> Iterator[None]:
        """Keep other runs of ours off the target folder while the tree is synced and built; waits for its turn."""
        self.target_dir.mkdir(parents=True, exist_ok=True)
        with (self.target_dir / TURN).open("w", encoding="ascii") as file:
            try:
                file_locks.take(file.fileno())
            except BlockingIOError:
                on_message("waiting for another verification with the same folder")
                file_locks.wait_for(file.fileno())
            yield

    def _copy(self, source: Path, overlay: Mapping[str, bytes | None]) -> Iterator[str]:
        for path in tree_files(source):
            if path not in overlay:
                _write_if_changed(self.root / path, (source / path).read_bytes())
                yield path

    def _overlay(self, overlay: Mapping[str, bytes | None]) -> set[str]:
        present = {path: content for path, content in overlay.items() if content is not None}
        for path, content in present.items():
            _write_if_changed(self.root / path, content)
        return set(present)

    def _remove_others(self, wanted: set[str]) -> None:
        for path in list(tree_files(self.root)):
            if path not in wanted and path != CARGO_LOCK:
                (self.root / path).unlink()

    def _claim(self) -> None:
        self.target_dir.mkdir(parents=True, exist_ok=True)
        record = self.target_dir / OWNERS
        owners = _owners(record)
        release, here = release_of(self.root), str(self.root.resolve())
        if owners.get(release) == here:
            return
        for path in tree_files(self.root):
            os.utime(self.root / path)
        record.write_text(json.dumps({**owners, release: here}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def tree_files(root: Path) -> Iterator[str]:
    """All files below `root` as relative paths with forward slashes, except those in folders that are not sources."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if _is_source(name))
        base = Path(folder).relative_to(root)
        for name in sorted(files):
            if (root / base / name).is_file():
                yield (base / name).as_posix()


def _is_source(folder: str) -> bool:
    return folder == ".cargo" or (folder not in SKIPPED_FOLDERS and not folder.startswith("."))


def release_of(root: Path) -> str:
    """The version in the root manifest's `[workspace.package]`, or `unknown`."""
    manifest = _manifest(root, "Cargo.toml", {}) or {}
    return str(manifest.get("workspace", {}).get("package", {}).get("version", "unknown"))


def member_manifests(root: Path, overlay: Mapping[str, bytes | None] | None = None) -> Mapping[str, Mapping[str, Any]]:
    """The manifests of the workspace's member crates by their names, with `overlay` laid over the tree."""
    overlay = overlay or {}
    manifests = {}
    for pattern in (_manifest(root, "Cargo.toml", overlay) or {}).get("workspace", {}).get("members", ()):
        folders = matching(root, pattern) if is_pattern(pattern) else (pattern,)
        for folder in folders:
            manifest = _manifest(root, f"{folder}/Cargo.toml", overlay)
            if manifest is not None:
                manifests[str(manifest.get("package", {}).get("name", folder))] = manifest
    return manifests


def _manifest(root: Path, path: str, overlay: Mapping[str, bytes | None]) -> dict[str, Any] | None:
    """A TOML file as data, None when it is not there; empty when it is no TOML, which cargo says better than we."""
    try:
        content = overlay[path] if path in overlay else (root / path).read_bytes()
        return None if content is None else tomllib.loads(content.decode())
    except OSError:
        return None
    except ValueError:
        return {}


def _owners(record: Path) -> dict[str, str]:
    try:
        owners = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owners if isinstance(owners, dict) else {}


def _write_if_changed(path: Path, content: bytes) -> None:
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
