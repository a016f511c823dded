"""Candle's git workspace rebuilt from its published crates.

crates.io gives every crate a normalised Cargo.toml and keeps git's as Cargo.toml.orig. Git's manifests inherit from a
root manifest that is not published; it is derived here from the differences between the two. What only unpublished
crates use cannot be known and is absent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.candle.cargo_shape import load_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_DROPPED = ("Cargo.lock", ".cargo_vcs_info.json", ".cargo-ok")
_KINDS = ("dependencies", "dev-dependencies", "build-dependencies")
_ENTRY_ORDER = ("path", "package", "version", "default-features", "features")
_GIT_ORDER = ("candle-core", "candle-datasets", "candle-examples", "candle-nn", "candle-pyo3", "candle-transformers")


def restore_layout(root: Path) -> tuple[str, ...]:
    """Turn a folder of unpacked crates, each in a folder of its own name, into Candle's workspace.

    Returns remarks about what could not be restored as in git; empty for the releases that were tried.

    Raises:
        NotACandleTree: a crate's manifest is broken or missing.
        OSError: reading or writing failed.
    """
    names = sorted(path.name for path in root.iterdir() if path.is_dir())
    originals: dict[str, dict[str, Any]] = {}
    normalised: dict[str, dict[str, Any]] = {}
    remarks: list[str] = []
    for name in names:
        folder = root / name
        normalised[name] = _load(folder / "Cargo.toml", root)
        original = folder / "Cargo.toml.orig"
        if original.is_file():
            original.replace(folder / "Cargo.toml")
        remarks += _without_absent_paths(folder / "Cargo.toml", root)
        originals[name] = _load(folder / "Cargo.toml", root)
        for dropped in _DROPPED:
            (folder / dropped).unlink(missing_ok=True)
    text, unresolved = root_manifest(originals, normalised)
    (root / "Cargo.toml").write_bytes(text.encode())
    remarks += [f"no crate says which version of `{name}` the workspace wants" for name in unresolved]
    return tuple(remarks)


def root_manifest(
    originals: Mapping[str, dict[str, Any]], normalised: Mapping[str, dict[str, Any]]
) -> tuple[str, tuple[str, ...]]:
    """The text of the workspace's manifest, and the dependencies whose version nobody knows (written as `*`).

    Both arguments map a crate's name to its manifest: as in git, and as published.
    """
    members = [name for name in _in_git_order(originals) if _inherits(originals[name])]
    lines = ["[workspace]", "members = [", *(f"    {json.dumps(name)}," for name in members), "]"]
    excluded = sorted(set(originals) - set(members))
    lines += ["exclude = [", *(f"    {json.dumps(name)}," for name in excluded), "]", 'resolver = "2"']
    for section in ("package", "lints"):
        inherited = _inherited(section, members, originals, normalised)
        if inherited:
            lines += ["", f"[workspace.{section}]", *_assignments(inherited)]
    dependencies = _workspace_dependencies(members, originals, normalised)
    lines += ["", "[workspace.dependencies]", *_assignments(dependencies)]
    unresolved = tuple(name for name, entry in dependencies.items() if entry == {"version": "*"})
    return "\n".join(lines) + "\n", unresolved


def _in_git_order(names: Iterable[str]) -> list[str]:
    present = set(names)
    return [name for name in _GIT_ORDER if name in present] + sorted(present - set(_GIT_ORDER))


def _inherits(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest takes anything from a workspace: those that do not are excluded from it in git."""
    package = manifest.get("package", {})
    return any(_is_inherited(value) for value in package.values()) or any(
        _is_inherited(entry) for _, _, entry in dependencies_of(manifest)
    )


def _is_inherited(value: Any) -> bool:
    return isinstance(value, dict) and value.get("workspace") is True


def dependencies_of(manifest: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every dependency of a manifest as (path of its table, key, entry)."""
    scopes: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), manifest)]
    scopes += [(("target", name), target) for name, target in manifest.get("target", {}).items()]
    for prefix, scope in scopes:
        for kind in _KINDS:
            for name, entry in scope.get(kind, {}).items():
                yield (*prefix, kind), name, entry


def _inherited(
    section: str,
    members: list[str],
    originals: Mapping[str, dict[str, Any]],
    normalised: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """What the members take from `[workspace.package]` or `[workspace.lints]`; candle-core's values come first."""
    values: dict[str, Any] = {}
    for name in members:
        original, published = originals[name].get(section, {}), normalised[name].get(section, {})
        if _is_inherited(original):  # `[lints] workspace = true` takes the whole table
            values = {**published, **values}
        for key, value in original.items():
            if _is_inherited(value) and key in published:
                values.setdefault(key, published[key])
    return values


def _workspace_dependencies(
    members: list[str], originals: Mapping[str, dict[str, Any]], normalised: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for member in members:
        published = {(table, name): entry for table, name, entry in dependencies_of(normalised[member])}
        by_name = {name: entry for (_, name), entry in published.items()}
        for table, name, own in dependencies_of(originals[member]):
            if _is_inherited(own):
                entry = published.get((table, name), by_name.get(name, {}))
                found[name] = _united(found.get(name), _table_form(entry), own)
    entries: dict[str, Any] = {}
    for name in sorted(found):
        entry = found[name]
        crate = str(entry.get("package", name))
        if crate in originals:
            entry["path"] = f"./{crate}"
        elif "version" not in entry:
            entry["version"] = "*"
        entries[name] = {key: entry[key] for key in _ENTRY_ORDER if key in entry}
    return entries


def _table_form(entry: Any) -> dict[str, Any]:
    return {"version": entry} if isinstance(entry, str) else dict(entry)


def _united(known: dict[str, Any] | None, published: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The workspace's entry as far as one more member shows it: what was published, less the member's own."""
    united = dict(known or {})
    for key in ("version", "package"):
        if key in published:
            united.setdefault(key, published[key])
    if published.get("default-features") is False and own.get("default-features") is not False:
        united["default-features"] = False
    inherited = [each for each in published.get("features", []) if each not in own.get("features", [])]
    features = sorted({*united.get("features", []), *inherited})
    if features:
        united["features"] = features
    return united


def _without_absent_paths(manifest: Path, root: Path) -> list[str]:
    """Take path dependencies that are not on disk out of a manifest, for cargo reads even optional ones."""
    content = _load(manifest, root)
    absent = [
        (table, name, entry)
        for table, name, entry in dependencies_of(content)
        if isinstance(entry, dict)
        and "path" in entry
        and not (manifest.parent / entry["path"] / "Cargo.toml").is_file()
    ]
    if not absent:
        return []
    import tomlkit

    document: Any = tomlkit.parse(manifest.read_bytes().decode())
    remarks = []
    for table, name, entry in absent:
        scope = document
        for key in table:
            scope = scope[key]
        if "version" in entry:
            del scope[name]["path"]
        else:
            del scope[name]
        where = manifest.relative_to(root).as_posix()
        remarks.append(f"{where}: `{name}` has no path, because {entry['path']} was not published")
    manifest.write_bytes(tomlkit.dumps(document).encode())
    return remarks


def _load(manifest: Path, root: Path) -> dict[str, Any]:
    name = manifest.relative_to(root).as_posix()
    return load_manifest(toml_text.decode(manifest.read_bytes(), name), name)


def _assignments(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items()]


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    """A TOML value on one line; JSON's strings, numbers and booleans are TOML's."""
    if isinstance(value, dict):
        if set(value) == {"version"}:
            return _value(value["version"])
        return "{ " + ", ".join(_assignments(value)) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
