"""What is known of an NVIDIA GPU and of CUDA's libraries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from fake_machine import machine, put

from codegen.errors import ToolchainMissing
from codegen.paths import repository_root
from codegen.verify.nvidia import CUBLAS, DRIVER, NVRTC, cuda_folders, nvidia_gpu_present, nvidia_gpus

if TYPE_CHECKING:
    from pathlib import Path

TWO_KINDS = """\
GPU 0: NVIDIA H200 (UUID: GPU-1)
  MIG 1g.18gb     Device  0: (UUID: MIG-2)
GPU 1: NVIDIA H200 (UUID: GPU-3)
GPU 10: NVIDIA GeForce RTX 4090 (Laptop) (UUID: GPU-4)
"""
SYSTEM = "usr/lib/x86_64-linux-gnu"
LDCONFIG = """\
2 libs found in cache `/etc/ld.so.cache'
	libnvrtc.so.12 (libc6,x86-64) => /opt/x/libnvrtc.so.12
	libcublas.so.12 (libc6,x86-64) => /opt/x/libcublas.so.12
"""


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (TWO_KINDS, ("NVIDIA H200", "NVIDIA GeForce RTX 4090 (Laptop)")),
        ("GPU 0: Tesla V100\n", ("Tesla V100",)),
        ("No devices found.\n", ()),
        (None, ()),
    ],
)
def test_nvidia_smi_names_the_gpus(tmp_path: Path, answer: str | None, names: tuple[str, ...]) -> None:
    put(tmp_path, f"{SYSTEM}/libcuda.so.1")
    here = machine(tmp_path, programs={"nvidia-smi": answer})
    assert nvidia_gpus(here) == names
    assert nvidia_gpu_present(here) is bool(names), "its word counts more than a library that lies there"


@pytest.mark.parametrize("folder", [SYSTEM, "usr/lib64", "mine"])
def test_without_nvidia_smi_the_drivers_library_tells(tmp_path: Path, folder: str) -> None:
    here = machine(tmp_path, {"LD_LIBRARY_PATH": "/mine:"})
    assert not nvidia_gpu_present(here)
    put(tmp_path, f"{folder}/libcuda.so.1")
    assert nvidia_gpu_present(here)
    assert nvidia_gpus(here) == ()


@pytest.mark.parametrize("how", ["system", "named", "cache"])
def test_libraries_that_the_linker_finds_need_no_folder(tmp_path: Path, how: str) -> None:
    if how == "cache":
        assert cuda_folders(machine(tmp_path, programs={"ldconfig": LDCONFIG})) == ()
        return
    for name in ("libnvrtc.so.13", "libcublas.so.12"):
        put(tmp_path, f"{SYSTEM if how == 'system' else 'mine'}/{name}")
    assert cuda_folders(machine(tmp_path, {"LD_LIBRARY_PATH": "/other:/mine"})) == ()


@pytest.mark.parametrize(
    ("variables", "toolkit"),
    [({"CUDA_HOME": "/opt/cuda/"}, "opt/cuda"), ({"CUDA_PATH": "/opt/cuda"}, "opt/cuda"), ({}, "usr/local/cuda")],
)
def test_a_toolkits_folders_are_added(tmp_path: Path, variables: dict[str, str], toolkit: str) -> None:
    put(tmp_path, f"{toolkit}/lib64/libnvrtc.so.12")
    put(tmp_path, f"{toolkit}/lib64/libcublas.so.12")
    assert cuda_folders(machine(tmp_path, variables)) == (f"/{toolkit}/lib64",)
    (tmp_path / toolkit / "lib64/libcublas.so.12").unlink()
    put(tmp_path, f"{toolkit}/targets/x86_64-linux/lib/libcublas.so")
    folders = (f"/{toolkit}/lib64", f"/{toolkit}/targets/x86_64-linux/lib")
    assert cuda_folders(machine(tmp_path, variables)) == folders


def test_a_folder_is_added_for_the_library_that_lacks_one(tmp_path: Path) -> None:
    put(tmp_path, f"{SYSTEM}/libnvrtc.so.12")
    put(tmp_path, "usr/local/cuda/lib64/libnvrtc.so.12")
    put(tmp_path, "usr/local/cuda/lib/libcublas.so.12")
    assert cuda_folders(machine(tmp_path)) == ("/usr/local/cuda/lib",)


def test_what_is_nowhere_is_named_with_what_to_do(tmp_path: Path) -> None:
    put(tmp_path, f"{SYSTEM}/libnvrtc.so.12")
    with pytest.raises(ToolchainMissing) as caught:
        cuda_folders(machine(tmp_path))
    (problem,) = caught.value.problems
    assert problem.message.startswith("HIP on NVIDIA needs one of libcublas.so.13, libcublas.so.12, libcublas.so,")
    assert "LD_LIBRARY_PATH" in caught.value.remedy
    assert "CUDA_HOME" in caught.value.remedy
    with pytest.raises(ToolchainMissing) as caught:
        cuda_folders(machine(tmp_path / "empty"))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("names", [DRIVER, NVRTC, CUBLAS])
def test_the_names_are_those_that_the_libraries_open(names: tuple[str, ...]) -> None:
    source = (repository_root() / "nvidia/cuda/src/lib.rs").read_text(encoding="utf-8")
    assert f" in {json.dumps(list(names))} {{" in source
