"""A tree is somebody else's data: links, pipes, devices and sizes in it neither hide a site nor stop the tool."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from codegen.candle import reading
from codegen.candle.reading import read_below
from codegen.candle.tree import CandleTree, open_tree
from codegen.errors import CandleRocmError, ExitCode, InputOutputError

if TYPE_CHECKING:
    from pathlib import Path

CORE = '[package]\nname = "candle-core"\nversion = "0.11.1"\n'
NN = '[package]\nname = "candle-nn"\nversion = "0.11.1"\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "candle"
    for path, text in {
        "Cargo.toml": '[workspace]\nmembers = ["candle-core", "candle-nn"]\n',
        "candle-core/Cargo.toml": CORE,
        "candle-core/src/lib.rs": "pub mod a;\n",
        "candle-nn/Cargo.toml": NN,
        "candle-nn/src/lib.rs": "pub mod b;\n",
        "shared/src/lib.rs": "pub fn cuda() {}\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def refused(tree: CandleTree) -> str:
    with pytest.raises(InputOutputError) as caught:
        tree.rust_files()
    assert caught.value.exit_code is ExitCode.IO
    return str(caught.value)


# Links


def test_a_source_folder_that_is_a_link_out_of_the_tree(root: Path, tmp_path: Path) -> None:
    (root / "candle-nn/src").rename(tmp_path / "elsewhere")
    (root / "candle-nn/src").symlink_to(tmp_path / "elsewhere")

    message = refused(open_tree(root))
    assert f"candle-nn/src is a symbolic link to {tmp_path}/elsewhere: what is behind it would be compiled" in message
    assert "put a copy in its place" in message


@pytest.mark.parametrize("target", ["../shared/src", "../target", "../candle-core/.hidden", ".."])
def test_a_link_to_where_nobody_looks(root: Path, target: str) -> None:
    for folder in ("target", "candle-core/.hidden"):
        (root / folder).mkdir()
    (root / "candle-nn/more").symlink_to(target)

    assert "candle-nn/more is a symbolic link to" in refused(open_tree(root))


@pytest.mark.parametrize("target", ["../candle-core/src", "../candle-core", "src"])
def test_a_link_into_a_crate_hides_nothing(root: Path, target: str) -> None:
    """What is behind it is found where it lies, and changed once."""
    (root / "candle-nn/more").symlink_to(target)

    assert open_tree(root).rust_files() == ("candle-core/src/lib.rs", "candle-nn/src/lib.rs")


def test_a_source_that_is_a_link(root: Path, tmp_path: Path) -> None:
    (root / "candle-nn/src/same.rs").symlink_to("lib.rs")
    assert open_tree(root).rust_files() == ("candle-core/src/lib.rs", "candle-nn/src/lib.rs")

    (tmp_path / "secret.rs").write_text("fn cuda() {}\n")
    (root / "candle-nn/src/other.rs").symlink_to(tmp_path / "secret.rs")
    assert "candle-nn/src/other.rs is a symbolic link" in refused(open_tree(root))


def test_a_link_by_a_name_that_is_no_source(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model.safetensors").touch()
    (root / "candle-nn/target").symlink_to(tmp_path / "elsewhere")
    (root / "candle-nn/model.safetensors").symlink_to(tmp_path / "model.safetensors")
    (root / "candle-nn/gone").symlink_to(tmp_path / "nowhere")

    assert open_tree(root).rust_files() == ("candle-core/src/lib.rs", "candle-nn/src/lib.rs")


def test_a_crate_that_is_a_link(root: Path, tmp_path: Path) -> None:
    (root / "candle-nn").rename(tmp_path / "candle-nn")
    (root / "candle-nn").symlink_to(tmp_path / "candle-nn")

    with pytest.raises(CandleRocmError, match="candle-nn is a symbolic link"):
        open_tree(root).rust_files()


@pytest.mark.parametrize("path", ["Cargo.toml", "candle-nn/Cargo.toml"])
def test_a_manifest_that_is_a_link(root: Path, tmp_path: Path, path: str) -> None:
    """The line of a file elsewhere would be quoted."""
    (tmp_path / "secret").write_text("password = hunter2 hunter2\n")
    (root / path).unlink()
    (root / path).symlink_to(tmp_path / "secret")

    with pytest.raises(CandleRocmError) as caught:
        open_tree(root)
    assert f"{path} is a symbolic link" in str(caught.value)
    assert "hunter2" not in str(caught.value)


# What is no plain file


def test_a_pipe(root: Path) -> None:
    os.mkfifo(root / "candle-nn/src/pipe.rs")

    started = time.monotonic()
    assert "candle-nn/src/pipe.rs is a pipe, and candle-rocm reads plain files only" in refused(open_tree(root))
    with pytest.raises(InputOutputError, match="is a pipe"):
        read_below(root, "candle-nn/src/pipe.rs")
    assert time.monotonic() - started < 60, "it would wait for a writer for ever"


def test_a_socket(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "candle-nn/src")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.rs")
        assert "candle-nn/src/a.rs is a socket" in refused(open_tree(root))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/tty"])
def test_a_link_to_a_device(root: Path, device: str) -> None:
    (root / "candle-nn/src/zero.rs").symlink_to(device)

    assert "candle-nn/src/zero.rs is a symbolic link" in refused(open_tree(root))


def test_a_folder_by_the_name_of_a_source(root: Path) -> None:
    (root / "candle-nn/src/folder.rs").mkdir()
    (root / "candle-nn/src/folder.rs/inner.rs").touch()

    assert "candle-nn/src/folder.rs/inner.rs" in open_tree(root).rust_files()
    with pytest.raises(InputOutputError, match="not a plain file"):
        read_below(root, "candle-nn/src/folder.rs")


def test_odd_paths(root: Path) -> None:
    for path in ("a\0b", "x" * 300, "candle-nn/nothing.rs", "Cargo.toml/x"):
        with pytest.raises(InputOutputError):
            read_below(root, path)


# Sizes


def test_a_file_that_is_too_large(root: Path) -> None:
    large = root / "candle-nn/src/large.rs"
    large.write_bytes(b"/" * reading.LARGEST_FILE)
    assert len(read_below(root, "candle-nn/src/large.rs")) == reading.LARGEST_FILE

    with large.open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputOutputError, match=r"candle-nn/src/large\.rs has more than 2 MiB"):
        read_below(root, "candle-nn/src/large.rs")


@pytest.mark.parametrize(("limit", "words"), [("MOST_ENTRIES", "files and folders"), ("MOST_BYTES", "MiB")])
def test_a_tree_that_is_too_large(root: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: str) -> None:
    monkeypatch.setattr(reading, limit, 1)

    message = refused(open_tree(root))
    assert "more than" in message
    assert words in message


def test_folders_in_one_another(root: Path) -> None:
    (root / "candle-nn" / "/".join(["d"] * 120)).mkdir(parents=True)

    assert "folders are nested deeper than 100" in refused(open_tree(root))


@pytest.mark.parametrize("name", [b"a\nb.rs", b"a\x1b[2J.rs", b"caf\xe9.rs"])
def test_a_name_with_control_characters(root: Path, name: bytes) -> None:
    (root / "candle-nn/src" / os.fsdecode(name)).touch()

    message = refused(open_tree(root))
    assert "the name of a source has control characters, or is not UTF-8" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "[workspace]\nmembers = ['**/**/**']\n", "[workspace]\nmembers = ['/etc/*']\n"]
)
def test_manifests_that_ask_for_too_much(root: Path, text: str) -> None:
    (root / "Cargo.toml").write_text(text)

    with pytest.raises(CandleRocmError) as caught:
        open_tree(root)
    assert caught.value.exit_code is ExitCode.USAGE
