"""Caches are believed, and compiled templates are run: only what nobody else could have written counts."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from made_up import candle_tree

from codegen import own_folder
from codegen.candle.cache import FetchCache
from codegen.errors import ExitCode, InputOutputError
from codegen.kernels.compile import compile_kernels
from codegen.render import environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from in_process import CommandLine


def test_what_is_written_is_read(tmp_path: Path) -> None:
    own_folder.write(tmp_path / "a" / "cache", "x", b"1")
    own_folder.write(tmp_path / "a" / "cache", "x", b"2")

    assert own_folder.read(tmp_path / "a" / "cache", "x") == b"2"
    assert own_folder.objection(tmp_path / "a" / "cache") is None
    assert [path.name for path in (tmp_path / "a" / "cache").iterdir()] == ["x"]


def test_a_new_folder_and_its_files_are_closed_to_others(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        own_folder.write(tmp_path / "cache", "x", b"1")
    finally:
        os.umask(umask)

    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "cache" / "x").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    own_folder.write(tmp_path, "x", b"1")
    (tmp_path / "folder" / "full").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        own_folder.write(tmp_path, "folder", b"2")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "x"]


def others_may_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def their_group_may_write(path: Path) -> None:
    os.chown(path, os.geteuid(), 54321)
    path.chmod(path.stat().st_mode | 0o020)


def somebody_elses(path: Path) -> None:
    os.chown(path, 54321, 54321)


def a_link(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a file of another user was not tested: only root makes one")
TAMPERED = pytest.mark.parametrize(
    ("tamper", "objection"),
    [
        pytest.param(others_may_write, "may be written by others (mode ", id="others"),
        pytest.param(their_group_may_write, "may be written by others (mode ", id="group", marks=needs_root),
        pytest.param(somebody_elses, "belongs to another user", id="owner", marks=needs_root),
        pytest.param(a_link, "is a symbolic link", id="link"),
    ],
)


@TAMPERED
@pytest.mark.parametrize("name", ["cache", "cache/x"])
def test_what_others_could_have_written_is_not_there(
    tmp_path: Path, tamper: Callable[[Path], None], objection: str, name: str
) -> None:
    own_folder.write(tmp_path / "cache", "x", b"1")
    tamper(tmp_path / name)

    with pytest.raises(OSError):  # noqa: PT011 - which one does not matter to a cache
        own_folder.read(tmp_path / "cache", "x")
    if name == "cache":
        assert objection in str(own_folder.objection(tmp_path / "cache"))
        with pytest.raises(OSError):  # noqa: PT011
            own_folder.write(tmp_path / "cache", "x", b"2")


@needs_root
def test_a_group_of_one_may_write(tmp_path: Path) -> None:
    own_folder.write(tmp_path / "cache", "x", b"1")
    os.chown(tmp_path / "cache", 0, 0)
    (tmp_path / "cache").chmod(0o770)

    assert own_folder.read(tmp_path / "cache", "x") == b"1"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")

    with pytest.raises(OSError, match="not a regular file"):
        own_folder.read(tmp_path, "x")


def test_a_folder_that_is_not_there_or_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert own_folder.objection(tmp_path / "nowhere") is None
    assert own_folder.objection(tmp_path / "file") == "is not a folder"


@TAMPERED
def test_the_cache_of_releases(tmp_path: Path, tamper: Callable[[Path], None], objection: str) -> None:
    (tmp_path / "cache").mkdir()
    store = FetchCache(tmp_path / "cache")
    store.require_own()
    tamper(tmp_path / "cache")

    with pytest.raises(InputOutputError, match="choose another folder with CANDLE_ROCM_FETCH_DIR") as caught:
        store.require_own()
    assert f"the cache {tmp_path / 'cache'} {objection}" in str(caught.value)
    assert caught.value.exit_code == ExitCode.IO


def test_a_release_is_not_taken_from_a_cache_that_others_may_write(own_cache: Path, candle_rocm: CommandLine) -> None:
    own_cache.mkdir()
    own_cache.chmod(0o777)

    refused = candle_rocm("scan", "0.11.1", "--offline")

    assert (refused.code, refused.stdout) == (6, "")
    assert f"the cache {own_cache} may be written by others (mode 777)" in refused.stderr


def test_nothing_is_compiled_into_a_folder_that_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    with pytest.raises(InputOutputError, match="code objects from this folder are run"):
        compile_kernels(None, (), None, tmp_path)  # type: ignore[arg-type]  # it does not come to that


def test_tampered_caches_are_made_anew(tmp_path: Path, own_cache: Path, candle_rocm: CommandLine) -> None:
    """Specs, templates and plans that others could have written change nothing."""
    candle = candle_tree(tmp_path / "candle")
    environment._environment.cache_clear()
    wanted = candle_rocm.ok("diff", candle).stdout
    entries = [path for path in own_cache.rglob("*") if path.is_file()]
    folders = {path.parent.name for path in entries}
    assert {"specs", "plans", "templates"} <= folders, folders
    for path in entries:
        content = path.read_bytes()
        path.write_bytes(content.replace(b"rocm", b"evil"))
        path.chmod(0o666)

    environment._environment.cache_clear()
    assert candle_rocm.ok("diff", candle).stdout == wanted
