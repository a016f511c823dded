"""Programs written against plain HIP run on the emulated device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from emulator.machine import KERNELS, emulator_folder

PROGRAMS = Path(__file__).parent / "programs"
INCLUDE = Path(__file__).parents[2] / "emulator" / "include"


def built(source: str, folder: Path) -> Path:
    """A program of programs/, built for the emulator's libraries."""
    libraries = emulator_folder()
    program = folder / Path(source).stem
    if source.endswith(".rs"):
        command = ["rustc", "--edition=2024", "-L", str(libraries), "-C", f"link-arg=-Wl,-rpath,{libraries}"]
    else:
        command = ["g++", "-std=c++17", "-Wall", "-Werror", f"-I{INCLUDE}"]
    command += [str(PROGRAMS / source), "-o", str(program)]
    if source.endswith(".cpp"):
        command += [f"-L{libraries}", "-lamdhip64", "-lhiprtc", f"-Wl,-rpath,{libraries}"]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize(
    ("source", "arguments", "expected"),
    [
        ("vector_add.cpp", [], "{architecture}: 100003 elements, wave size {wave}\n"),
        ("block_turns.cpp", [], "48 blocks, 0 values wrong\n"),
        ("saxpy_hiprtc.cpp", [], "saxpy<double>: 1000 elements\n"),
        ("fill.rs", [str(KERNELS / "right.hip")], "480 values, 1 device\n"),
    ],
    ids=["C++", "C++ with LDS in every block", "C++ with hipRTC", "Rust"],
)
def test_a_plain_program_runs(tmp_path: Path, source: str, arguments: list[str], expected: str) -> None:
    program = built(source, tmp_path)
    for model, architecture, wave in [("gfx1100", "gfx1100", 32), ("gfx942", "gfx942:sramecc+:xnack-", 64)]:
        environment = {**os.environ, "CANDLE_ROCM_EMULATOR_DEVICES": model}
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == expected.format(architecture=architecture, wave=wave)


def test_a_wrong_program_fails(tmp_path: Path) -> None:
    """With too little memory the C++ program's own check of hipMalloc ends it."""
    environment = {**os.environ, "CANDLE_ROCM_EMULATOR_MEMORY": "1M"}
    done = subprocess.run(
        [built("vector_add.cpp", tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("vector_add.cpp:45: out of memory\n")
