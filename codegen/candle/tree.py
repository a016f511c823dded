"""A Candle tree: its release, its crates, their sources, and what they contain when pristine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.candle.cargo_shape import load_manifest
from codegen.candle.members import is_meant, is_pattern, matching
from codegen.candle.reading import read_below, walk
from codegen.errors import InputOutputError, NotACandleTree
from codegen.release import is_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SKIPPED_FOLDERS = frozenset({"target", "node_modules", "cutlass"})
"""Besides hidden ones. cutlass is a git submodule of CUDA headers with 700 folders."""

_PROGRAM = "`scan` and `diff` take the folder of a program that depends on Candle, too"
_REMEDY = "give the root folder of a Candle checkout, or a version such as 0.11.1 to fetch one"


@dataclass(frozen=True, slots=True)
class Crate:
    """A crate of the workspace, or beside it (git's workspace excludes the kernel crates)."""

    name: str
    path: str
    """Its folder, relative to the tree, with forward slashes."""
    manifest: str
    """`candle-core/Cargo.toml`."""
    features: Mapping[str, tuple[str, ...]] = field(hash=False)


@dataclass(frozen=True, slots=True)
class CandleTree:
    """Candle's sources as they are without anything that candle-rocm wrote."""

    root: Path
    release: str
    crates: tuple[Crate, ...]
    """In the order of their folders."""
    overlay: Mapping[str, bytes | None] = field(default_factory=dict, hash=False)
    """Pristine content of files that an apply changed; None for a file that pristine Candle does not have."""

    def rust_files(self) -> tuple[str, ...]:
        """Every .rs file of the crates, sorted: sources, tests, benches, examples and build scripts.

        Raises:
            InputOutputError: a folder cannot be read.
        """
        return self._files(self.crates, (".rs",))

    def files(self, *endings: str) -> tuple[str, ...]:
        """Every file of the crates whose name ends in one of `endings`, sorted. Raises as `rust_files`."""
        return self._files(self.crates, endings)

    def python_files(self) -> tuple[str, ...]:
        """Every .py and .pyi file of the crates that are Python packages too, sorted. Raises as `rust_files`."""
        packages = tuple(crate for crate in self.crates if self.exists(f"{crate.path}/pyproject.toml"))
        return self._files(packages, (".py", ".pyi"))

    def _files(self, crates: tuple[Crate, ...], endings: tuple[str, ...]) -> tuple[str, ...]:
        found: set[str] = set()
        folders = [crate.path for crate in self.crates]
        for crate in crates:
            if crate.manifest not in self.overlay or (self.root / crate.path).is_dir():
                found.update(walk(self.root, crate.path, endings, SKIPPED_FOLDERS, folders))
        for path, content in self.overlay.items():
            if content is None:
                found.discard(path)
            elif path.endswith(endings) and self.crate_of(path) in crates:
                found.add(path)
        return tuple(sorted(found))

    def read(self, path: str) -> bytes:
        """The pristine content of a file.

        Raises:
            InputOutputError: there is no such file, it cannot be read, or it is not a plain file of a sensible size.
        """
        if path in self.overlay:
            content = self.overlay[path]
            if content is None:
                raise InputOutputError(f"{path}: not a file of pristine Candle", remedy="name another file")
            return content
        return read_below(self.root, path)

    def exists(self, path: str) -> bool:
        """Whether pristine Candle has this file."""
        if path in self.overlay:
            return self.overlay[path] is not None
        return (self.root / path).is_file()

    def crate_of(self, path: str) -> Crate | None:
        """The crate whose folder a file lies in; the innermost where crates are nested."""
        by_path = {crate.path: crate for crate in self.crates}
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in by_path:
                return by_path[path]
        return None

    def with_overlay(self, overlay: Mapping[str, bytes | None]) -> CandleTree:
        """The same tree with `overlay` in place of its own; manifests in it are read again.

        Raises:
            NotACandleTree: a pristine manifest is broken.
        """
        changed = replace(self, overlay=dict(overlay))
        if any(path.endswith("Cargo.toml") for path in (*overlay, *self.overlay)):
            release, crates = _read_workspace(changed)
            return replace(changed, release=release, crates=crates)
        return changed


def open_tree(
    candle: str | Path,
    *,
    cache: Path | None = None,
    offline: bool = False,
    progress: Callable[[str], None] | None = None,
) -> CandleTree:
    """The Candle tree in a folder, or the pristine one of a version, which is fetched if need be.

    A text that names an existing folder means the folder, whatever it looks like. The tree of a version lies in a
    cache that all share: it must not be changed.

    Raises:
        NotACandleTree: the folder is not there or is not a Candle workspace.
        CandleRocmError: the version cannot be fetched; see `codegen.candle.fetch.fetch`.
    """
    root = Path(candle)
    if isinstance(candle, str) and not root.is_dir() and _means_a_version(candle):
        from codegen.candle.fetch import fetch_release, silent

        root = fetch_release(candle, cache=cache, offline=offline, progress=progress or silent)
    if not root.is_dir():
        kind = "is a file" if root.exists() else "does not exist"
        raise NotACandleTree(f"the folder {candle} {kind}", remedy=_REMEDY)
    tree = CandleTree(root, "", ())
    release, crates = _read_workspace(tree)
    return replace(tree, release=release, crates=crates)


def _means_a_version(candle: str) -> bool:
    return is_version(candle) or (candle[:1].isdigit() and all(c.isdigit() or c == "." for c in candle))


def _read_workspace(tree: CandleTree) -> tuple[str, tuple[Crate, ...]]:
    if not tree.exists("Cargo.toml"):
        raise NotACandleTree(f"{tree.root} has no Cargo.toml", remedy=_remedy_near(tree.root))
    manifest = _manifest(tree, "Cargo.toml")
    workspace = _table(manifest, "workspace")
    if not workspace:
        raise NotACandleTree(f"{tree.root}/Cargo.toml has no [workspace]", remedy=_remedy_near(tree.root))
    crates, versions = [], {}
    for folder in sorted(set(_crate_folders(tree, workspace))):
        content = _manifest(tree, f"{folder}/Cargo.toml")
        package = _table(content, "package")
        name = package.get("name")
        if name is not None:
            crates.append(Crate(name, folder, f"{folder}/Cargo.toml", _features(content)))
            versions[name] = package.get("version")
    if "candle-core" not in versions:
        raise NotACandleTree(
            f"{tree.root} is a cargo workspace without the crate candle-core", remedy=_remedy_near(tree.root)
        )
    own = versions["candle-core"]
    release = own if isinstance(own, str) else _table(workspace, "package").get("version")
    if not isinstance(release, str) or not is_version(release):
        raise NotACandleTree(
            f"{tree.root} does not say which release it is: neither `version` in [workspace.package] of Cargo.toml "
            "nor in [package] of candle-core/Cargo.toml is a version",
            remedy="write the release there, such as 0.11.1",
        )
    return release, tuple(crates)


def _crate_folders(tree: CandleTree, workspace: Mapping[str, Any]) -> Iterator[str]:
    """Folders with a manifest that the workspace names: as members, excluded, or as path dependencies."""
    named: list[str] = [*workspace.get("members", ()), *workspace.get("exclude", ())]
    named += [
        entry["path"]
        for entry in _table(workspace, "dependencies").values()
        if isinstance(entry, dict) and "path" in entry
    ]
    for pattern in named:
        folder = os.path.normpath(pattern).replace(os.sep, "/")
        for match in _folders(tree, folder):
            if not match.startswith(("..", "/")) and match != "." and tree.exists(f"{match}/Cargo.toml"):
                yield match


def _folders(tree: CandleTree, named: str) -> tuple[str, ...]:
    """The folders that a name or a pattern means, those among them that only the overlay has."""
    if not is_pattern(named):
        return (named,)
    laid_over = (path.removesuffix("/Cargo.toml") for path in tree.overlay if path.endswith("/Cargo.toml"))
    return (*matching(tree.root, named), *(folder for folder in laid_over if is_meant(folder, named)))


def _manifest(tree: CandleTree, path: str) -> dict[str, Any]:
    return load_manifest(toml_text.decode(tree.read(path), path), path)


def _features(manifest: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(entries) for name, entries in _table(manifest, "features").items()}


def _table(manifest: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = manifest.get(key)
    return value if isinstance(value, dict) else {}


def candle_around(root: Path) -> Path | None:
    """The Candle tree that a folder lies in, None where it lies in none."""
    for parent in root.absolute().parents:
        if (parent / "candle-core" / "Cargo.toml").is_file() and (parent / "Cargo.toml").is_file():
            return parent
    return None


def _remedy_near(root: Path) -> str:
    """The usual remedy, or the folder that was probably meant: a parent of `root` that holds candle-core."""
    if (around := candle_around(root)) is not None:
        return f"give the workspace's root: {around}"
    return f"{_REMEDY}; {_PROGRAM}"
