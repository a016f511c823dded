"""The disk makes, replaces and removes one thing at a time, and says what could not be done."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from phased import unsynced

from codegen.errors import ExitCode, InputOutputError
from codegen.record.disk import DISK, Disk, remedy_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with unsynced():
        yield


def test_a_written_file_has_content_and_bits(tmp_path: Path) -> None:
    DISK.write(tmp_path / "a", b"x" * 100_000, 0o640)

    assert (tmp_path / "a").read_bytes() == b"x" * 100_000
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o640


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "a").symlink_to("theirs")

    with pytest.raises(InputOutputError, match=r"cannot create .*a: File exists"):
        DISK.write(tmp_path / "a", b"ours")

    assert (tmp_path / "theirs").read_bytes() == b"theirs"


def test_replacing_moves(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")

    DISK.replace(tmp_path / "a", tmp_path / "b")

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("b", b"new")]


def test_only_empty_folders_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_bytes(b"")
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "file").write_bytes(b"")

    for name in ("link", "empty", "full", "file", "missing"):
        DISK.drop(tmp_path / name)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "full", "link"]


def test_clearing_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/theirs").write_bytes(b"")
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/x").write_bytes(b"")
    (tmp_path / "folder/link").symlink_to(tmp_path / "outside")

    DISK.clear(tmp_path / "folder")

    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside/theirs").exists()


def test_a_missing_file_is_deleted_already(tmp_path: Path) -> None:
    DISK.unlink(tmp_path / "missing")


def test_every_change_is_a_step_with_its_name_and_error(tmp_path: Path) -> None:
    class Broken(Disk):
        def step(self, verb: str, path: Path) -> None:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    disk, path = Broken(), tmp_path / "x"
    changes: dict[str, Callable[[Path], None]] = {
        "create": disk.make_folder,
        "write": disk.touch,
        "delete": disk.unlink,
    }
    for verb, change in changes.items():
        with pytest.raises(InputOutputError) as caught:
            change(path)
        assert caught.value.exit_code == ExitCode.IO
        assert f"cannot {verb} {path}: Disk quota exceeded" in str(caught.value)
        assert "free some of your disk quota" in str(caught.value)
    assert not path.exists()


def test_remedies() -> None:
    assert "mounted read-only" in remedy_for(errno.EROFS)
    assert remedy_for(errno.EIO) == remedy_for(None) == "check that file or folder, then run the command again"
    assert remedy_for(errno.EIO, "delete it") == "delete it"
