"""The build script of the linked runtime, in a crate of its own, with made-up installations of ROCm."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from codegen.paths import templates_dir

pytestmark = pytest.mark.cargo

MANIFEST = """\
[package]
name = "linked"
version = "0.0.0"
edition = "2021"

[features]
rocm = []

[workspace]
"""
PROGRAM = """\
#[cfg(not(candle_rocm_absent = "amdhip64"))]
extern "C" {
    fn hip_release() -> i32;
}
#[cfg(candle_rocm_absent = "amdhip64")]
unsafe fn hip_release() -> i32 {
    0
}
#[cfg(not(candle_rocm_absent = "rocblas"))]
extern "C" {
    fn rocblas_release() -> i32;
}
#[cfg(candle_rocm_absent = "rocblas")]
unsafe fn rocblas_release() -> i32 {
    0
}

fn main() {
    println!("{} {}", unsafe { hip_release() }, unsafe { rocblas_release() });
}
"""
LONG_AGO = 1_000_000_000
"""Seconds: packages keep the times at which they were made."""


@dataclass(frozen=True)
class Crate:
    """A program with the build script."""

    folder: Path

    def build(self, rocm: Path, hip: Path | None = None) -> subprocess.CompletedProcess[str]:
        folders = {"ROCM_PATH": str(rocm), "HIP_PATH": str(hip or "")}
        environment = {**os.environ, **folders, "SKIP_BINDGEN": "1", "CARGO_TERM_COLOR": "never"}
        command = ["cargo", "build", "--features", "rocm", "--offline"]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def says(self, rocm: Path, hip: Path | None = None) -> str:
        """What the program prints: the release of HIP and that of rocBLAS, 0 for none; it is run without settings."""
        built = self.build(rocm, hip)
        assert built.returncode == 0, built.stderr
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        program = self.folder / "target/debug/linked"
        done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()


@pytest.fixture
def crate(tmp_path: Path) -> Crate:
    places = [
        Path(root) / below for root in ("/opt/rocm", "/usr") for below in ("lib", "lib64", "lib/x86_64-linux-gnu")
    ]
    if any((place / "libamdhip64.so").is_file() for place in places):
        pytest.skip("this machine has a ROCm, which the script would find")
    folder = tmp_path / "crate"
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(MANIFEST)
    (folder / "src/main.rs").write_text(PROGRAM)
    shutil.copy(templates_dir() / "candle/0-setup/candle-core/build.rs", folder / "build.rs")
    return Crate(folder)


def install(root: Path, library: str, function: str, major: int, release: int) -> None:
    """`lib<library>.so`, a link to a file of that major version, with a function that says the release."""
    folder = root / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    source = root / "release.c"
    source.write_text(f"int {function}(void) {{ return {release}; }}\n")
    file = folder / f"lib{library}.so.{major}.0"
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,lib{library}.so.{major}", "-o", file, source], check=True)
    for name in (f"lib{library}.so.{major}", f"lib{library}.so"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(file.name)
    os.utime(file, (LONG_AGO, LONG_AGO))


def install_hip(root: Path, major: int) -> None:
    install(root, "amdhip64", "hip_release", major, major)


def install_rocblas(root: Path, major: int) -> None:
    install(root, "rocblas", "rocblas_release", major, major)


def test_a_rocm_that_comes_later_and_a_new_one_in_its_place_are_seen(crate: Crate, tmp_path: Path) -> None:
    """Programs find the libraries without being told where, too."""
    rocm = tmp_path / "rocm"
    rocm.mkdir()
    assert crate.says(rocm) == "0 0"
    install_hip(rocm, 6)
    assert crate.says(rocm) == "6 0"
    install_rocblas(rocm, 4)
    assert crate.says(rocm) == "6 4"
    install_hip(rocm, 7)
    assert crate.says(rocm) == "7 4"


def test_nothing_is_built_again_while_nothing_changes(crate: Crate, tmp_path: Path) -> None:
    place = tmp_path / "place"
    install_hip(place / "rocm", 7)
    for rocm in (place / "rocm", place / "none"):
        crate.says(rocm)
        program = crate.folder / "target/debug/linked"
        built = program.stat().st_mtime_ns
        crate.says(rocm)
        assert program.stat().st_mtime_ns == built


def test_rocblas_of_another_rocm_is_not_linked_and_both_are_named(crate: Crate, tmp_path: Path) -> None:
    """ROCM_PATH has a HIP runtime, HIP_PATH has both libraries."""
    first, second = tmp_path / "first", tmp_path / "second"
    install_hip(first, 7)
    install_hip(second, 6)
    install_rocblas(second, 4)
    assert crate.says(first, second) == "7 0"
    warning = crate.build(first, second).stderr
    assert "librocblas.so is in " in warning
    assert str(first) in warning
    assert str(second) in warning


def test_a_folder_without_hip_does_not_lend_its_rocblas(crate: Crate, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    install_rocblas(first, 5)
    install_hip(second, 7)
    assert crate.says(first, second) == "7 0"


def test_a_rocm_that_is_too_old_ends_the_build(crate: Crate, tmp_path: Path) -> None:
    rocm = tmp_path / "rocm"
    install_hip(rocm, 5)
    built = crate.build(rocm)
    assert built.returncode != 0
    assert f"{rocm}/lib/libamdhip64.so is of ROCm 5: 6.0 or later is needed" in built.stderr
