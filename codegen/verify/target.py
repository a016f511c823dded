"""Which HIP device, if any, the steps that need one run on. What ran on something else is never called ROCm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.amdgpu.runtime import DEFAULT_CARD
from codegen.amdgpu.topology import CARDS
from codegen.errors import ToolchainMissing, UsageError
from codegen.verify.nvidia import nvidia_gpu_present, nvidia_gpus
from codegen.verify.steps import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.verify.machine import Machine
    from codegen.verify.steps import Step
    from codegen.verify.testrun import TestBinary
    from codegen.verify.unrun import Where

EMULATOR = "emulator"
EMULATED_DEVICES = "CANDLE_ROCM_EMULATOR_DEVICES"
COMPILERS = ("g++", "c++")
"""The emulated device compiles kernels with one of them, or with what `$CXX` names."""
NO_DEVICE = "no AMD GPU, and no C++ compiler for the emulated HIP device"
ON_NVIDIA = "HIP on NVIDIA"
ON_MODEL = "AMD's runtime on a modelled"
WITHOUT_A_DEVICE = "without_a_device"
"""In the names of tests that are about a machine without a GPU."""
TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
KFD = "/dev/kfd"


class Share(StrEnum):
    """Which tests a pass is about."""

    ALL = "all"
    DEVICE = "those about the device"
    WITHOUT_A_DEVICE = "those about a machine without one"

    def takes(self, binary: TestBinary, test: str) -> bool:
        """Whether a test of a binary belongs to it."""
        if self is Share.ALL:
            return True
        about_none = WITHOUT_A_DEVICE in test
        return about_none if self is Share.WITHOUT_A_DEVICE else "rocm" in f"{binary.target}::{test}" and not about_none


@dataclass(frozen=True, slots=True)
class DevicePass:
    """One of the times that a step's tests run: which device is the first one, and so the one that most tests use."""

    title: str
    variables: Mapping[str, str] = field(default_factory=dict)
    share: Share = Share.ALL
    devices: tuple[str, ...] | None = None
    """The architectures that the programs must have seen; None where they are not known before."""


PLAIN_PASS = DevicePass("")
NO_DEVICE_PASS = DevicePass("no device", {"HIP_VISIBLE_DEVICES": "-1"}, Share.WITHOUT_A_DEVICE)
EMULATED_PASSES = (
    DevicePass("waves of 32", {EMULATED_DEVICES: "gfx1100,gfx90a"}, devices=("gfx1100", "gfx90a")),
    DevicePass("waves of 64", {EMULATED_DEVICES: "gfx90a,gfx1100"}, Share.DEVICE, ("gfx90a", "gfx1100")),
    replace(NO_DEVICE_PASS, variables={EMULATED_DEVICES: "gfx1100", **NO_DEVICE_PASS.variables}),
)
"""Two cards, of either wave size, so that nothing about several devices or about waves of 64 lanes goes untested."""


@dataclass(frozen=True, slots=True)
class Device:
    """The device that was chosen, or why there is none."""

    label: str | None
    """`ROCm (gfx1100)`, `HIP on NVIDIA (NVIDIA H200)`; results are shown under this name."""
    absence: str | None = None
    """Why steps that need a device are skipped; None when there is one."""
    card: str | None = None
    """The architecture that is modelled, for AMD's own runtime; None for any other device."""

    @property
    def emulated(self) -> bool:
        """Whether it is the emulated device, whose libraries have to be built first."""
        return self.label == EMULATOR

    @property
    def on_nvidia(self) -> bool:
        """Whether it is an NVIDIA GPU, for which HIP's libraries have to be built first."""
        return self.label is not None and self.label.startswith(ON_NVIDIA)

    @property
    def kind(self) -> Where:
        """What it is, in one word."""
        if self.label is None:
            return "none"
        return "emulator" if self.emulated else "nvidia" if self.on_nvidia else "model" if self.card else "amd"

    @property
    def keeps_record(self) -> bool:
        """Whether something writes down what programs did there: AMD's own library does not, but the model does."""
        return self.kind in ("emulator", "nvidia", "model")

    @property
    def passes(self) -> tuple[DevicePass, ...]:
        """How often the tests of a step run on it, and how they differ."""
        if self.card is not None:
            return (DevicePass("", devices=(self.card,)), NO_DEVICE_PASS)
        return EMULATED_PASSES if self.emulated else (PLAIN_PASS,)

    def obstacle(self, step: Step) -> str | None:
        """Why a step that needs a device cannot run on this one; None where it can, and for any other step."""
        if not step.device:
            return None
        return self.absence or dict(step.not_on).get(self.kind)


def named_target(text: str) -> tuple[Target, str]:
    """The device that `--target` names, and the card to model if it is that: `model:gfx942`.

    Raises UsageError for any other text.
    """
    name, colon, card = text.partition(":")
    known = {target.value: target for target in Target}
    if name not in known or (colon and known[name] is not Target.MODEL):
        choices = [*(target.value for target in Target), *(f"{Target.MODEL}:{card}" for card in CARDS)]
        raise UsageError(f"no target `{text}`", remedy=f"choose among {', '.join(choices)}")
    card = card if colon else DEFAULT_CARD
    if card not in CARDS:
        raise UsageError(f"no card `{card}` is modelled", remedy=f"choose among {', '.join(CARDS)}")
    return known[name], card


def choose_device(target: Target, machine: Machine, card: str = DEFAULT_CARD) -> Device:
    """The device for `--target`; `auto` takes an AMD GPU that answers, else the emulated device.

    `card` is the one to model.

    An NVIDIA GPU is taken only where it is asked for: what runs there shows less about ROCm than an AMD GPU does.

    Raises ToolchainMissing when the device that was asked for by name cannot be had: such a run must not pass by
    skipping.
    """
    if target is Target.NVIDIA:
        return _nvidia_device(machine)
    if target is Target.MODEL:
        return Device(f"{ON_MODEL} {card}", card=card)
    if target is not Target.EMULATOR and amd_gpu_present(machine):
        return Device(_named("ROCm", gpu_architectures(machine)))
    if target is Target.AMD:
        raise ToolchainMissing(
            "no AMD GPU answers, and --target amd was asked for",
            remedy="see `candle-rocm doctor`; load the amdgpu driver and join the groups render and video, "
            "or use --target auto",
        )
    if emulator_compiler(machine) is not None:
        return Device(EMULATOR)
    if target is Target.EMULATOR:
        raise ToolchainMissing(
            "the emulated HIP device needs a C++ compiler, and --target emulator was asked for",
            remedy="install g++, or name a compiler in CXX",
        )
    return Device(None, NO_DEVICE)


def _nvidia_device(machine: Machine) -> Device:
    if not nvidia_gpu_present(machine):
        raise ToolchainMissing(
            "no NVIDIA GPU answers, and --target nvidia was asked for",
            remedy="`nvidia-smi -L` must list a GPU, or the driver's libcuda.so.1 be found; or use --target auto",
        )
    return Device(_named(ON_NVIDIA, nvidia_gpus(machine)))


def _named(what: str, devices: tuple[str, ...]) -> str:
    return f"{what} ({', '.join(devices)})" if devices else what


def emulator_compiler(machine: Machine) -> str | None:
    """The C++ compiler that the emulated device would use, None if there is none."""
    named = machine.variables.get("CANDLE_ROCM_EMULATOR_CXX") or machine.variables.get("CXX")
    return next((name for name in ((named,) if named else COMPILERS) if machine.which(name)), None)


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
