from __future__ import annotations

import errno
import os
import shutil
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from loopback_registry import LoopbackRegistry, crate_archive

from codegen.candle import cache as cache_module
from codegen.candle import fetch as fetch_module
from codegen.candle import registry as registry_module
from codegen.candle.cache import FetchCache
from codegen.candle.fetch import cached_releases, copy_release, fetch, fetch_release
from codegen.errors import (
    ChecksumMismatch,
    ExitCode,
    InputOutputError,
    RegistryUnreachable,
    UnknownRelease,
    UsageError,
)
from codegen.paths import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = "clone Candle's git repository at the release wanted and give its folder instead of the version"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LoopbackRegistry]:
    monkeypatch.setattr(registry_module, "PAUSES_SECONDS", (0.0, 0.0))
    with LoopbackRegistry() as running:
        running.configure(monkeypatch, tmp_path)
        running.publish_candle("0.9.1")
        yield running


def content_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def test_workspace_is_that_of_git(server: LoopbackRegistry) -> None:
    lines: list[str] = []
    release = fetch("0.9.1", progress=lines.append)
    assert sorted(content_of(release.root)) == [
        "Cargo.toml",
        "candle-core/Cargo.toml",
        "candle-core/build.rs",
        "candle-core/src/lib.rs",
        "candle-core/tests/one.rs",
        "candle-kernels/Cargo.toml",
        "candle-kernels/src/lib.rs",
        "candle-nn/Cargo.toml",
        "candle-nn/src/lib.rs",
        "candle-nn/tool.sh",
        "candle-onnx/Cargo.toml",
        "candle-onnx/src/lib.rs",
    ]
    assert toml(release.root / "Cargo.toml") == {
        "workspace": {
            "members": ["candle-core", "candle-nn"],
            "exclude": ["candle-kernels", "candle-onnx"],
            "resolver": "2",
            "package": {"version": "0.9.1", "edition": "2021"},
            "dependencies": {
                "candle": {"path": "./candle-core", "package": "candle-core", "version": "0.9.1"},
                "candle-kernels": {"path": "./candle-kernels", "version": "0.9.1"},
                "gemm": {"version": "0.17", "default-features": False, "features": ["wasm"]},
                "half": {"version": "2.5", "features": ["num-traits"]},
                "ug": "0.4",
            },
        }
    }
    assert "version.workspace = true" in (release.root / "candle-core" / "Cargo.toml").read_text()
    assert os.access(release.root / "candle-nn" / "tool.sh", os.X_OK)
    assert [crate.name for crate in release.crates] == ["candle-core", "candle-kernels", "candle-nn", "candle-onnx"]
    assert release.absent == ("candle-datasets", "candle-examples", "candle-pyo3", "candle-transformers")
    assert lines == [
        "looking up Candle 0.9.1 in the crate registry",
        "downloading 4 crates of Candle 0.9.1",
        "rebuilding the workspace of Candle 0.9.1",
        "candle-onnx/Cargo.toml: `candle-lost` has no path, because ../candle-lost was not published",
        "candle-onnx/Cargo.toml: `candle-gone` has no path, because ../candle-gone was not published",
    ]


def test_path_dependencies_that_are_not_on_disk_are_taken_out(server: LoopbackRegistry) -> None:
    manifest = toml(fetch_release("0.9.1") / "candle-onnx" / "Cargo.toml")
    assert manifest["dependencies"] == {
        "candle": {"path": "../candle-core", "package": "candle-core", "version": "0.9.1"},
        "candle-lost": {"version": "0.9.1", "optional": True},
    }
    assert manifest["dev-dependencies"] == {}


def test_second_fetch_needs_no_network(server: LoopbackRegistry) -> None:
    first = fetch("0.9.1")
    server.stop()
    lines: list[str] = []
    assert fetch("0.9.1", progress=lines.append) == first
    assert fetch("0.9.1", offline=True, progress=lines.append) == first
    assert lines == []


@pytest.mark.parametrize("kind", ["edited", "removed", "added", "tree gone"])
def test_changed_workspace_is_made_anew_without_network(server: LoopbackRegistry, kind: str) -> None:
    root = fetch_release("0.9.1")
    pristine = content_of(root)
    server.stop()
    library = root / "candle-core" / "src" / "lib.rs"
    if kind == "edited":
        library.write_text("pub fn something_else() {}\n")
    elif kind == "removed":
        library.unlink()
    elif kind == "added":
        (library.parent / "more.rs").touch()
    else:
        shutil.rmtree(root.parent)
    assert fetch_release("0.9.1", offline=True) == root
    assert content_of(root) == pristine


def test_what_cargo_writes_does_not_matter(server: LoopbackRegistry) -> None:
    root = fetch_release("0.9.1")
    (root / "Cargo.lock").touch()
    (root / "target" / "debug").mkdir(parents=True)
    lines: list[str] = []
    fetch_release("0.9.1", progress=lines.append)
    assert lines == []


def test_damaged_archive_is_downloaded_again(server: LoopbackRegistry) -> None:
    root = fetch_release("0.9.1")
    store = FetchCache(default_cache())
    store.crate_file("candle-nn", "0.9.1").write_bytes(b"damaged")
    shutil.rmtree(root.parent)
    lines: list[str] = []
    fetch_release("0.9.1", progress=lines.append)
    assert lines[0] == "downloading 1 crate of Candle 0.9.1"


def test_damaged_archive_offline(server: LoopbackRegistry) -> None:
    root = fetch_release("0.9.1")
    store = FetchCache(default_cache())
    store.crate_file("candle-nn", "0.9.1").unlink()
    shutil.rmtree(root.parent)
    assert cached_releases() == ()
    with pytest.raises(RegistryUnreachable) as caught:
        fetch("0.9.1", offline=True)
    assert str(caught.value) == (
        "crate registry unreachable: of Candle 0.9.1, these crates are not in the cache: candle-nn, "
        f"and this is an offline run\n  = help: fetch it once with a network (the cache is {store.root}), or {CHECKOUT}"
    )


def test_damaged_list_of_crates_is_looked_up_again(server: LoopbackRegistry) -> None:
    fetch("0.9.1")
    FetchCache(default_cache()).release_file("0.9.1").write_text("{")
    assert cached_releases() == ()
    lines: list[str] = []
    fetch("0.9.1", progress=lines.append)
    assert lines == ["looking up Candle 0.9.1 in the crate registry"]


def test_offline_and_not_cached(server: LoopbackRegistry) -> None:
    with pytest.raises(RegistryUnreachable) as caught:
        fetch("0.9.1", offline=True)
    assert str(caught.value) == (
        "crate registry unreachable: Candle 0.9.1 was not fetched yet, and this is an offline run\n"
        f"  = help: fetch it once with a network (the cache is {default_cache()}), or {CHECKOUT}"
    )
    assert caught.value.exit_code == ExitCode.IO
    assert not server.requests


def test_no_network_and_not_cached(server: LoopbackRegistry) -> None:
    server.stop()
    with pytest.raises(RegistryUnreachable, match=r"/index/config\.json: \[Errno"):
        fetch("0.9.1")
    assert not default_cache().exists()


def test_unknown_release_names_the_nearest(server: LoopbackRegistry) -> None:
    for version in ("0.9.0", "0.9.2-alpha.1", "0.10.0"):
        server.publish("candle-core", version, b"")
    server.publish("candle-core", "0.9.2", b"", yanked=True)
    with pytest.raises(UnknownRelease) as caught:
        fetch("0.9.3")
    assert str(caught.value) == (
        "unknown Candle release: `0.9.3` is not in the registry\n"
        f"  = help: take one of the nearest releases: 0.9.0, 0.9.1, 0.9.2-alpha.1, 0.10.0; or {CHECKOUT}"
    )
    assert caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(UnknownRelease, match=r"`0\.9\.2` was yanked from the registry"):
        fetch("0.9.2")
    with pytest.raises(UnknownRelease, match=r"`0\.9` is not a full version such as 0\.11\.1\n.*: 0\.9\.0, 0\.9\.1"):
        fetch("0.9")


def test_version_that_is_none_without_network(server: LoopbackRegistry) -> None:
    for offline in (True, False):
        server.stop()
        with pytest.raises(UnknownRelease, match="help: give a published version of candle-core; or clone"):
            fetch("../../etc", offline=offline)


def test_registry_without_candle(server: LoopbackRegistry) -> None:
    server.pages = {"/index/config.json": server.pages["/index/config.json"]}
    with pytest.raises(UnknownRelease, match=r"`0\.9\.1` is not in the registry\n  = help: give a published version"):
        fetch("0.9.1")


def test_crate_of_another_content_leaves_no_tree(server: LoopbackRegistry) -> None:
    server.pages["/dl/candle-nn/0.9.1/download"] = b"tampered"
    with pytest.raises(ChecksumMismatch, match=r"candle-nn 0\.9\.1 from"):
        fetch("0.9.1")
    store = FetchCache(default_cache())
    assert not store.tree("0.9.1").exists()
    assert not store.crate_file("candle-nn", "0.9.1").exists()
    assert cached_releases() == ()


def test_interrupted_rebuild_leaves_nothing(server: LoopbackRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_root: Path) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetch_module, "restore_layout", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch("0.9.1")
    cache = default_cache()
    assert list((cache / "staging").iterdir()) == []
    assert list(cache.glob("trees/*")) == []
    assert fetch("0.9.1", offline=True).root.is_dir()


def test_staging_left_by_a_killed_process_goes_after_a_day(tmp_path: Path) -> None:
    old, fresh = tmp_path / "staging" / "old", tmp_path / "staging" / "fresh"
    for folder in (old, fresh):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    with FetchCache(tmp_path).staging():
        pass
    assert list((tmp_path / "staging").iterdir()) == [fresh]


@pytest.mark.parametrize(
    ("number", "text", "remedy"),
    [
        (errno.ENOSPC, "No space left on device", "free disk space, or choose a writable cache with"),
        (errno.EROFS, "Read-only file system", "choose a writable cache with"),
        (errno.EACCES, "Permission denied", "choose a writable cache with"),
    ],
)
def test_cache_that_cannot_be_written(
    server: LoopbackRegistry, monkeypatch: pytest.MonkeyPatch, number: int, text: str, remedy: str
) -> None:
    def fail(path: Path, content: bytes) -> int:
        raise OSError(number, text, str(path.name))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        with pytest.raises(InputOutputError) as caught:
            fetch("0.9.1")
    assert str(caught.value) == (
        f"input/output error: writing the cache of fetched releases: 0.9.1.json: {text}\n"
        f"  = help: {remedy} CANDLE_ROCM_FETCH_DIR"
    )
    assert caught.value.exit_code == ExitCode.IO


def test_fetches_at_the_same_time_agree(server: LoopbackRegistry) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: fetch("0.9.1"), range(6)))
    assert len(set(found)) == 1
    assert FetchCache(default_cache()).is_pristine("0.9.1")
    assert list((default_cache() / "staging").iterdir()) == []


def test_tree_that_others_finished_first_stays(tmp_path: Path) -> None:
    store = FetchCache(tmp_path)
    inodes = []
    for _ in range(2):
        with store.staging() as staging:
            candle = staging / "tree" / "candle"
            (candle / "candle-core").mkdir(parents=True)
            (candle / "Cargo.toml").touch()
            (candle / "candle-core" / "Cargo.toml").touch()
            store.install_tree("0.9.1", candle)
        inodes.append(store.tree("0.9.1").stat().st_ino)
    assert inodes[0] == inodes[1]
    assert store.files("0.9.1") == ("Cargo.toml", "candle-core/Cargo.toml")


def test_copy_is_fresh_and_complete(server: LoopbackRegistry, tmp_path: Path) -> None:
    root = fetch_release("0.9.1")
    pristine = content_of(root)
    (root / "Cargo.lock").touch()
    (tmp_path / "empty").mkdir()
    for to in (tmp_path / "new" / "candle", tmp_path / "empty"):
        release = copy_release("0.9.1", to)
        assert release.root == to
        assert content_of(to) == pristine
        assert os.access(to / "candle-nn" / "tool.sh", os.X_OK)
        assert sorted(path.name for path in to.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("occupied", ["file", "folder"])
def test_copy_needs_an_empty_folder(server: LoopbackRegistry, tmp_path: Path, occupied: str) -> None:
    to = tmp_path / "to"
    if occupied == "file":
        to.touch()
    else:
        to.mkdir()
        (to / "mine").touch()
    with pytest.raises(UsageError) as caught:
        copy_release("0.9.1", to)
    assert str(caught.value) == (
        f"usage error: {to} is not an empty folder\n  = help: choose a new folder with --to, or empty this one"
    )
    assert caught.value.exit_code == ExitCode.USAGE
    assert not server.requests


@pytest.mark.parametrize("existed", [True, False])
def test_copy_that_fails_leaves_the_folder_as_it_was(
    server: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, existed: bool
) -> None:
    to = tmp_path / "to"
    if existed:
        to.mkdir()
    copies = []

    def fail_at_third(source: Path, target: Path) -> None:
        copies.append(target)
        if len(copies) == 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(target.name))
        target.touch()

    monkeypatch.setattr(shutil, "copy", fail_at_third)
    with pytest.raises(InputOutputError) as caught:
        copy_release("0.9.1", to)
    assert str(caught.value).startswith(f"input/output error: writing {to}: ")
    assert str(caught.value).endswith("help: free disk space, or choose a folder that can be written with --to")
    assert to.exists() == existed
    assert not existed or list(to.iterdir()) == []


def test_cached_releases_newest_first(server: LoopbackRegistry) -> None:
    assert cached_releases() == ()
    server.publish_candle("0.10.0")
    fetch("0.9.1")
    fetch("0.10.0")
    assert cached_releases() == ("0.10.0", "0.9.1")


def test_default_cache() -> None:
    assert default_cache({"CANDLE_ROCM_FETCH_DIR": "/f", "XDG_CACHE_HOME": "/x"}) == Path("/f")
    assert default_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/candle-rocm")
    assert default_cache({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "candle-rocm"
    assert default_cache({}) == Path.home() / ".cache" / "candle-rocm"


def test_layout_number_is_part_of_the_path() -> None:
    assert FetchCache(Path("/c")).tree("0.9.1") == Path(f"/c/trees/0.9.1-L{cache_module.LAYOUT}/candle")


def test_crate_that_writes_elsewhere_leaves_no_tree(server: LoopbackRegistry) -> None:
    archive = crate_archive("candle-nn", "0.9.1", {"../../../evil": "x"})
    server.pages.pop("/index/ca/nd/candle-nn")
    server.publish("candle-nn", "0.9.1", archive)
    with pytest.raises(InputOutputError, match=r"candle-nn-0\.9\.1\.crate: `candle-nn-0\.9\.1/\.\./"):
        fetch("0.9.1")
    assert not FetchCache(default_cache()).tree("0.9.1").exists()
