"""Small kernels of the tests' own, with their specs: the toolchain is tested without the real ones."""

from __future__ import annotations

from codegen.kernels.loader import LoadedFamily
from codegen.kernels.model import Budget, Family, kernels_of
from codegen.kernels.render import Source, Sources

SPEC = "specs/kernels/small.yaml"

HEADER = """\
#pragma once
#if !defined(__HIPCC_RTC__)
#include <hip/hip_runtime.h>
#endif
template <class T>
__device__ T twice(T x) {
  return x + x;
}
"""

TWICE = """\
#include "candle_rocm/twice.h"
extern "C" __global__ void __launch_bounds__(256) twice_f32(float *y, const float *x, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = twice(x[i]);
}
"""

BROKEN = """\
#include "candle_rocm/twice.h"
struct Thing {};
extern "C" __global__ void __launch_bounds__(256) broken(Thing *y) {
  y[0] = twice(Thing());
  undeclared();
}
"""


def source(text: str, *, name: str = "small", marks: tuple[tuple[int, int], ...] = ((3, 17),)) -> Source:
    """A family's source; line 3 on comes from line 17 of its spec."""
    return Source(f"{name}.hip", text, f"specs/kernels/{name}.yaml", marks)


def sources(*families: Source, header: str = HEADER) -> Sources:
    """Families with the one header."""
    return Sources((Source("candle_rocm/twice.h", header, None, ()),), families)


def loaded_family(*symbols: str, vgprs: int = 64, lds: int = 0, plain: Budget | None = None) -> LoadedFamily:
    """A family `small` with an op per symbol, on lines 2, 3, ... of its spec; its only variant may have a budget."""
    operation = {"about": "A test's.", "types": {"dtype": "f32"}, "cpu": "f32", "expressions": {"any": "x"}}
    family = Family.model_validate(
        {
            "family": "small",
            "about": "A test's.",
            "source": "none",
            "launch": {"block": 256},
            "budget": Budget(vgprs=vgprs, lds=lds),
            "variants": [{"name": "", "about": "A test's.", "budget": plain}],
            "contract": {"ulps": 0},
            "ops": [{"name": symbol.removesuffix("_f32"), **operation} for symbol in symbols],
        }
    )
    text = "family: small\n" + "".join(f"  - name: {symbol}\n" for symbol in symbols)
    lines = {op.name: line for line, op in enumerate(family.ops, 2)}
    return LoadedFamily(family, SPEC, text, kernels_of(family, lines), lines)
