"""Products of matrices by rocBLAS, compared with numpy's: `python -m rocm.products CASE...` on a machine with HIP.

A case is TYPE:TRANSPOSED:ROWSxCOLUMNSxINNER[:BATCH]; without one, all of `CASES`. A line for each says how far the
worst value is from numpy's, in units of what its type allows.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import byref, c_double, c_float, c_int, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

HIP, BLAS = "libamdhip64.so.7", "librocblas.so.5"
TO_DEVICE, TO_HOST = 1, 2
OPERATION = {"n": 111, "t": 112}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of matrices, as rocBLAS numbers it."""

    number: int
    numpy: type[Any]
    compute: int
    scalar: type[Any]
    unit: float
    """The distance of 1 and the next number."""
    is_rounded: bool = False
    """Whether factors may be rounded, which rocBLAS is told apart."""


F32, F64 = 151, 152
KINDS = {
    "f16": Kind(150, np.float16, F32, c_float, 2**-10),
    "f16_by_f16": Kind(150, np.float16, 150, c_uint32, 2**-10),
    "f32": Kind(F32, np.float32, F32, c_float, 2**-23),
    "xf32": Kind(F32, np.float32, F32, c_float, 2**-10, is_rounded=True),
    "f64": Kind(F64, np.float64, F64, c_double, 2**-52),
    "bf16": Kind(168, np.uint16, F32, c_float, 2**-7),
}
SIZES = ((1, 1, 1), (16, 16, 16), (37, 29, 53), (64, 64, 64), (128, 96, 160), (129, 65, 33))
CASES = tuple(
    f"{kind}:{transposed}:{'x'.join(map(str, size))}{batch}"
    for kind in KINDS
    for transposed in ("nn", "tn", "nt", "tt")
    for size, batch in ((size, ":3" if size == (37, 29, 53) else "") for size in SIZES)
)


def bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of floats, rounded to even."""
    words = values.astype(np.float32).view(np.uint32)
    return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)


def widened(values: np.ndarray, kind: str) -> np.ndarray:
    """As numbers of 64 bits."""
    if kind == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values.astype(np.float64)


class Device:
    """HIP and rocBLAS."""

    def __init__(self) -> None:
        self.hip, self.blas = ctypes.CDLL(HIP), ctypes.CDLL(BLAS)
        self.handle = c_void_p()
        self.check(self.blas.rocblas_create_handle(byref(self.handle)))

    def check(self, status: int) -> None:
        """Raises where a call fails."""
        if status:
            raise RuntimeError(f"status {status}")

    def upload(self, values: np.ndarray) -> c_void_p:
        """A copy on the device, with nothing around it."""
        place = c_void_p()
        self.check(self.hip.hipMalloc(byref(place), ctypes.c_size_t(values.nbytes)))
        data = values.ctypes.data_as(c_void_p)
        self.check(self.hip.hipMemcpy(place, data, ctypes.c_size_t(values.nbytes), TO_DEVICE))
        return place

    def product(self, case: str, seed: int = 1) -> float:
        """How far the worst value is from numpy's, in units of what its type allows."""
        name, transposed, size, *batch = case.split(":")
        kind, (m, n, k), count = KINDS[name], map(int, size.split("x")), int(batch[0]) if batch else 1
        rng = np.random.default_rng(seed)

        def matrices(*shape: int) -> np.ndarray:
            values = rng.standard_normal((count, *shape))
            return bf16(values) if name == "bf16" else values.astype(kind.numpy)

        # Columns one after another, as rocBLAS has them.
        a = matrices(*((k, m) if transposed[0] == "n" else (m, k)))
        b = matrices(*((n, k) if transposed[1] == "n" else (k, n)))
        c = matrices(n, m)
        alpha, beta = 1.5, -0.5
        wide_a, wide_b = (widened(each, name) for each in (a, b))
        left = wide_a.swapaxes(1, 2) if transposed[0] == "n" else wide_a
        right = wide_b.swapaxes(1, 2) if transposed[1] == "n" else wide_b
        expected = (alpha * (left @ right)).swapaxes(1, 2) + beta * widened(c, name)
        size_of = (np.abs(left) @ np.abs(right)).swapaxes(1, 2) + np.abs(widened(c, name))

        places = [self.upload(each) for each in (a, b, c)]
        self.check(self.blas.rocblas_set_math_mode(self.handle, int(kind.is_rounded)))
        scalars = [self.scalar(kind, value) for value in (alpha, beta)]
        self.multiply(kind, transposed, (m, n, k), count, (a.shape[2], b.shape[2]), places, scalars)
        self.check(self.hip.hipDeviceSynchronize())
        found = np.full_like(c, 0)
        self.check(self.hip.hipMemcpy(found.ctypes.data_as(c_void_p), places[2], ctypes.c_size_t(c.nbytes), TO_HOST))
        for place in places:
            self.check(self.hip.hipFree(place))
        allowed = kind.unit * np.maximum(np.abs(expected), 1e-3)
        steps = k if kind.compute == kind.number else 1
        allowed += size_of * steps**0.5 * (kind.unit if kind.compute == kind.number else 2**-23) * 4
        return float(np.max(np.abs(widened(found, name) - expected) / allowed))

    def scalar(self, kind: Kind, value: float) -> Any:
        """A factor as rocBLAS reads it."""
        return c_uint32(int(np.float16(value).view(np.uint16))) if kind.compute == 150 else kind.scalar(value)

    def multiply(
        self,
        kind: Kind,
        transposed: str,
        size: tuple[int, int, int],
        count: int,
        leading: tuple[int, int],
        places: list[c_void_p],
        scalars: list[Any],
    ) -> None:
        """One call: of the plain function where there is one, and of that with types."""
        m, n, k = size
        operations = [OPERATION[each] for each in transposed]
        (a, b, c), (alpha, beta) = places, scalars
        head = (self.handle, *operations, m, n, k, byref(alpha))
        kinds = c_int(kind.number)
        plain = {F32: "rocblas_sgemm", F64: "rocblas_dgemm"}.get(kind.number)
        if count == 1 and plain:
            call = getattr(self.blas, plain)
            self.check(call(*head, a, leading[0], b, leading[1], byref(beta), c, m))
        elif count == 1:
            tail = (c, kinds, m, c, kinds, m, kind.compute, 0, 0, c_uint32(0))
            self.check(self.blas.rocblas_gemm_ex(*head, a, kinds, leading[0], b, kinds, leading[1], byref(beta), *tail))
        else:
            steps = [c_int64(each) for each in (m * k, k * n, m * n)]
            call = self.blas.rocblas_gemm_strided_batched_ex
            first = (a, kinds, leading[0], steps[0], b, kinds, leading[1], steps[1])
            third = (c, kinds, m, steps[2])
            how = (count, kind.compute, 0, 0, c_uint32(0))
            self.check(call(*head, *first, byref(beta), *third, *third, *how))


def main(cases: list[str]) -> None:
    """Run cases, and say what became of each."""
    device = Device()
    for case in cases or CASES:
        print(f"{case} {device.product(case):.3f}", flush=True)
    # Nothing of the runtime need be taken apart.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
