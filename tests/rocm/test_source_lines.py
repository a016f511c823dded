"""What goes wrong in machine code is told with the line of the source that it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kernels.machine_code import Card, MachineCode
from rocm_toolchain import real_toolchain

from codegen.device.hip import HipError, Launch
from codegen.kernels.compile import compile_kernels
from codegen.kernels.render import Source, Sources

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """
#include <hip/hip_runtime.h>
__device__ __forceinline__ void put(float *y, unsigned place, float value) {
  y[place] = value;  // too far
}
extern "C" __global__ void probe(float *y, const float *x, unsigned distance) {
  const unsigned i = threadIdx.x;
  if (x[i] > 3)
    put(y, i + distance, x[i] * 2);
}
"""
THREADS = 64


@pytest.mark.parametrize("architecture", ["gfx1100", "gfx942"])
def test_an_access_out_of_memory_names_its_line(architecture: str, tmp_path: Path) -> None:
    """In a function that was inlined, and in code that was compiled without tables of lines."""
    sources = Sources((), (Source("probe.hip", SOURCE, None, ()),))
    (code,) = compile_kernels(sources, [architecture], real_toolchain(), tmp_path)
    card = Card(architecture)
    y, x = card.zeros(4 * THREADS), card.upload(b"\0\0\x80\x40" * THREADS)

    def launch(distance: int) -> None:
        arguments = [*(each.address.to_bytes(8, "little") for each in (y, x)), distance.to_bytes(4, "little")]
        module = MachineCode(card, code.path, sources)
        try:
            module.launch(Launch("probe", (1, 1, 1), (THREADS, 1, 1), tuple(arguments)))
        finally:
            module.unload()

    launch(0)
    assert card.download(y) == b"\0\0\0\x41" * THREADS
    with pytest.raises(HipError) as problem:
        launch(THREADS)

    line = 1 + SOURCE[: SOURCE.index("// too far")].count("\n")
    assert f"(./probe.hip:{line}): GLOBAL_STORE" in str(problem.value)
    assert "are in no memory" in str(problem.value)
