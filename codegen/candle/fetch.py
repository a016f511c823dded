"""Candle releases from the crate registry, rebuilt as workspaces in a cache.

Three steps, each complete or not done at all: the list of the release's crates, their .crate files, the workspace.
What is there is not done again, so a release that was fetched once needs no network.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.archive import unpack
from codegen.candle.cache import FetchCache, io_errors
from codegen.candle.cargo_config import USE_A_CHECKOUT
from codegen.candle.registry import IndexEntry, Registry, connect, sha256
from codegen.candle.workspace import restore_layout
from codegen.errors import InputOutputError, RegistryUnreachable, UnknownRelease, UsageError
from codegen.paths import default_cache
from codegen.release import is_version, nearest, newest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT_CRATES = (
    "candle-core",
    "candle-nn",
    "candle-transformers",
    "candle-examples",
    "candle-pyo3",
    "candle-datasets",
    "candle-onnx",
)
"""Where the search for a release's crates starts; whatever they depend on from the same release comes along."""

MOST_CRATES = 100
"""Of a release; Candle has twelve."""
_CONNECTIONS = 4
_CANDLE_CRATE = re.compile(r"candle-[a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class PublishedCrate:
    """A crate of a release."""

    name: str
    checksum: str
    """SHA-256 of the .crate file."""


@dataclass(frozen=True, slots=True)
class FetchedRelease:
    """A release in the cache."""

    version: str
    root: Path
    """The workspace; for reading only."""
    crates: tuple[PublishedCrate, ...]
    absent: tuple[str, ...]
    """Crates that other releases have and the registry does not have for this one."""


def silent(_line: str) -> None:
    """Progress that nobody watches."""


def fetch_release(
    version: str, *, cache: Path | None = None, offline: bool = False, progress: Callable[[str], None] = silent
) -> Path:
    """The root of the pristine workspace of a release, fetched if need be; see `fetch`."""
    return fetch(version, cache=cache, offline=offline, progress=progress).root


def fetch(
    version: str, *, cache: Path | None = None, offline: bool = False, progress: Callable[[str], None] = silent
) -> FetchedRelease:
    """A release of Candle in the cache, downloaded and rebuilt as far as it is not there yet.

    A cached workspace that somebody changed is made anew. `progress` gets one line per step that takes time.

    Raises:
        UnknownRelease: the registry has no such version, or has yanked it.
        RegistryUnreachable: something is neither cached nor to be had.
        ChecksumMismatch: the registry sent something else than its index promises.
        InputOutputError: the cache cannot be written, or a crate is not what it should be.
        UsageError: cargo's configuration is broken.
    """
    store = FetchCache(default_cache() if cache is None else cache)
    store.require_own()
    if not is_version(version):
        raise _unknown(version, offline=offline)
    connected = None if offline else functools.cache(connect)
    crates, absent = _listed(store, version) or _resolve(store, version, connected, progress)
    if not store.is_pristine(version):
        _build(store, version, crates, connected, progress)
    return FetchedRelease(version, store.tree(version), crates, absent)


def copy_release(
    version: str,
    to: Path,
    *,
    cache: Path | None = None,
    offline: bool = False,
    progress: Callable[[str], None] = silent,
) -> FetchedRelease:
    """Write a fresh workspace of a release to the folder `to`, which must be empty or absent; fetches if need be.

    Raises:
        UsageError: `to` is a file or a folder with something in it.
        CandleRocmError: as `fetch` does; `to` is then as it was.
    """
    _require_empty(to)
    store = FetchCache(default_cache() if cache is None else cache)
    store.require_own()
    release = fetch(version, cache=cache, offline=offline, progress=progress)
    progress(f"copying Candle {version} to {to}")
    target = to.absolute()
    with io_errors(f"writing {to}", remedy="choose a folder that can be written with --to"):
        _copy_files(release.root, store.files(version), target)
    return FetchedRelease(version, target, release.crates, release.absent)


def _copy_files(source: Path, files: Iterable[str], target: Path) -> None:
    """Copy files into an empty or absent folder, which is as it was if that fails."""
    existed = target.is_dir()
    target.mkdir(parents=True, exist_ok=True)
    try:
        part = Path(tempfile.mkdtemp(prefix=".candle-rocm-", dir=target))
        for path in files:
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / path, part / path)
        for entry in part.iterdir():  # the folder itself stays: a shell may stand in it
            entry.rename(target / entry.name)
        part.rmdir()
    except BaseException:
        for entry in target.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if not existed:
            target.rmdir()
        raise


def cached_releases(cache: Path | None = None) -> tuple[str, ...]:
    """Releases that need no network, newest first."""
    store = FetchCache(default_cache() if cache is None else cache)
    store.require_own()
    return newest_first(version for version in store.releases() if _is_complete(store, version))


def _is_complete(store: FetchCache, version: str) -> bool:
    listed = _listed(store, version)
    return listed is not None and (
        store.is_pristine(version) or all(store.crate_file(crate.name, version).is_file() for crate in listed[0])
    )


def _require_empty(to: Path) -> None:
    with io_errors(f"looking at {to}", remedy="choose another folder with --to"):
        occupied = to.exists() and not (to.is_dir() and not any(to.iterdir()))
    if occupied:
        raise UsageError(f"{to} is not an empty folder", remedy="choose a new folder with --to, or empty this one")


def _listed(store: FetchCache, version: str) -> tuple[tuple[PublishedCrate, ...], tuple[str, ...]] | None:
    """The crates of a release as an earlier fetch wrote them down, or None."""
    try:
        content = json.loads(store.release_file(version).read_text(encoding="utf-8"))
        crates = tuple(PublishedCrate(each["name"], each["checksum"]) for each in content["crates"])
        return crates, tuple(content["absent"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # missing or damaged: both are cured by asking the registry


def _resolve(
    store: FetchCache, version: str, connected: Callable[[], Registry] | None, progress: Callable[[str], None]
) -> tuple[tuple[PublishedCrate, ...], tuple[str, ...]]:
    """Ask the index which crates the release consists of, and write it down; `connected` is None when offline."""
    if connected is None:
        raise _offline(f"Candle {version} was not fetched yet", store)
    progress(f"looking up Candle {version} in the crate registry")
    registry = connected()
    core = registry.entries("candle-core")
    release = next((entry for entry in core if entry.version == version), None)
    if release is None or release.yanked:
        raise _unknown_in(core, version, "was yanked from the registry" if release else "is not in the registry")
    crates, absent = _closure(registry, version)
    content = {"version": version, "crates": [asdict(crate) for crate in crates], "absent": absent}
    with io_errors("writing the cache of fetched releases"):
        store.write(store.release_file(version), json.dumps(content, indent=2).encode())
    return crates, absent


def _closure(registry: Registry, version: str) -> tuple[tuple[PublishedCrate, ...], tuple[str, ...]]:
    """The root crates and, over any number of steps, the Candle crates of the same release that they depend on."""
    from concurrent.futures import ThreadPoolExecutor

    found: dict[str, IndexEntry | None] = {}
    wanted: set[str] = set(ROOT_CRATES)

    def look_up(crate: str) -> tuple[str, IndexEntry | None]:
        return crate, next((entry for entry in registry.entries(crate) if entry.version == version), None)

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        while wanted:
            answers = dict(pool.map(look_up, sorted(wanted)))
            found |= answers
            if len(found) > MOST_CRATES:
                raise RegistryUnreachable(
                    f"the index says that Candle {version} has more than {MOST_CRATES} crates",
                    remedy=f"check the registry that cargo is configured for; or {USE_A_CHECKOUT}",
                )
            wanted = {
                dependency.crate
                for entry in answers.values()
                if entry is not None
                for dependency in entry.dependencies
                if _CANDLE_CRATE.fullmatch(dependency.crate) and dependency.names_release(version)
            } - set(found)
    crates = tuple(PublishedCrate(name, entry.checksum) for name, entry in sorted(found.items()) if entry is not None)
    return crates, tuple(sorted(name for name, entry in found.items() if entry is None))


def _build(
    store: FetchCache,
    version: str,
    crates: tuple[PublishedCrate, ...],
    connected: Callable[[], Registry] | None,
    progress: Callable[[str], None],
) -> None:
    contents = _archives(store, version, crates, connected, progress)
    progress(f"rebuilding the workspace of Candle {version}")
    with io_errors("writing the cache of fetched releases"), store.staging() as staging:
        candle = staging / "tree" / "candle"  # not staging itself, which only its owner may enter
        candle.mkdir(parents=True)
        for name, content in contents.items():
            unpack(content, name, version, candle / name)
        for remark in restore_layout(candle):
            progress(remark)
        store.install_tree(version, candle)


def _archives(
    store: FetchCache,
    version: str,
    crates: tuple[PublishedCrate, ...],
    connected: Callable[[], Registry] | None,
    progress: Callable[[str], None],
) -> dict[str, bytes]:
    """The verified .crate file of every crate, from the cache where it is there and whole."""
    from concurrent.futures import ThreadPoolExecutor

    contents = {crate.name: _cached_archive(store, version, crate) for crate in crates}
    missing = tuple(crate for crate in crates if contents[crate.name] is None)
    if missing and connected is None:
        names = ", ".join(crate.name for crate in missing)
        raise _offline(f"of Candle {version}, these crates are not in the cache: {names}", store)
    if missing and connected is not None:
        progress(f"downloading {len(missing)} crate{'s' * (len(missing) > 1)} of Candle {version}")
        registry = connected()

        def download(crate: PublishedCrate) -> bytes:
            content = registry.download(IndexEntry(crate.name, version, crate.checksum, yanked=False, dependencies=()))
            with io_errors("writing the cache of fetched releases"):
                store.write(store.crate_file(crate.name, version), content)
            return content

        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            contents |= dict(zip((crate.name for crate in missing), pool.map(download, missing), strict=True))
    return {name: content for name, content in contents.items() if content is not None}


def _cached_archive(store: FetchCache, version: str, crate: PublishedCrate) -> bytes | None:
    with contextlib.suppress(OSError):
        content = store.crate_file(crate.name, version).read_bytes()
        if sha256(content) == crate.checksum:
            return content
    return None


def _offline(message: str, store: FetchCache) -> RegistryUnreachable:
    return RegistryUnreachable(
        f"{message}, and this is an offline run",
        remedy=f"fetch it once with a network (the cache is {store.root}), or {USE_A_CHECKOUT}",
    )


def _unknown(version: str, *, offline: bool) -> UnknownRelease:
    core: tuple[IndexEntry, ...] = ()
    if not offline:
        with contextlib.suppress(InputOutputError):  # suggestions are welcome, not needed
            core = connect().entries("candle-core")
    return _unknown_in(core, version, "is not a full version such as 0.11.1")


def _unknown_in(core: Iterable[IndexEntry], version: str, why: str) -> UnknownRelease:
    known = [entry.version for entry in core if not entry.yanked and is_version(entry.version)]
    suggestions = ", ".join(nearest(version, known))
    remedy = f"take one of the nearest releases: {suggestions}" if known else "give a published version of candle-core"
    return UnknownRelease(f"`{version}` {why}", remedy=f"{remedy}; or {USE_A_CHECKOUT}")
