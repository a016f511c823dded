"""Finds libamdhip64 and libhiprtc: of an AMD GPU, the emulated device's, or those of HIP on NVIDIA."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from codegen.errors import ToolchainMissing
from codegen.rocm.workspaces import EMULATED_DEVICE

FOLDER_VARIABLE = "CANDLE_ROCM_HIP"
"""Environment variable: a folder with libamdhip64.so and libhiprtc.so to use instead of what is found."""


MODEL_VARIABLE = "HSA_MODEL_LIB"
"""Environment variable of ROCr: a library in place of a GPU."""


def emulator_folder() -> Path:
    """Where `make emulator`, `verify` and `candle-rocm emulator` put the emulated device's libraries."""
    return EMULATED_DEVICE.target / "release"


@dataclass(frozen=True, slots=True)
class Libraries:
    """Both libraries, loaded."""

    hip: ctypes.CDLL
    hiprtc: ctypes.CDLL
    target: str
    """`amd`, `model` (AMD's runtime on a modelled GPU), `emulator` or `nvidia` (HIP on NVIDIA): what results obtained
    with them may be called."""
    folder: str
    """Where they were found; empty for the loader's own search."""


def find_libraries() -> Libraries:
    """The libraries of `$CANDLE_ROCM_HIP`, else of an AMD GPU that answers, else of the emulated device.

    Raises ToolchainMissing if there is neither.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        return _load(named)
    if (real := _real()) is not None:
        return real
    emulator = emulator_folder()
    if not (emulator / "libamdhip64.so").exists():
        raise ToolchainMissing(
            "no AMD GPU answers, and the emulated device is not built", remedy="build it: candle-rocm emulator"
        )
    return _load(str(emulator))


def _real() -> Libraries | None:
    """ROCm's libraries if the system has them and they see a device."""
    for folder in ("", str(Path(os.environ.get("ROCM_PATH", "/opt/rocm")) / "lib")):
        try:
            libraries = _load(folder)
        except (OSError, ToolchainMissing):
            continue
        count = ctypes.c_int(0)
        if libraries.hip.hipGetDeviceCount(ctypes.byref(count)) == 0 and count.value > 0:
            return libraries
    return None


def _load(folder: str) -> Libraries:
    if folder and not Path(folder).is_dir():
        raise ToolchainMissing(f"{folder} is not a folder", remedy=f"correct {FOLDER_VARIABLE}, or unset it")
    prefix = f"{folder}/" if folder else ""
    hip = ctypes.CDLL(f"{prefix}libamdhip64.so", mode=ctypes.RTLD_GLOBAL)
    hiprtc = ctypes.CDLL(f"{prefix}libhiprtc.so", mode=ctypes.RTLD_GLOBAL)
    return Libraries(hip, hiprtc, _target(hip), folder)


def _target(hip: ctypes.CDLL) -> str:
    """What a libamdhip64 runs on: ours say so by a function that ROCm's lacks."""
    for function, target in (("candle_rocm_emulator_last_report", "emulator"), ("candle_rocm_on_nvidia", "nvidia")):
        if hasattr(hip, function):
            return target
    return "model" if MODEL_VARIABLE in os.environ else "amd"
