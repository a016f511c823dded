"""Which HIP compiler is found, and what is said of places that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, ToolchainMissing
from codegen.rocm.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "#define HIP_VERSION_MAJOR 6\n#define HIP_VERSION_MINOR 4\n#define HIP_VERSION_PATCH 43484\n"
CLANG = "AMD clang version 19.0.0git (roc-6.4.3)"


def program(path: Path, answer: str = CLANG, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {status}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def rocm(folder: Path, compiler: str = "llvm/bin/clang++", answer: str = CLANG) -> Path:
    """An installed ROCm: a compiler and HIP's version header."""
    program(folder / compiler, answer)
    (folder / "include/hip").mkdir(parents=True, exist_ok=True)
    (folder / "include/hip/hip_version.h").write_text(HEADER, encoding="utf-8")
    return folder


def find(tmp_path: Path, **environ: str) -> Toolchain:
    return find_toolchain({"PATH": "", **environ}, system=tmp_path / "system", build=tmp_path / "build")


def test_rocm_path_comes_first(tmp_path: Path) -> None:
    rocm(tmp_path / "system/opt/rocm")
    named = rocm(tmp_path / "named")
    found = find(tmp_path, ROCM_PATH=str(named))
    assert found.compiler == named / "llvm/bin/clang++"
    assert str(found) == f"HIP 6.4.43484, {CLANG} (ROCM_PATH)"


def test_a_rocm_path_without_compiler_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "named").mkdir()
    installed = rocm(tmp_path / "system/opt/rocm")
    assert find(tmp_path, ROCM_PATH=str(tmp_path / "named")).compiler == installed / "llvm/bin/clang++"


@pytest.mark.parametrize("place", ["llvm/bin/clang++", "lib/llvm/bin/clang++", "bin/amdclang++"])
def test_clang_of_amds_packages(tmp_path: Path, place: str) -> None:
    folder = rocm(tmp_path / "rocm", place)
    found = find(tmp_path, ROCM_PATH=str(folder))
    assert found.command("gfx90a")[0] == str(folder / place)
    assert f"--rocm-path={folder}" in found.flags
    assert found.command("gfx90a")[-1] == "--offload-arch=gfx90a"
    assert found.precompiles_headers


def test_hipcc_if_there_is_no_clang(tmp_path: Path) -> None:
    folder = rocm(tmp_path / "rocm", "bin/hipcc", "HIP version: 6.4\nclang version 19.0")
    found = find(tmp_path, ROCM_PATH=str(folder))
    assert found.compiler == folder / "bin/hipcc"
    assert found.version == "clang version 19.0"
    assert "-Wno-unused-command-line-argument" in found.flags
    assert not found.precompiles_headers


def test_hipcc_on_path_is_followed_to_its_rocm(tmp_path: Path) -> None:
    folder = rocm(tmp_path / "rocm-6.4", "bin/hipcc")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hipcc").symlink_to(folder / "bin/hipcc")
    found = find(tmp_path, PATH=str(tmp_path / "bin"))
    assert (found.compiler, found.hip, found.origin) == (folder / "bin/hipcc", "6.4.43484", "hipcc on PATH")


def test_clang_on_path_with_hip_beside_it(tmp_path: Path) -> None:
    usr = rocm(tmp_path / "usr", "bin/clang++", "Debian clang version 22.1.8")
    found = find(tmp_path, PATH=str(usr / "bin"))
    assert found.compiler == usr / "bin/clang++"
    assert f"--rocm-path={usr}" in found.flags


def test_clang_without_hip_is_no_hip_compiler(tmp_path: Path) -> None:
    program(tmp_path / "usr/bin/clang++")
    with pytest.raises(ToolchainMissing, match=r"clang\+\+ is there, but not .*hip_version\.h"):
        find(tmp_path, PATH=str(tmp_path / "usr/bin"))


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    folder = rocm(tmp_path / "rocm")
    program(folder / "llvm/bin/clang++", status=1)
    with pytest.raises(ToolchainMissing, match=r"ROCM_PATH: .*llvm/bin/clang\+\+ does not run"):
        find(tmp_path, ROCM_PATH=str(folder))


def test_nothing_lists_every_place(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing) as raised:
        find(tmp_path)
    assert raised.value.exit_code is ExitCode.TOOLCHAIN_MISSING
    assert [problem.message.split()[0] for problem in raised.value.problems] == [
        "no",
        "ROCM_PATH",
        "/opt/rocm:",
        "hipcc",
        "clang++",
        "`make",
    ]
    assert "make rocm-toolchain" in raised.value.remedy


@pytest.mark.parametrize("place", ["lib", "lib64"])
def test_hiprtc_of_an_installation_needs_no_loader(tmp_path: Path, place: str) -> None:
    folder = rocm(tmp_path / "rocm")
    (folder / place).mkdir()
    (folder / place / "libhiprtc.so.6").touch()
    (folder / place / "libhiprtc.so.6.4.43484").touch()
    found = find(tmp_path, ROCM_PATH=str(folder)).hiprtc
    assert found is not None
    assert found.library == folder / place / "libhiprtc.so.6"
    assert found.loader == ()


def test_hiprtc_may_be_absent(tmp_path: Path) -> None:
    assert find(tmp_path, ROCM_PATH=str(rocm(tmp_path / "rocm"))).hiprtc is None


def test_another_compiler_has_another_identity(tmp_path: Path) -> None:
    folder = rocm(tmp_path / "rocm")
    first = find(tmp_path, ROCM_PATH=str(folder)).identity
    assert find(tmp_path, ROCM_PATH=str(folder)).identity == first
    program(folder / "llvm/bin/clang++", "AMD clang version 19.0.1")
    assert find(tmp_path, ROCM_PATH=str(folder)).identity != first
