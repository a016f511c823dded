"""Which HIP device, if any, the steps that need one run on. What ran on something else is never called ROCm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import ToolchainMissing
from codegen.verify.steps import Target

if TYPE_CHECKING:
    from codegen.verify.machine import Machine

NO_DEVICE = "no AMD GPU and no emulated HIP device in this version"
NO_EMULATOR = "no emulated HIP device in this version"
NO_HIP_ON_NVIDIA = "no HIP on NVIDIA in this version"
TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
KFD = "/dev/kfd"


@dataclass(frozen=True, slots=True)
class Device:
    """The device that was chosen, or why there is none."""

    label: str | None
    """`ROCm (gfx1100)`; results are shown under this name."""
    absence: str | None = None
    """Why steps that need a device are skipped; None when there is one."""


def choose_device(target: Target, machine: Machine) -> Device:
    """The device for `--target`.

    Raises ToolchainMissing when an AMD GPU was asked for by name and none answers: a run that was meant to be on a GPU
    must not pass by skipping.
    """
    if target is Target.EMULATOR:
        return Device(None, NO_EMULATOR)
    if target is Target.NVIDIA:
        return Device(None, NO_HIP_ON_NVIDIA)
    if amd_gpu_present(machine):
        architectures = gpu_architectures(machine)
        return Device(f"ROCm ({', '.join(architectures)})" if architectures else "ROCm")
    if target is Target.AMD:
        raise ToolchainMissing(
            "no AMD GPU answers, and --target amd was asked for",
            remedy="see `candle-rocm doctor`; load the amdgpu driver and join the groups render and video, "
            "or use --target auto",
        )
    return Device(None, NO_DEVICE)


def amd_gpu_present(machine: Machine) -> bool:
    """True when the ROCm tools or the kernel driver name a GPU, or the driver's device file is there."""
    return bool(gpu_architectures(machine)) or machine.at(KFD).exists()


def gpu_architectures(machine: Machine) -> tuple[str, ...]:
    """`gfx1100`, ... of the GPUs, in the driver's order.

    Asks the kernel driver's topology, which needs no ROCm installation, then `rocm_agent_enumerator`, then `rocminfo`.
    """
    return _from_topology(machine) or _from_enumerator(machine) or _from_rocminfo(machine)


def architecture_name(target_version: int) -> str:
    """`gfx90a` for 90010: the driver's decimal major, minor and stepping, two digits each below the major one."""
    major, minor, stepping = target_version // 10000, target_version // 100 % 100, target_version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def _from_topology(machine: Machine) -> tuple[str, ...]:
    nodes = machine.at(TOPOLOGY)
    found = []
    numbered = (node for node in nodes.glob("*") if node.name.isdigit()) if nodes.is_dir() else ()
    for node in sorted(numbered, key=lambda node: int(node.name)):
        try:
            lines = (node / "properties").read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        properties = dict(line.split(maxsplit=1) for line in lines if len(line.split()) == 2)
        version = properties.get("gfx_target_version", "0")
        if version.isdigit() and int(version) > 0:  # 0 is a CPU node
            found.append(architecture_name(int(version)))
    return tuple(found)


def _from_enumerator(machine: Machine) -> tuple[str, ...]:
    program = machine.which("rocm_agent_enumerator")
    answer = machine.run([program]) if program else None
    return tuple(name for name in (answer or "").split() if name.startswith("gfx") and name != "gfx000")


def _from_rocminfo(machine: Machine) -> tuple[str, ...]:
    program = machine.which("rocminfo")
    answer = machine.run([program]) if program else None
    names = (line.split()[-1] for line in (answer or "").splitlines() if line.split()[:1] == ["Name:"])
    return tuple(name for name in names if name.startswith("gfx"))
