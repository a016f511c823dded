"""An NVIDIA GPU as verification sees it: whether one answers, what it is, and where CUDA's libraries are.

The libraries of HIP on NVIDIA (`nvidia/`) open CUDA's by name when they run, as the dynamic linker finds them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.errors import Problem, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.verify.machine import Machine

DRIVER = ("libcuda.so.1", "libcuda.so")
NVRTC = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
CUBLAS = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")
"""The names under which nvidia/cuda opens them, in its order."""
USUAL_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib")
TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
USUAL_TOOLKIT = "/usr/local/cuda"
TOOLKIT_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib")
REMEDY = (
    "install NVRTC and cuBLAS of CUDA 12 or 13; if they are, name their folders in LD_LIBRARY_PATH, or the folder of "
    "the CUDA toolkit in CUDA_HOME"
)


def nvidia_gpu_present(machine: Machine) -> bool:
    """True when nvidia-smi names a GPU; where that program is missing, when the driver's library is there."""
    if machine.which("nvidia-smi"):
        return bool(nvidia_gpus(machine))
    return _loadable(machine, DRIVER)


def nvidia_gpus(machine: Machine) -> tuple[str, ...]:
    """`NVIDIA H200`, ... as `nvidia-smi -L` names them, each name once."""
    program = machine.which("nvidia-smi")
    answer = machine.run([program, "-L"]) if program else None
    # GPU 0: NVIDIA H200 (UUID: GPU-8f...)
    return tuple(dict.fromkeys(re.findall(r"^GPU \d+: (.+?)(?: \(UUID: .*\))?$", answer or "", re.MULTILINE)))


def cuda_folders(machine: Machine) -> tuple[str, ...]:
    """The toolkit's folders that LD_LIBRARY_PATH needs besides what it has, for NVRTC and cuBLAS to be found.

    Raises ToolchainMissing naming each of the two that is nowhere, and how to make it known.
    """
    searched = {names: _in_toolkit(machine, names) for names in (NVRTC, CUBLAS) if not _loadable(machine, names)}
    problems = [
        Problem(f"HIP on NVIDIA needs one of {', '.join(names)}, and none is found")
        for names, folder in searched.items()
        if folder is None
    ]
    if problems:
        raise ToolchainMissing(problems, remedy=REMEDY)
    return tuple(dict.fromkeys(filter(None, searched.values())))


def _loadable(machine: Machine, names: tuple[str, ...]) -> bool:
    """Whether the dynamic linker finds one of the names."""
    configured = machine.variables.get("LD_LIBRARY_PATH", "").split(":")
    folders = (*(folder for folder in configured if folder.startswith("/")), *USUAL_FOLDERS)
    if any(_holds(machine, folder, names) for folder in folders):
        return True
    program = machine.which("ldconfig")
    listed = (machine.run([program, "-p"]) or "").split() if program else []
    return any(name in listed for name in names)


def _in_toolkit(machine: Machine, names: tuple[str, ...]) -> str | None:
    """The folder of an installed CUDA toolkit that has one of the names, None if none has."""
    return next((folder for folder in _toolkit_folders(machine) if _holds(machine, folder, names)), None)


def _holds(machine: Machine, folder: str, names: tuple[str, ...]) -> bool:
    return any((machine.at(folder) / name).exists() for name in names)


def _toolkit_folders(machine: Machine) -> Iterator[str]:
    named = (machine.variables.get(variable, "") for variable in TOOLKIT_VARIABLES)
    for root in (*(root.rstrip("/") for root in named if root.startswith("/")), USUAL_TOOLKIT):
        yield from (f"{root}/{folder}" for folder in TOOLKIT_FOLDERS)
