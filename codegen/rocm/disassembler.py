"""llvm-objdump, which shows the machine code of code objects: of the compiler's ROCm, or what we fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import ToolchainMissing
from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.rocm.toolchain import Toolchain

_PROGRAM = "llvm-objdump"
_FROM_HIPCC = ("../llvm/bin", "../lib/llvm/bin")
"""Where ROCm has LLVM's programs, seen from the folder of hipcc."""


def find_disassembler(toolchain: Toolchain, build: Path | None = None) -> Path:
    """llvm-objdump of the compiler's own ROCm, else that of `make rocm-toolchain`; `build` stands for `build/rocm`.

    Raises:
        ToolchainMissing: there is neither.
    """
    folder = toolchain.compiler.parent
    for place in (folder, *(folder / each for each in _FROM_HIPCC)):
        if (place / _PROGRAM).is_file():
            return place / _PROGRAM
    part = fetched(NEWEST, Part.DISASSEMBLER, build)
    if part is None:
        raise ToolchainMissing(
            f"{toolchain.compiler} has no {_PROGRAM} beside it",
            remedy="run `make rocm-toolchain`, or install ROCm's LLVM (package rocm-llvm)",
        )
    return part.folder / "bin" / _PROGRAM
