"""What cargo builds of a crate: its targets, from its manifest and its files."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

_FOLDERS = {"test": "tests", "bin": "src/bin", "example": "examples", "bench": "benches"}


@lru_cache(maxsize=512)
def _parsed(manifest: bytes) -> dict[str, Any]:
    """The manifest as data, which nobody changes; a crate is asked for once for each of its targets and dependents."""
    return tomllib.loads(manifest.decode())


@dataclass(frozen=True, slots=True)
class View:
    """A tree on disk with other contents laid over it; None for a file that is not there."""

    root: Path
    overlay: Mapping[str, bytes | None] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:
        """What the file holds; None where there is none."""
        if path in self.overlay:
            return self.overlay[path]
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def sources(self, folder: str) -> tuple[str, ...]:
        """Every .rs file in the folder and below, sorted."""
        below = f"{folder}/"
        found = {
            (PurePosixPath(os.path.relpath(where, self.root)) / name).as_posix()
            for where, _, names in os.walk(self.root / folder)
            for name in names
        }
        found = {path for path in found if self.overlay.get(path, b"") is not None}
        found |= {path for path, content in self.overlay.items() if path.startswith(below) and content is not None}
        return tuple(sorted(path for path in found if path.endswith(".rs")))

    def manifest(self, folder: str) -> dict[str, Any]:
        """The manifest of the crate in `folder`, of the workspace for an empty one.

        Raises ValueError when it is not TOML, KeyError when there is none.
        """
        path = f"{folder}/Cargo.toml".lstrip("/")
        content = self.read(path)
        if content is None:
            raise KeyError(path)
        return _parsed(content)


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A library or a program, named as in cargo's JSON messages."""

    kind: str
    """`lib`, `bin`, `test`, `example` or `bench`."""
    name: str
    path: str = field(compare=False)
    """The file that it is compiled from, relative to the tree."""
    tested: bool = field(default=True, compare=False)
    """Whether `cargo test --tests` makes a program of libtest's of it."""

    def __str__(self) -> str:
        return self.name if self.kind == "test" else f"{self.kind}:{self.name}"


def enabled_features(manifest: Mapping[str, Any], features: Collection[str]) -> frozenset[str]:
    """These features and the default ones, and the crate's own ones that they bring along."""
    entries = manifest.get("features", {})
    enabled: set[str] = set()
    waiting = [*features, "default"]
    while waiting:
        name = waiting.pop()
        if name not in enabled:
            enabled.add(name)
            waiting += [each for each in entries.get(name, ()) if ":" not in each and "/" not in each]
    return frozenset(enabled)


def crate_targets(view: View, folder: str, features: Collection[str]) -> tuple[Target, ...]:
    """The targets of the crate in a folder that these features allow, those included that others bring along."""
    manifest = view.manifest(folder)
    library = manifest.get("lib", {})
    name = manifest["package"]["name"].replace("-", "_")
    path = f"{folder}/{library.get('path', 'src/lib.rs')}"
    found = []
    if view.read(path) is not None:
        found.append(Target("lib", library.get("name", name), path, library.get("test", True)))
    for kind in _FOLDERS:
        by_default = kind in ("bin", "test")
        named = {str(entry["name"]): entry for entry in manifest.get(kind, ())}
        discovered = dict(_discovered(view, folder, manifest, kind))
        for each in sorted({*named, *discovered}):
            entry = named.get(each, {})
            on = set(entry.get("required-features", ())) <= set(features)
            path = f"{folder}/{entry['path']}" if "path" in entry else discovered.get(each, "")
            if on and path:
                tested = entry.get("test", by_default) and entry.get("harness", True)
                found.append(Target(kind, each, path, tested))
    return tuple(found)


def test_targets(view: View, folder: str, features: Collection[str]) -> tuple[Target, ...]:
    """What `cargo test --tests` builds of the crate: as a rule its library, its programs and its integration tests."""
    return tuple(target for target in crate_targets(view, folder, features) if target.tested)


def path_dependencies(view: View, folder: str, *, development: bool) -> tuple[str, ...]:
    """The folders of the crates beside this one that it is built with; `development` for its tests and examples too."""
    shared = view.manifest("").get("workspace", {}).get("dependencies", {})
    manifest = view.manifest(folder)
    found = []
    for table in ("dependencies", "dev-dependencies")[: 2 if development else 1]:
        for name, entry in manifest.get(table, {}).items():
            whole = shared.get(name) if isinstance(entry, dict) and entry.get("workspace") else entry
            package = whole.get("package", name) if isinstance(whole, dict) else name
            if view.read(f"{package}/Cargo.toml") is not None:
                found.append(package)
    return tuple(dict.fromkeys(found))


def _discovered(view: View, folder: str, manifest: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    """Targets that cargo finds by where their files lie."""
    if not manifest["package"].get(f"auto{kind}s", True):
        return
    base = f"{folder}/{_FOLDERS[kind]}"
    for path in view.sources(base):
        parts = path.removeprefix(f"{base}/").split("/")
        if len(parts) == 1:
            yield parts[0].removesuffix(".rs"), path
        elif len(parts) == 2 and parts[1] == "main.rs":
            yield parts[0], path
    main = f"{folder}/src/main.rs"
    if kind == "bin" and view.read(main) is not None:
        yield manifest["package"]["name"], main
