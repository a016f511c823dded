"""A program or library that depends on Candle: its manifests and its sources, and none of Candle's."""

from __future__ import annotations

from dataclasses import dataclass
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
_TABLES = ("dependencies", "dev-dependencies", "build-dependencies")
_SKIPPED_FOLDERS = frozenset({"target", "node_modules"})


@dataclass(frozen=True, slots=True)
class Program:
    """One package or a workspace."""

    root: Path
    manifests: tuple[str, ...]
    """Those that name Candle, relative to the root."""

    def rust_files(self) -> tuple[str, ...]:
        """Every .rs file, sorted. Raises InputOutputError for a folder that cannot be read."""
        return tuple(sorted(_files(self.root, (".rs",))))

    def read(self, path: str) -> bytes:
        """The content of a file. Raises InputOutputError."""
        return read_below(self.root, path)


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
        manifests = {path: _manifest(root, path) for path in sorted(_files(root, ("Cargo.toml",)))}
        if any(_table(each, "package").get("name") in CANDLE for each in manifests.values()):
            return None  # Candle itself, with something amiss
        naming = tuple(path for path, each in manifests.items() if any(n in CANDLE for n in _dependencies(each)))
        return Program(root, naming) if naming else None
    return None


def _files(root: Path, endings: tuple[str, ...]) -> Iterator[str]:
    for path in walk(root, ".", endings, _SKIPPED_FOLDERS, ()):
        yield path.removeprefix("./")


def _manifest(root: Path, path: str) -> Mapping[str, Any]:
    return toml_text.load(toml_text.decode(read_below(root, path), path), path)


def _dependencies(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The packages that a manifest depends on by their own names, whatever the manifest calls them."""
    holders = [manifest, _table(manifest, "workspace")]
    holders += [table for table in _table(manifest, "target").values() if isinstance(table, dict)]
    for holder in holders:
        for key in _TABLES:
            for name, wanted in _table(holder, key).items():
                package = wanted.get("package") if isinstance(wanted, dict) else None
                yield package if isinstance(package, str) else name


def _table(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = holder.get(key)
    return value if isinstance(value, dict) else {}
