"""A program or library that depends on Candle: its manifests and its sources, and none of Candle's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.candle.reading import read_below, walk
from codegen.candle.tree import candle_around, open_tree
from codegen.errors import NotACandleTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CANDLE = ("candle-core", "candle-nn", "candle-transformers", "candle-datasets")
"""The crates by which a manifest shows that it depends on Candle."""
WITH_FEATURE = ("candle-core", "candle-nn", "candle-transformers")
"""Those that have the feature `rocm` when Candle is patched."""
_TABLES = ("dependencies", "dev-dependencies", "build-dependencies")
_SKIPPED_FOLDERS = frozenset({"target", "node_modules"})


@dataclass(frozen=True, slots=True)
class Dependency:
    """A crate that a manifest asks for."""

    key: str
    """What the manifest calls it."""
    package: str
    """Its own name."""
    wanted: Mapping[str, Any] = field(hash=False)
    """The entry, with what it inherits from the workspace's; empty for a plain version."""

    @property
    def inherited(self) -> bool:
        """Whether the workspace's manifest says where it comes from."""
        return self.wanted.get("workspace") is True


@dataclass(frozen=True, slots=True)
class Program:
    """One package or a workspace."""

    root: Path
    manifests: tuple[str, ...]
    """Those that name Candle, relative to the root."""
    overlay: Mapping[str, bytes | None] = field(default_factory=dict, hash=False)
    """What files are to be seen as, instead of what they are; None where there is to be none."""

    def rust_files(self) -> tuple[str, ...]:
        """Every .rs file, sorted. Raises InputOutputError for a folder that cannot be read."""
        return self.files((".rs",))

    def files(self, endings: tuple[str, ...]) -> tuple[str, ...]:
        """Every file whose name ends in one of `endings`, sorted. Raises InputOutputError."""
        found = {path for path in _files(self.root, endings) if self.overlay.get(path, b"") is not None}
        return tuple(
            sorted(found | {p for p, text in self.overlay.items() if text is not None and p.endswith(endings)})
        )

    def read(self, path: str) -> bytes:
        """The content of a file. Raises InputOutputError."""
        seen = self.overlay.get(path)
        return read_below(self.root, path) if seen is None else seen

    def manifest(self, path: str) -> Mapping[str, Any]:
        """A manifest as data. Raises NotACandleTree for what is no TOML, and InputOutputError."""
        return toml_text.load(toml_text.decode(self.read(path), path), path)


def find_program(candle: str | Path) -> Program | None:
    """The program in a folder; None for a Candle tree, a version, and whatever does not depend on Candle.

    Raises NotACandleTree for a manifest that is not TOML, and InputOutputError.
    """
    root = Path(candle)
    if not (root / "Cargo.toml").is_file() or candle_around(root) is not None:
        return None
    try:
        open_tree(root)
    except NotACandleTree:
        manifests = {path: manifest_of(root, path) for path in sorted(_files(root, ("Cargo.toml",)))}
        if any(table_of(each, "package").get("name") in CANDLE for each in manifests.values()):
            return None  # Candle itself, with something amiss
        above = manifests["Cargo.toml"]
        naming = (p for p, each in manifests.items() if any(d.package in CANDLE for d in dependencies(each, above)))
        return Program(root, found) if (found := tuple(naming)) else None
    return None


def _files(root: Path, endings: tuple[str, ...]) -> Iterator[str]:
    for path in walk(root, ".", endings, _SKIPPED_FOLDERS, ()):
        yield path.removeprefix("./")


def manifest_of(root: Path, path: str) -> Mapping[str, Any]:
    """A manifest as data. Raises NotACandleTree for what is no TOML, and InputOutputError."""
    return toml_text.load(toml_text.decode(read_below(root, path), path), path)


def dependencies(manifest: Mapping[str, Any], workspace: Mapping[str, Any]) -> Iterator[Dependency]:
    """What a manifest asks for, in all its tables; `workspace` is the one that it may inherit from."""
    inherited = table_of(table_of(workspace, "workspace"), "dependencies")
    holders = [manifest, table_of(manifest, "workspace")]
    holders += [each for each in table_of(manifest, "target").values() if isinstance(each, dict)]
    for holder in holders:
        for kind in _TABLES:
            for key, value in table_of(holder, kind).items():
                wanted = value if isinstance(value, dict) else {}
                above = inherited.get(key) if wanted.get("workspace") is True else None
                both = {**(above if isinstance(above, dict) else {}), **wanted}
                package = both.get("package")
                yield Dependency(key, package if isinstance(package, str) else key, both)


def table_of(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The table of that name; empty where there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}
