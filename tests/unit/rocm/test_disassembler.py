"""Which llvm-objdump is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_apt import fake_apt

from codegen.errors import ToolchainMissing
from codegen.rocm.disassembler import find_disassembler
from codegen.rocm.fetch import fetch
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.toolchain import Toolchain

if TYPE_CHECKING:
    from pathlib import Path


def toolchain(compiler: Path) -> Toolchain:
    return Toolchain(
        compiler=compiler,
        flags=(),
        origin="a test",
        hip="7.2.0",
        version="clang version 22",
        identity="",
        precompiles_headers=True,
        hiprtc=None,
    )


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    ("compiler", "place"),
    [
        ("llvm/bin/clang++", "llvm/bin"),
        ("lib/llvm/bin/clang++", "lib/llvm/bin"),
        ("bin/amdclang++", "llvm/bin"),
        ("bin/hipcc", "lib/llvm/bin"),
    ],
)
def test_that_of_the_compilers_rocm(compiler: str, place: str, tmp_path: Path) -> None:
    ours = touch(tmp_path / place / "llvm-objdump")
    found = find_disassembler(toolchain(touch(tmp_path / compiler)), tmp_path / "build")
    assert found.resolve() == ours


def test_else_what_was_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = fake_apt(tmp_path / "apt")
    monkeypatch.setenv("PATH", apt.environ["PATH"])
    apt.has_versions(f"libamdhip64-dev | {NEWEST.version}.1 | http://m.example/debian sid/main amd64 Packages\n")
    packages = NEWEST.parts[Part.DISASSEMBLER]
    for name in (*packages.alone, *packages.with_dependencies):
        apt.add_package(name, "1", {f"usr/share/{name}": ""})
    part = fetch(NEWEST, Part.DISASSEMBLER, tmp_path / "build")
    assert find_disassembler(toolchain(tmp_path / "bin/clang"), tmp_path / "build") == part.folder / "bin/llvm-objdump"


def test_without_one_the_way_to_get_it_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="has no llvm-objdump beside it") as raised:
        find_disassembler(toolchain(tmp_path / "bin/clang"), tmp_path / "build")
    assert "make rocm-toolchain" in raised.value.remedy
