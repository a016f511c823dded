"""A machine made of folders, variables and programs that a test names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.verify.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ROCM_FILES = (
    "opt/rocm/.info/version",
    "opt/rocm/bin/hipcc",
    "opt/rocm/include/hip/hip_runtime.h",
    "opt/rocm/include/hip/hiprtc.h",
    "opt/rocm/include/rocblas/rocblas.h",
    "opt/rocm/include/miopen/miopen.h",
    "opt/rocm/include/rocrand/rocrand.h",
    "opt/rocm/lib/libamdhip64.so.7",
    "opt/rocm/lib/libhiprtc.so",
    "opt/rocm/lib/librocblas.so",
    "opt/rocm/lib/libMIOpen.so.1",
    "opt/rocm/lib/librocrand.so",
    "opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat",
)
GPU_NODE = "sys/class/kfd/kfd/topology/nodes/{}/properties"
TOOLS = {name: f"{name} 1.0" for name in ("cargo", "rustc", "rustfmt", "cargo-clippy", "git")}


def put(root: Path, path: str, text: str = "") -> Path:
    """Write a file of the machine."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def with_rocm(root: Path) -> None:
    """Install ROCm in /opt/rocm."""
    for path in ROCM_FILES:
        put(root, path, "7.1.0\n" if path.endswith("version") else "")


def with_gpu(root: Path, *versions: int) -> None:
    """Add a CPU node and GPUs, given as the driver's `gfx_target_version`."""
    put(root, GPU_NODE.format(0), "cpu_cores_count 8\ngfx_target_version 0\n")
    for number, version in enumerate(versions, start=1):
        put(root, GPU_NODE.format(number), f"simd_count 96\ngfx_target_version {version}\n")
        put(root, f"dev/dri/renderD{127 + number}")
    put(root, "dev/kfd")


def machine(
    root: Path,
    variables: Mapping[str, str] | None = None,
    programs: Mapping[str, str | None] | None = None,
    *,
    closed: Sequence[str] = (),
) -> Machine:
    """A machine below `root`; `programs` are on PATH and print the text, or fail when it is None."""
    known = TOOLS if programs is None else programs
    return Machine(
        variables=variables or {},
        which=lambda name: f"/usr/bin/{name}" if name in known else None,
        run=lambda command: known[command[0].rsplit("/", 1)[-1]],
        accessible=lambda path: path.name not in closed,
        root=root,
    )
