from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

import pytest
from loopback_registry import crate_archive

from codegen.candle import archive as archive_module
from codegen.candle.archive import unpack
from codegen.errors import ExitCode, InputOutputError

if TYPE_CHECKING:
    from pathlib import Path


def archive_of(*members: tuple[str, bytes]) -> bytes:
    """An archive of (name, type) members without content."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, kind in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "x-1.0.0/other"
            archive.addfile(info)
    return gzip.compress(raw.getvalue(), mtime=0)


def test_files_and_folders_are_written(tmp_path: Path) -> None:
    content = crate_archive("x", "1.0.0", {"a.txt": "a\r\n", "d/e/run.sh": "#!\n"}, executable=["d/e/run.sh"])
    unpack(content, "x", "1.0.0", tmp_path / "x")
    assert (tmp_path / "x" / "a.txt").read_bytes() == b"a\r\n"
    assert (tmp_path / "x" / "d" / "e" / "run.sh").stat().st_mode & 0o777 == 0o755
    unpack(archive_of(("x-1.0.0", tarfile.DIRTYPE), ("x-1.0.0/d", tarfile.DIRTYPE)), "x", "1.0.0", tmp_path / "y")
    assert [path.name for path in (tmp_path / "y").iterdir()] == ["d"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x-1.0.0/../../evil", tarfile.REGTYPE),
        ("/evil", tarfile.REGTYPE),
        ("evil", tarfile.REGTYPE),
        ("x-1.0.0", tarfile.REGTYPE),
        ("y-1.0.0/evil", tarfile.REGTYPE),
        ("x-1.0.0/a\\..\\evil", tarfile.REGTYPE),
        ("x-1.0.0/evil", tarfile.SYMTYPE),
        ("x-1.0.0/evil", tarfile.LNKTYPE),
        ("x-1.0.0/evil", tarfile.FIFOTYPE),
        ("x-1.0.0/evil", tarfile.CHRTYPE),
    ],
)
def test_what_could_write_elsewhere_is_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    inner = tmp_path / "in" / "x"
    inner.parent.mkdir()
    with pytest.raises(InputOutputError) as caught:
        unpack(archive_of((name, kind)), "x", "1.0.0", inner)
    assert str(caught.value) == (
        f"input/output error: x-1.0.0.crate: `{name}` is not a plain file of a sensible size inside `x-1.0.0/`\n"
        "  = help: delete the file from the cache and fetch the release again"
    )
    assert caught.value.exit_code == ExitCode.IO
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_size_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_UNPACKED_BYTES", 10)
    with pytest.raises(InputOutputError, match=r"x-1\.0\.0\.crate: it has more than 0 MiB unpacked"):
        unpack(crate_archive("x", "1.0.0", {"a": "12345", "b": "123456"}), "x", "1.0.0", tmp_path / "x")


def test_a_member_that_claims_to_be_large(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x-1.0.0/a")
    info.size = 1 << 40
    with pytest.raises(InputOutputError, match=r"`x-1\.0\.0/a` is not a plain file of a sensible size"):
        unpack(gzip.compress(info.tobuf(format=tarfile.GNU_FORMAT)), "x", "1.0.0", tmp_path / "x")


def test_members_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_MEMBERS", 2)
    unpack(crate_archive("x", "1.0.0", {"a": "", "b": ""}), "x", "1.0.0", tmp_path / "x")
    with pytest.raises(InputOutputError, match="it has more than 2 files and folders"):
        unpack(crate_archive("x", "1.0.0", {"a": "", "b": "", "c": ""}), "x", "1.0.0", tmp_path / "y")


def test_folders_in_one_another_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_DEPTH", 3)
    unpack(crate_archive("x", "1.0.0", {"d/e/a": ""}), "x", "1.0.0", tmp_path / "y")
    with pytest.raises(InputOutputError, match="is not a plain file of a sensible size"):
        unpack(crate_archive("x", "1.0.0", {"d/e/f/a": ""}), "x", "1.0.0", tmp_path / "x")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
def test_a_small_archive_of_much_content(tmp_path: Path, kind: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers count as well: of a megabyte packed, a gigabyte of a name would come."""
    monkeypatch.setattr(archive_module, "MAX_UNPACKED_BYTES", 1 << 20)
    info = tarfile.TarInfo("x-1.0.0/a")
    info.type, info.size = kind, 1 << 19
    part = info.tobuf(format=tarfile.GNU_FORMAT) + b"1" * (1 << 19)
    with pytest.raises(InputOutputError, match=r"x-1\.0\.0\.crate: "):
        unpack(gzip.compress(part * 8), "x", "1.0.0", tmp_path / "x")


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"no tar" * 200), gzip.compress(b"cut off")[:-4]],
    ids=["empty", "not gzip", "not tar", "cut off"],
)
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputOutputError, match=r"x-1\.0\.0\.crate: not a \.crate file: "):
        unpack(content, "x", "1.0.0", tmp_path / "x")


def test_a_file_with_holes_is_refused(tmp_path: Path) -> None:
    """A header of half a kilobyte makes a file of any size: 20,000 of them filled the disk."""
    member = tarfile.TarInfo("x-1.0.0/hole")
    member.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"%011o\0" % (200 << 20)  # the size with its holes
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    content = gzip.compress(bytes(header) + bytes(1024), mtime=0)
    with pytest.raises(InputOutputError, match=r"`x-1\.0\.0/hole` is a file with holes"):
        unpack(content, "x", "1.0.0", tmp_path / "x")
    assert not (tmp_path / "x" / "hole").exists()
