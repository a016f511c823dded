"""Where cargo is configured to take the crates of crates.io from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.errors import RegistryUnreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_INDEX = "sparse+https://index.crates.io/"
"""cargo's own default for the source `crates-io`."""

USE_A_CHECKOUT = "clone Candle's git repository at the release wanted and give its folder instead of the version"


@dataclass(frozen=True, slots=True)
class Source:
    """A sparse crate index, and how cargo wants it reached."""

    index: str
    """URL without `sparse+`, ending with a slash."""
    proxy: str | None = None
    cainfo: str | None = None
    """Path of a PEM file with certificate authorities to trust besides the system's."""


def crates_io_source(cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> Source:
    """The source that replaces crates.io, or crates.io itself, by cargo's rules.

    Configuration is looked for in `.cargo/config.toml` of `cwd` and its parents, then in CARGO_HOME. Folders of a
    package or workspace are passed over: a tree that a user stands in does not choose where Candle comes from. The
    nearest file wins, key by key (https://doc.rust-lang.org/cargo/reference/config.html).

    Raises:
        UsageError: a configuration file is broken, or the replacements run in a circle.
        RegistryUnreachable: the source is not a sparse index.
    """
    environ = os.environ if environ is None else environ
    config = _merged(Path.cwd() if cwd is None else cwd, environ)
    http = _table(config, "http")
    index = _index(config, environ)
    if not index.startswith(("sparse+https://", "sparse+http://")):
        raise RegistryUnreachable(
            f"cargo is configured to take crates.io from {index}, which is not a sparse index", remedy=USE_A_CHECKOUT
        )
    proxy = environ.get("CARGO_HTTP_PROXY") or http.get("proxy")
    cainfo = environ.get("CARGO_HTTP_CAINFO") or http.get("cainfo")
    return Source(index.removeprefix("sparse+").rstrip("/") + "/", proxy or None, cainfo or None)


def _index(config: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    sources, registries = _table(config, "source"), _table(config, "registries")
    name, passed = "crates-io", ["crates-io"]
    while "replace-with" in _table(sources, name):
        name = str(sources[name]["replace-with"])
        if name in passed:
            raise UsageError(
                f"cargo's sources replace one another in a circle: {' -> '.join([*passed, name])}",
                remedy="correct `replace-with` in cargo's configuration",
            )
        passed.append(name)
    source = _table(sources, name)
    for kind in ("directory", "local-registry", "git"):
        if kind in source:
            return f"the {kind} {source[kind]}"
    variable = f"CARGO_REGISTRIES_{name.upper().replace('-', '_')}_INDEX"
    index = source.get("registry") or environ.get(variable) or _table(registries, name).get("index")
    if index is None and name == "crates-io":
        return DEFAULT_INDEX
    if index is None:
        raise UsageError(
            f"cargo's configuration replaces crates.io with `{name}`, which it does not define",
            remedy=f"add `[source.{name}]` or `[registries.{name}]` to cargo's configuration",
        )
    return str(index)


def _merged(cwd: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for file in _files(cwd, environ):
        try:
            content = file.read_bytes()
        except OSError:  # cargo cannot read it either, and says so better than we could
            continue
        config = toml_text.load(toml_text.decode(content, str(file), error=UsageError), str(file), error=UsageError)
        http = _table(config, "http")
        if "cainfo" in http:  # relative to the folder that holds `.cargo`
            config["http"] = {**http, "cainfo": str(file.parent.parent / str(http["cainfo"]))}
        _add_missing(merged, config)
    return merged


def _files(cwd: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Configuration files from the nearest to the farthest; `config` without an extension hides `config.toml`."""
    home = Path(environ["CARGO_HOME"]) if environ.get("CARGO_HOME") else Path.home() / ".cargo"
    around = (cwd, *cwd.parents)
    packages = [depth for depth, folder in enumerate(around) if (folder / "Cargo.toml").exists()]
    folders = [folder / ".cargo" for folder in around[max(packages, default=-1) + 1 :]]
    if home not in folders:
        folders.append(home)
    for folder in folders:
        file = next((folder / name for name in ("config", "config.toml") if (folder / name).is_file()), None)
        if file is not None:
            yield file


def _table(config: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def _add_missing(into: dict[str, Any], farther: Mapping[str, Any]) -> None:
    for key, value in farther.items():
        if key not in into:
            into[key] = value
        elif isinstance(into[key], dict) and isinstance(value, dict):
            _add_missing(into[key], value)
