"""Rows rounded to 8 bits, bit for bit: the scale of each part, its numbers, and the sums of its halves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.planner import plan
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from codegen.device.hip import Buffer
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

PART = 32
SCALES = np.dtype([("d", np.float32), ("sums", np.int16, 2)])
"""`candle::Part`."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A row of numbers for each part."""

    q: Array
    d: Array
    sums: Array

    @classmethod
    def by_numpy(cls, x: Array) -> Rounded:
        """What the kernels are to make of finite rows."""
        parts = x.astype(np.float32).reshape(-1, PART)
        d = np.abs(parts).max(1) / np.float32(127)
        q = np.rint(np.divide(parts, d[:, None], out=np.zeros_like(parts), where=d[:, None] > 0)).astype(np.int8)
        return cls(q, d, q.reshape(-1, 2, PART // 2).sum(2, dtype=np.int16))

    @classmethod
    def by_kernels(cls, kernels: Kernels, x: Tensor) -> Rounded:
        """What they make of rows that are to be multiplied; nothing is."""
        workspaces: list[Buffer] = []

        def allocate(size: int, *, zeroed: bool) -> int:
            assert not zeroed
            workspaces.append(kernels.device.allocate(size))
            return workspaces[-1].address

        columns = x.shape[-1]
        w = Tensor.empty(kernels.device, (columns // PART * 34,), dtype("u8"))
        y = Tensor.empty(kernels.device, (*x.shape[:-1], 1), x.dtype)
        device = {name: getattr(kernels.device, name) for name in ("architecture", "wave_size", "multiprocessors")}
        blocks = {"bytes": w, "format": "q8_0", "shape": (1, columns)}
        launches = plan("quantized_matmul", {**device, **kernels.limits}, allocate, x=x, y=y, w=blocks)
        kernels.launch("activations", [launch for family, launch in launches if family == "activations"])
        [workspace] = workspaces
        made = kernels.device.download(workspace)
        kernels.device.free(workspace)
        parts = x.view.count // PART
        assert len(made) == parts * (PART + SCALES.itemsize)
        scales = np.frombuffer(made, SCALES, offset=parts * PART)
        return cls(np.frombuffer(made, np.int8, parts * PART).reshape(-1, PART), scales["d"], scales["sums"])

    def assert_is(self, wanted: Rounded) -> None:
        """Fails unless everything has the same bits."""
        np.testing.assert_array_equal(self.d, wanted.d)
        np.testing.assert_array_equal(self.q, wanted.q)
        np.testing.assert_array_equal(self.sums, wanted.sums)


def random_rows(shape: tuple[int, ...], element: str = "f32") -> Array:
    """Numbers whose parts differ in size."""
    rng = np.random.default_rng(shape[-1])
    size = np.repeat(10.0 ** rng.integers(-3, 4, (*shape[:-1], shape[-1] // PART)), PART, -1)
    return (rng.normal(size=shape) * size).astype(numpy_type(dtype(element)))


@pytest.mark.parametrize("shape", [(1, 32), (3, 32), (5, 96), (9, 512), (2, 3, 64)], ids=str)
@pytest.mark.parametrize("element", ["bf16", "f16", "f32"])
def test_rows(kernels: Kernels, element: str, shape: tuple[int, ...]) -> None:
    x = random_rows(shape, element)
    Rounded.by_kernels(kernels, Tensor.from_numpy(kernels.device, x)).assert_is(Rounded.by_numpy(x))


@pytest.mark.parametrize("largest", [127, -127])
def test_whole_numbers_are_exact(kernels: Kernels, largest: int) -> None:
    x = np.arange(-48, 48, dtype=np.float32).reshape(1, 96)
    x[0, [5, 40, 95]] = largest
    made = Rounded.by_kernels(kernels, Tensor.from_numpy(kernels.device, x))
    np.testing.assert_array_equal(made.d, 1)
    np.testing.assert_array_equal(made.q.ravel(), x.ravel())
    np.testing.assert_array_equal(made.sums.ravel(), x.reshape(-1, PART // 2).sum(1))


def test_views(kernels: Kernels) -> None:
    x = random_rows((4, 6, 64))
    whole = Tensor.from_numpy(kernels.device, x)
    turned = Tensor.from_numpy(kernels.device, x.transpose(2, 1, 0).copy()).transpose(2, 1, 0)
    Rounded.by_kernels(kernels, turned).assert_is(Rounded.by_numpy(x))
    some = whole.narrow(1, 2, 3)
    Rounded.by_kernels(kernels, some).assert_is(Rounded.by_numpy(x[:, 2:5]))
    repeated = replace(whole, view=View((5, 64), (0, 1), 64))
    Rounded.by_kernels(kernels, repeated).assert_is(Rounded.by_numpy(np.broadcast_to(x[0, 1], (5, 64))))


def test_one_block(kernels: Kernels, one_block: None) -> None:
    x = random_rows((9, 512))
    Rounded.by_kernels(kernels, Tensor.from_numpy(kernels.device, x)).assert_is(Rounded.by_numpy(x))


def test_launches_are_cut(kernels: Kernels) -> None:
    x = random_rows((6, 96))
    turned = Tensor.from_numpy(kernels.device, x.T.copy()).transpose(1, 0)
    kernels.limits = {"elements": 40, "blocks": 1}
    try:
        Rounded.by_kernels(kernels, turned).assert_is(Rounded.by_numpy(x))
    finally:
        kernels.limits = {}


@pytest.mark.parametrize("strange", [np.nan, -np.nan, np.inf, -np.inf])
def test_what_is_not_finite_makes_its_part_so(kernels: Kernels, strange: float) -> None:
    x = random_rows((2, 128))
    wanted = Rounded.by_numpy(x)
    x[1, [37, 63]] = strange
    made = Rounded.by_kernels(kernels, Tensor.from_numpy(kernels.device, x))
    others = np.arange(8) != 5
    assert np.isnan(made.d[5]) if np.isnan(strange) else made.d[5] == np.inf
    for got, finite in ((made.d, wanted.d), (made.q, wanted.q), (made.sums, wanted.sums)):
        np.testing.assert_array_equal(got[others], finite[others])


def test_zeros(kernels: Kernels) -> None:
    x = random_rows((2, 64))
    x[0, 32:] = 0
    x[1, :32] = -0.0
    made = Rounded.by_kernels(kernels, Tensor.from_numpy(kernels.device, x))
    made.assert_is(Rounded.by_numpy(x))
    assert not made.d[1:3].any()
    assert not made.q[1:3].any()
