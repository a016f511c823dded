"""Libraries with the ABI of ROCm's as verification uses them: built with cargo, and laid out like an installation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, VerificationFailed
from codegen.rocm.workspaces import EMULATED_DEVICE, HIP_ON_NVIDIA
from codegen.verify.cargo import run_cargo
from codegen.verify.nvidia import cuda_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from codegen.rocm.workspaces import Workspace
    from codegen.verify.cargo import CargoRun
    from codegen.verify.machine import Machine
    from codegen.verify.target import Device

LIBRARY_PATH = "LD_LIBRARY_PATH"


def libraries_of(
    device: Device,
    machine: Machine,
    *,
    logs: Path,
    linked: bool = False,
    on_message: Callable[[str], None] = lambda _line: None,
) -> dict[str, str]:
    """The variables with which Candle builds and runs on a device; none for an AMD GPU, which has ROCm's libraries.

    Programs that are linked (`linked`) and run on a modelled GPU with AMD's own libraries are linked with the emulated
    ones, because rustc's linker has an older C library than AMD's need.

    Raises as `prepare_libraries`, and ToolchainMissing where HIP on NVIDIA would not find CUDA's libraries.
    """
    if not (device.emulated or device.on_nvidia or (linked and device.card is not None)):
        return {}
    workspace = HIP_ON_NVIDIA if device.on_nvidia else EMULATED_DEVICE
    return prepare_libraries(
        workspace,
        variables=machine.variables,
        log=logs / f"{workspace.name}.log",
        needed=cuda_folders(machine) if device.on_nvidia else (),
        on_message=on_message,
    )


def prepare_libraries(
    workspace: Workspace,
    *,
    variables: Mapping[str, str],
    log: Path,
    needed: Iterable[str] = (),
    cargo: Callable[..., CargoRun] = run_cargo,
    on_message: Callable[[str], None] = lambda _line: None,
) -> dict[str, str]:
    """Build the libraries, and return the variables with which Candle builds and runs on them.

    ROCM_PATH names a folder of links, because Candle's build script looks for `lib/libamdhip64.so` below it. The
    folders in `needed` are searched last when a program runs.

    Raises VerificationFailed when the libraries do not build, InputOutputError when the folder cannot be written.
    """
    target = workspace.target
    on_message(f"building {workspace.title}")
    arguments = ("build", "--release", "--locked", "--manifest-path", str(workspace.sources / "Cargo.toml"))
    run = cargo(
        workspace.sources.parent,
        (*arguments, "--target-dir", str(target)),
        log=log,
        environment={"CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"},
        on_message=on_message,
    )
    if not run.ok:
        raise VerificationFailed(
            f"{workspace.title} does not build",
            remedy=f"the whole output is in {log}; see `make {workspace.name}`",
        )
    rocm = target / "rocm"
    try:
        _link_libraries(target / "release", rocm / "lib")
        _list_kernels(workspace.multiplied, rocm / "lib" / "rocblas" / "library")
    except OSError as error:
        raise InputOutputError(
            f"cannot lay out {workspace.title} in {rocm}: {error.strerror}", remedy="make the folder writable"
        ) from error
    searched = [str(rocm / "lib"), *filter(None, [variables.get(LIBRARY_PATH)]), *needed]
    return {"ROCM_PATH": str(rocm), LIBRARY_PATH: os.pathsep.join(searched)}


def _link_libraries(built: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for library in sorted(built.glob("lib*.so")):
        link_library(folder / library.name, library)


def link_library(link: Path, library: Path) -> None:
    """A link to a library, in place of one to another. Raises OSError."""
    if not (link.is_symlink() and link.readlink() == library):
        link.unlink(missing_ok=True)
        link.symlink_to(library)


def _list_kernels(architectures: Iterable[str], folder: Path) -> None:
    """Where rocBLAS looks for its kernels: a catalogue for each architecture, which the emulated one only looks at."""
    for architecture in architectures:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"TensileLibrary_lazy_{architecture}.dat").touch()
