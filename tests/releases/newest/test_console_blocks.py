"""The console blocks of the documents, as a reader runs them; README's is run by test_readme.py.

Only what a block says about the reader's own folder is made up: the program that is there, and where it is pushed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root
from codegen.verify.cargo import UNOPTIMISED
from releases.command_line import PROGRAM
from releases.cover import FULL
from releases.programs import OWN, patched_candle, with_patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

DOCS = repository_root() / "docs"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)

MATCHING = """//! Matches on Candle's devices, without an arm for others.
use candle_core::Device;

pub fn is_fast(device: &Device) -> bool {
    match device {
        Device::Cpu => false,
        Device::Cuda(_) => true,
        Device::Metal(_) => true,
    }
}
"""
NAMING = """//! Names Candle's CUDA backend.
#[cfg(feature = "cuda")]
pub fn wait(device: &candle_core::CudaDevice) -> candle_core::Result<()> {
    use candle_core::backend::BackendDevice;
    device.synchronize()
}
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads the block."""

    folder: Path
    """Where the commands are typed."""
    variables: dict[str, str]


@dataclass(frozen=True, slots=True)
class Story:
    """What a block is about."""

    reader: Callable[[Path, Path, str], Reader]
    """Of a new folder, the tests' work folder and the newest release."""
    holds: Callable[[Path, str], bool]
    """Whether the folder and what the last command printed are as the document promises."""


def with_program(here: Path, work: Path, newest: str) -> Reader:
    """A program that names Candle, and has a lock file."""
    folder = shutil.copytree(OWN, here / "app")
    subprocess.run(["cargo", "generate-lockfile", "--quiet"], cwd=folder, check=True)
    return Reader(folder, {"CARGO_TARGET_DIR": str(work / "target")})


def with_five_lines(here: Path, work: Path, newest: str) -> Reader:
    """Such a program after `use --write`, for a Candle that other tests have built."""
    reader = Reader(shutil.copytree(OWN, here / "app"), {"CARGO_TARGET_DIR": str(work / "target")})
    with_patch(
        reader.folder, patched_candle(work / "programs" / f"candle-{newest}-dynamic", newest, "--runtime", "dynamic")
    )
    profile = [f"{setting}\n" for setting in UNOPTIMISED if setting != "--config"]
    (reader.folder / ".cargo").mkdir()
    (reader.folder / ".cargo" / "config.toml").write_text("".join(profile), encoding="utf-8")
    return reader


def with_matches(here: Path, work: Path, newest: str) -> Reader:
    """A program that matches on `Device`."""
    reader = with_program(here, work, newest)
    (reader.folder / "src" / "lib.rs").write_text(MATCHING, encoding="utf-8")
    return reader


def with_cuda_by_name(here: Path, work: Path, newest: str) -> Reader:
    """A crate that names CUDA's side, after `use --write` and a commit."""
    reader = with_five_lines(here, work, newest)
    (reader.folder / "src" / "lib.rs").write_text(NAMING, encoding="utf-8")
    manifest = reader.folder / "Cargo.toml"
    text = manifest.read_text(encoding="utf-8")
    assert "[features]\n" in text
    manifest.write_text(text.replace("[features]\n", '[features]\ncuda = ["candle-core/cuda"]\n'), encoding="utf-8")
    author = ["-c", "user.name=a reader", "-c", "user.email=reader@example.com"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "Use ROCm"]):
        subprocess.run(["git", *command], cwd=reader.folder, check=True)
    return reader


def with_a_host(here: Path, work: Path, newest: str) -> Reader:
    """An empty repository, which git finds under the document's address."""
    settings = here / "gitconfig"
    settings.write_text(f'[url "{here}/host/"]\n\tinsteadOf = https://your.host/\n', encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", "--bare", here / "host" / "candle-rocm.git"], check=True)
    return Reader(here, {"GIT_CONFIG_GLOBAL": str(settings)})


def is_pushed(folder: Path, said: str) -> bool:
    remote = ["git", "-C", str(folder / "host" / "candle-rocm.git"), "tag"]
    return subprocess.run(remote, capture_output=True, text=True, check=True).stdout == "0.11.1-rocm.1\n"


def contains(file: str, text: str) -> Callable[[Path, str], bool]:
    """Whether the file has the text."""
    return lambda folder, said: text in (folder / file).read_text(encoding="utf-8")


STORIES = {
    "candle-rocm use . --write": Story(with_program, contains("Cargo.toml", 'path = "../candle-0.11.1/candle-core"')),
    "candle-rocm publish candle-rocm.git 0.11.1": Story(with_a_host, is_pushed),
    "candle-rocm scan .": Story(with_matches, contains("src/lib.rs", "Device::Rocm(_) => true,")),
    "candle-rocm emulator cargo run --features rocm": Story(
        with_five_lines, lambda folder, said: said.startswith("device: Rocm { gpu_id: 0 }\n")
    ),
    "candle-rocm port .": Story(with_cuda_by_name, contains("src/lib.rs", "candle_core::RocmDevice")),
}
"""By the first command of a block."""


def blocks() -> Iterator[object]:
    """Of all documents: what is typed, one parameter to a block; those that build are left out of CI's share."""
    for page in sorted(DOCS.rglob("*.md")):
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            commands = COMMAND.findall(block[1])
            builds = any(re.search(r"\bcargo (run|check|build)\b", command) for command in commands)
            yield pytest.param(commands, marks=[FULL] if builds else [], id=f"{page.stem}-{commands[0]}")


@pytest.mark.parametrize("commands", list(blocks()))
def test_the_block_does_what_the_document_says(commands: list[str], tmp_path: Path, work: Path, newest: str) -> None:
    story = STORIES[commands[0]]
    reader = story.reader(tmp_path, work, newest)
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"

    for command in commands:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=reader.folder,
            env={**os.environ, **reader.variables, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"

    assert story.holds(reader.folder, done.stdout), done.stdout


def test_every_story_is_told() -> None:
    told = {command for page in DOCS.rglob("*.md") for command in COMMAND.findall(page.read_text(encoding="utf-8"))}
    assert STORIES.keys() <= told
