"""What a manifest has to look like for cargo to take it: who reads a value need not ask what kind it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.errors import Location, NotACandleTree, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.errors import CandleRocmError

_DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")
_TARGETS = ("bin", "example", "test", "bench")
_NAMES = ("members", "exclude", "default-members")

Fault = tuple[str, str]
"""The key that is wrong, and what it has to be."""


def load_manifest(text: str, file: str, *, error: type[CandleRocmError] = NotACandleTree) -> dict[str, Any]:
    """The content of a Cargo.toml.

    Raises:
        CandleRocmError: an `error` that names the line, for what is no TOML and for a value of another kind than
            cargo wants.
    """
    manifest = toml_text.load(text, file, error=error)
    for key, wanted in _faults(manifest):
        where = Location.in_text(file, text, toml_text.line_of_key(text, key))
        raise error(Problem(f"`{key}` has to be {wanted}", where), remedy=toml_text.BROKEN_MANIFEST)
    return manifest


def _faults(manifest: Mapping[str, Any]) -> Iterator[Fault]:
    for key in ("package", "workspace", "lib", "target", "features", "lints"):
        yield from _unless_table(manifest, key)
    package = _of(manifest, "package")
    if not isinstance(package.get("name", ""), str):
        yield "name", "a string"
    for key, entries in _of(manifest, "features").items():
        yield from _unless_strings(key, entries)
    for target in (manifest, *_of(manifest, "target").values()):
        if not isinstance(target, dict):
            yield "target", "tables"
            continue
        yield from _dependency_faults(target)
    for kind in _TARGETS:
        targets = manifest.get(kind, [])
        if not isinstance(targets, list) or not all(isinstance(target, dict) for target in targets):
            yield kind, "tables in an array"
    workspace = _of(manifest, "workspace")
    for key in _NAMES:
        yield from _unless_strings(key, workspace.get(key, []))
    for key in ("package", "lints"):
        yield from _unless_table(workspace, key)
    yield from _dependency_faults(workspace)


def _dependency_faults(scope: Mapping[str, Any]) -> Iterator[Fault]:
    for kind in _DEPENDENCIES:
        yield from _unless_table(scope, kind)
        for name, entry in _of(scope, kind).items():
            if not isinstance(entry, str | dict):
                yield name, "a version or a table"
            elif isinstance(entry, dict):
                for key in ("path", "package", "version"):
                    if not isinstance(entry.get(key, ""), str):
                        yield key, "a string"
                yield from _unless_strings("features", entry.get("features", []))


def _unless_table(scope: Mapping[str, Any], key: str) -> Iterator[Fault]:
    if not isinstance(scope.get(key, {}), dict):
        yield key, "a table"


def _unless_strings(key: str, value: Any) -> Iterator[Fault]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        yield key, "an array of strings"


def _of(scope: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = scope.get(key)
    return value if isinstance(value, dict) else {}
