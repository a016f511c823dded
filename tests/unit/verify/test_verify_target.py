"""Which device is chosen, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_machine import machine, put, with_gpu

from codegen.errors import ExitCode, ToolchainMissing, UsageError
from codegen.verify.steps import STEPS, Target
from codegen.verify.target import (
    Device,
    Share,
    architecture_name,
    choose_device,
    emulator_compiler,
    gpu_architectures,
    named_target,
)

if TYPE_CHECKING:
    from pathlib import Path

COMPILER = {"g++": "g++ 1.0"}
NVIDIA_SMI = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n"
ROCMINFO = "Agent 1\n  Name:                    AMD Ryzen\nAgent 2\n  Name:                    gfx1030\n"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90006, "gfx906"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (100300, "gfx1030"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
    ],
)
def test_driver_versions_become_architecture_names(version: int, name: str) -> None:
    assert architecture_name(version) == name


def test_the_drivers_topology_needs_no_rocm_and_keeps_its_order(tmp_path: Path) -> None:
    with_gpu(tmp_path, 110000, *([90010] * 10))
    assert gpu_architectures(machine(tmp_path))[:2] == ("gfx1100", "gfx90a")
    assert len(gpu_architectures(machine(tmp_path))) == 11


@pytest.mark.parametrize(
    ("program", "answer", "expected"),
    [
        ("rocm_agent_enumerator", "gfx000\ngfx1100\n", ("gfx1100",)),
        ("rocm_agent_enumerator", "gfx000\n", ()),
        ("rocm_agent_enumerator", None, ()),
        ("rocminfo", ROCMINFO, ("gfx1030",)),
    ],
)
def test_rocm_programs_are_asked_without_a_topology(
    tmp_path: Path, program: str, answer: str | None, expected: tuple[str, ...]
) -> None:
    assert gpu_architectures(machine(tmp_path, programs={program: answer})) == expected


def test_auto_takes_the_gpu_and_calls_it_rocm(tmp_path: Path) -> None:
    with_gpu(tmp_path, 110000)
    assert choose_device(Target.AUTO, machine(tmp_path)) == Device("ROCm (gfx1100)")


def test_auto_takes_a_gpu_whose_architecture_nobody_tells(tmp_path: Path) -> None:
    put(tmp_path, "dev/kfd")
    assert choose_device(Target.AUTO, machine(tmp_path)) == Device("ROCm")


def test_auto_without_a_gpu_takes_the_emulated_device_and_never_calls_it_rocm(tmp_path: Path) -> None:
    device = choose_device(Target.AUTO, machine(tmp_path, programs=COMPILER))
    assert device == Device("emulator")
    assert device.emulated


def test_auto_without_a_gpu_and_a_compiler_says_what_is_missing(tmp_path: Path) -> None:
    device = choose_device(Target.AUTO, machine(tmp_path))
    assert device == Device(None, "no AMD GPU, and no C++ compiler for the emulated HIP device")
    assert not device.emulated


def test_the_emulated_device_by_name_is_taken_even_on_an_amd_machine(tmp_path: Path) -> None:
    with_gpu(tmp_path, 110000)
    assert choose_device(Target.EMULATOR, machine(tmp_path, programs=COMPILER)) == Device("emulator")


def test_the_emulated_device_by_name_without_a_compiler_is_exit_7(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="needs a C\\+\\+ compiler") as caught:
        choose_device(Target.EMULATOR, machine(tmp_path))
    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING


@pytest.mark.parametrize(
    ("variables", "found"),
    [({}, "g++"), ({"CXX": "clang++"}, None), ({"CANDLE_ROCM_EMULATOR_CXX": "g++", "CXX": "clang++"}, "g++")],
)
def test_a_compiler_that_is_named_is_the_only_one(tmp_path: Path, variables: dict[str, str], found: str | None) -> None:
    assert emulator_compiler(machine(tmp_path, variables, COMPILER)) == found


def test_nvidia_by_name_without_an_nvidia_gpu_is_exit_7_even_on_an_amd_machine(tmp_path: Path) -> None:
    with_gpu(tmp_path, 110000)
    with pytest.raises(ToolchainMissing, match="no NVIDIA GPU answers") as caught:
        choose_device(Target.NVIDIA, machine(tmp_path))
    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING
    assert "`nvidia-smi -L` must list a GPU" in str(caught.value)


def test_nvidia_by_name_is_taken_and_never_called_rocm(tmp_path: Path) -> None:
    device = choose_device(Target.NVIDIA, machine(tmp_path, programs={"nvidia-smi": NVIDIA_SMI}))
    assert device == Device("HIP on NVIDIA (NVIDIA H200)")
    assert device.on_nvidia
    assert not device.emulated


def test_a_driver_without_nvidia_smi_will_do(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/x86_64-linux-gnu/libcuda.so.1")
    device = choose_device(Target.NVIDIA, machine(tmp_path))
    assert device == Device("HIP on NVIDIA")
    assert device.on_nvidia


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", (Target.AUTO, "gfx1100")),
        ("nvidia", (Target.NVIDIA, "gfx1100")),
        ("model", (Target.MODEL, "gfx1100")),
        ("model:gfx942", (Target.MODEL, "gfx942")),
    ],
)
def test_a_target_may_name_the_card_that_is_modelled(text: str, expected: tuple[Target, str]) -> None:
    assert named_target(text) == expected


@pytest.mark.parametrize("text", ["rocm", "", "model:", "model:gfx90a", "emulator:gfx1100", "MODEL"])
def test_other_targets_are_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"no (target|card) `") as caught:
        named_target(text)
    assert "gfx942" in str(caught.value)


def test_a_model_is_never_called_rocm(tmp_path: Path) -> None:
    device = choose_device(Target.MODEL, machine(tmp_path), "gfx942")
    assert (device.label, device.kind) == ("AMD's runtime on a modelled gfx942", "model")
    assert device.keeps_record
    assert not device.emulated
    own, without = device.passes
    assert (own.share, own.devices) == (Share.ALL, ("gfx942",))
    assert (without.share, without.variables) == (Share.WITHOUT_A_DEVICE, {"HIP_VISIBLE_DEVICES": "-1"})


def test_a_model_leaves_out_what_cargo_or_python_start_and_says_why(tmp_path: Path) -> None:
    device = choose_device(Target.MODEL, machine(tmp_path))
    runs = {step.id for step in STEPS if step.device and device.obstacle(step) is None}
    of_libraries = {"rocm-own-products-tests", "rocm-providers-tests"}
    assert runs == {"rocm-basic", "rocm-tests", "rocm-nn-tests", "rocm-models-tests", *of_libraries}
    assert "cargo starts" in (device.obstacle(next(step for step in STEPS if step.id == "rocm-examples-tests")) or "")


def test_auto_does_not_take_an_nvidia_gpu(tmp_path: Path) -> None:
    assert choose_device(Target.AUTO, machine(tmp_path, programs={**COMPILER, "nvidia-smi": NVIDIA_SMI})) == Device(
        "emulator"
    )


@pytest.mark.parametrize(
    ("label", "obstacle"),
    [("HIP on NVIDIA", "no MIOpen"), ("HIP on NVIDIA (NVIDIA H200)", "no MIOpen"), ("emulator", None), ("ROCm", None)],
)
def test_what_hip_on_nvidia_lacks_is_an_obstacle_there_only(label: str, obstacle: str | None) -> None:
    step = replace(next(step for step in STEPS if step.device), not_on=(("nvidia", "no MIOpen"),))
    assert Device(label).obstacle(step) == obstacle
    assert Device(label).obstacle(replace(step, not_on=())) is None
    assert Device(None, "no GPU").obstacle(step) == "no GPU"
    assert Device(None, "no GPU").obstacle(replace(step, device=False)) is None


def test_amd_by_name_without_a_gpu_is_exit_7(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="no AMD GPU answers") as caught:
        choose_device(Target.AMD, machine(tmp_path))
    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING
    assert "candle-rocm doctor" in str(caught.value)
