"""AMD's own runtime on a modelled GPU, `amdgpu/model`: HIP, ROCr, hipRTC and other libraries as Debian packages them.

`python -m codegen.amdgpu.runtime gfx1100 ARGUMENTS` runs this Python with these arguments there, or the program that
they begin with: a test program of a patched Candle, say. What runs so is "AMD's runtime on a modelled GPU", and neither
ROCm on a GPU nor the emulated device.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.amdgpu.libraries import provider_folders, rocblas_folders
from codegen.amdgpu.topology import CARDS, write_topology
from codegen.errors import CandleRocmError, ToolchainMissing, UsageError
from codegen.paths import build_folder
from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.wrappers import LIBRARIES, LOADER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_CARD = "gfx1100"


@dataclass(frozen=True, slots=True)
class ModelledRuntime:
    """AMD's runtime as its packages were unpacked, and the model of one card."""

    loader: Path
    """The packages' C library is newer than that of most systems: it has a dynamic loader of its own."""
    libraries: Path
    rocblas: tuple[Path, ...]
    """The folders of rocBLAS, if it was fetched."""
    providers: tuple[Path, ...]
    """Those of MIOpen and rocRAND, likewise."""
    variables: Mapping[str, str]
    """Of the programs that run there, besides the loader's."""

    @property
    def library_path(self) -> str:
        """All folders that the loader searches."""
        return ":".join(map(str, (self.libraries, *self.rocblas, *self.providers)))


def main() -> None:
    """Run Python, or a program, on the modelled GPU, in place of this process."""
    try:
        command, variables = started(sys.argv[1:])
    except CandleRocmError as error:
        sys.exit(str(error))
    os.execve(command[0], command, {**os.environ, **variables})


def started(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command that runs this Python, or a program, on the card that the arguments begin with, and its variables.

    Raises as `modelled_runtime`.
    """
    runtime = modelled_runtime(arguments[0] if arguments else "")
    loader = [str(runtime.loader), "--library-path", runtime.library_path]
    if len(arguments) > 1 and not arguments[1].startswith("-"):
        command = [*loader, *arguments[1:]]
    else:
        # With this name, Python finds its virtual environment.
        command = [*loader, "--argv0", sys.executable, str(Path(sys.executable).resolve()), *arguments[1:]]
    return command, {"CANDLE_ROCM_HIP": str(runtime.libraries), **runtime.variables}


def modelled_runtime(name: str) -> ModelledRuntime:
    """AMD's runtime for a card; the description of the card is written below the build folder.

    Raises:
        UsageError: there is no such card.
        ToolchainMissing: the packages were not fetched, or the model is not built.
    """
    card = CARDS.get(name)
    if card is None:
        raise UsageError(f"no card `{name}` is modelled", remedy=f"name one of {', '.join(CARDS)}")
    part = fetched(NEWEST, Part.COMPILER)
    if part is None:
        raise ToolchainMissing("AMD's runtime was not fetched", remedy="make rocm-toolchain")
    model = build_folder() / "amdgpu/release/libmodel.so"
    if not model.is_file():
        raise ToolchainMissing("the modelled GPU is not built", remedy="make amdgpu")
    topology = build_folder() / "amdgpu/topology" / card.name
    write_topology(topology, card)
    return ModelledRuntime(
        part.root / LOADER,
        part.root / LIBRARIES,
        rocblas_folders(),
        provider_folders(),
        {
            "HSA_MODEL_LIB": str(model),
            "HSA_MODEL_TOPOLOGY": str(topology),
            # The model cannot use the host's memory in place, which HIP would do for large copies.
            "GPU_PINNED_MIN_XFER_SIZE": str(1 << 20),
            # ROCr frees a signal's event once the signal is lowered, and aborts when a model tells of it after that,
            # where a driver would ignore the interrupt. Without interrupts, it looks at the signal itself.
            "HSA_ENABLE_INTERRUPT": "0",
            "HSA_ENABLE_SDMA": "0",
            **_variables_of_miopen(),
        },
    )


def _variables_of_miopen() -> dict[str, str]:
    """How MIOpen finds a solution there.

    It may not time kernels, since the clock of a model stands still. And Debian's has no kernels in assembly: it fails
    where it wants one.
    """
    folder = build_folder() / "amdgpu/miopen"
    return {
        "MIOPEN_FIND_MODE": "FAST",
        "MIOPEN_DEBUG_CONV_WINOGRAD": "0",
        "MIOPEN_DEBUG_CONV_IMPLICIT_GEMM": "0",
        "MIOPEN_USER_DB_PATH": str(folder / "choices"),
        "MIOPEN_CUSTOM_CACHE_DIR": str(folder / "kernels"),
    }


if __name__ == "__main__":
    main()
