"""Convolution kernels against sums over taps in numpy's widest types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest

from codegen.device.hip import Buffer
from codegen.device.ops import conv
from codegen.device.ops.conv import conv1d, conv2d, conv_transpose1d, conv_transpose2d
from codegen.device.planner import plan
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, Kind, dtype
from codegen.kernels.layout import View
from kernels.cases import random_values
from kernels.compare import assert_within
from kernels.images import image_views, unit, with_few_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

    Array = np.ndarray[Any, Any]
    Pair = tuple[int, int]
    Reference = Callable[["Array", "Array", "Case"], "Array"]

TILED = [t for t in DTYPES if t.name in conv.TILED]


@dataclass(frozen=True)
class Case:
    """A convolution, or a transposed one."""

    image: tuple[int, int, int, int]
    out_channels: int
    kernel: Pair
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    output_padding: int = 0
    one_row: bool = False
    """The 1-D form: image and kernel have one row, and nothing is padded above and below it."""

    def as_row(self) -> Case:
        """The 1-D form of the last dimension."""
        return replace(self, image=(*self.image[:2], 1, self.image[3]), kernel=(1, self.kernel[1]), one_row=True)

    @property
    def pads(self) -> Pair:
        """On each side of rows, and of columns."""
        return (0 if self.one_row else self.padding, self.padding)

    def convolved(self) -> Pair:
        """Height and width of the result."""
        dimensions = zip(self.image[2:], self.pads, self.kernel, strict=True)
        rows, columns = ((n + 2 * p - self.dilation * (k - 1) - 1) // self.stride + 1 for n, p, k in dimensions)
        return rows, columns

    def spread(self) -> Pair:
        """Height and width of the transposed convolution's result, before padding is cut off."""
        more = (0 if self.one_row else self.output_padding, self.output_padding)
        dimensions = zip(self.image[2:], more, self.kernel, strict=True)
        rows, columns = ((n - 1) * self.stride + self.dilation * (k - 1) + 1 + o for n, o, k in dimensions)
        return rows, columns

    @property
    def can_be_transposed(self) -> bool:
        """Whether cutting the padding off leaves anything."""
        return all(size > 2 * pad for size, pad in zip(self.spread(), self.pads, strict=True))


def random_cases(seed: int, number: int, out_channels: int = 10) -> Iterator[Case]:
    """Small images, of which some are smaller than their kernels."""
    random = np.random.default_rng(seed)
    for _ in range(number):
        kernel = (int(random.integers(1, 5)), int(random.integers(1, 5)))
        stride, padding, dilation = (int(n) for n in random.integers((1, 0, 1), (4, 4, 4)))
        height, width = (max(dilation * (k - 1) + 1 - 2 * padding, 1) + int(random.integers(0, 9)) for k in kernel)
        image = (int(random.integers(1, 4)), int(random.integers(1, 6)), height, width)
        more = int(random.integers(0, max(stride, dilation)))
        yield Case(image, int(random.integers(1, out_channels)), kernel, stride, padding, dilation, more)


def convolved(x: Array, w: Array, case: Case) -> Array:
    """The sum over channels and taps, in the arrays' type; padding is zero, and multiplied."""
    padded = np.pad(x, ((0, 0), (0, 0), (case.pads[0],) * 2, (case.pads[1],) * 2))
    rows, columns = case.convolved()
    total = np.zeros((x.shape[0], w.shape[0], rows, columns), x.dtype)
    for m, n in np.ndindex(case.kernel):
        part = padded[:, :, m * case.dilation :: case.stride, n * case.dilation :: case.stride][:, :, :rows, :columns]
        total += (w[None, :, :, m, n, None, None] * part[:, None]).sum(axis=2)
    return total


def spread(x: Array, w: Array, case: Case) -> Array:
    """The transposed convolution: each input added to all results that it reaches."""
    sizes, (above, left) = case.spread(), case.pads
    total = np.zeros((x.shape[0], w.shape[1], *sizes), x.dtype)
    for m, n in np.ndindex(case.kernel):
        reached = total[:, :, m * case.dilation :: case.stride, n * case.dilation :: case.stride]
        reached[:, :, : x.shape[2], : x.shape[3]] += (x[:, :, None] * w[None, :, :, m, n, None, None]).sum(axis=1)
    return total[:, :, above : sizes[0] - above, left : sizes[1] - left]


def _check(result: Array, element: DType, x: Array, w: Array, reference: Reference, case: Case) -> None:
    """Exact for integers; else within an error of f32 or f64 for each addition, and one rounding to the type."""
    summed_in = np.int64 if element.kind is Kind.INTEGER else np.longdouble
    expected = reference(x.astype(summed_in), w.astype(summed_in), case)
    if element.kind is Kind.INTEGER:
        np.testing.assert_array_equal(result, expected.astype(numpy_type(element)), err_msg=str(case))
        return
    magnitudes = reference(np.abs(x.astype(summed_in)), np.abs(w.astype(summed_in)), case)
    summands = x.shape[1] * case.kernel[0] * case.kernel[1]
    bound = (summands + 1) * unit(dtype(element.wide)) * magnitudes + unit(element) * np.abs(expected)
    if element.name == "f8e4m3":
        expected, bound = np.clip(expected, -448, 448), bound + SMALLEST["f8e4m3"]
    assert_within(result, expected, bound + SMALLEST.get(element.name, 0.0))


SMALLEST = {"f8e4m3": 2.0**-9, "f16": 2.0**-24}
"""Subnormal numbers of the types that have so few exponents that results come near to them."""


def _run(
    kernels: Kernels,
    element: DType,
    cases: Iterable[Case],
    op: Callable[..., Tensor],
    reference: Reference,
    **chosen: bool | None,
) -> None:
    """`op` on every case, with operands in all kinds of views."""
    for seed, case in enumerate(cases):
        image: tuple[int, ...] = case.image
        channels = (case.image[1], case.out_channels) if reference is spread else (case.out_channels, case.image[1])
        kernel: tuple[int, ...] = (*channels, *case.kernel)
        if case.one_row:
            image, kernel = (*image[:2], image[3]), (*channels, case.kernel[1])
        x, values = image_views(image)[seed % 4].make(kernels.device, element, seed, special=False)
        w, weights = image_views(kernel)[seed // 4 % 3].make(kernels.device, element, seed + 1, special=False)
        options: dict[str, Any] = {"stride": case.stride, "padding": case.padding, "dilation": case.dilation, **chosen}
        if reference is spread:
            options["output_padding"] = case.output_padding
        result = op(kernels, x, w, **options).numpy()
        if case.one_row:
            result, values, weights = result[:, :, None], values[:, :, None], weights[:, :, None]
        _check(result, element, values, weights, reference, case)


FEW = (Case((1, 1, 1, 1), 1, (1, 1)), Case((0, 2, 3, 3), 3, (2, 2)), Case((2, 2, 17, 19), 5, (3, 3), padding=1))
"""One pixel, none, several blocks."""


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_conv2d(kernels: Kernels, element: DType) -> None:
    _run(kernels, element, [*FEW, *random_cases(element.size, 5)], conv2d, convolved, tiled=False)


@pytest.mark.parametrize("element", TILED, ids=str)
def test_conv2d_tiled(kernels: Kernels, element: DType) -> None:
    large = (Case((2, 5, 11, 12), 67, (3, 3), padding=1), Case((1, 33, 3, 3), 64, (1, 1)))
    _run(kernels, element, [*FEW, *large, *random_cases(element.size, 6, 90)], conv2d, convolved, tiled=True)


@pytest.mark.parametrize("element", [dtype("f16"), dtype("f32")], ids=str)
@pytest.mark.parametrize("tiled", [False, True, None], ids=["direct", "tiled", "chosen"])
def test_conv1d(kernels: Kernels, element: DType, tiled: bool | None) -> None:  # noqa: FBT001 # pytest passes it
    cases = [case.as_row() for case in random_cases(11, 8, 30)]
    _run(kernels, element, cases, conv1d, convolved, tiled=tiled)


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_conv_transpose2d(kernels: Kernels, element: DType) -> None:
    cases = [
        *FEW,
        Case((1, 2, 5, 6), 3, (4, 4), stride=2, padding=1, output_padding=1),
        Case((1, 2, 5, 4), 5, (3, 2), stride=4, dilation=6, padding=2),
        Case((2, 3, 9, 10), 4, (2, 2), stride=2),
        *(case for case in random_cases(element.size + 20, 7) if case.can_be_transposed),
    ]
    _run(kernels, element, cases, conv_transpose2d, spread)


@pytest.mark.parametrize("element", [dtype("i32"), dtype("bf16"), dtype("f64")], ids=str)
def test_conv_transpose1d(kernels: Kernels, element: DType) -> None:
    cases = [row for row in (case.as_row() for case in random_cases(5, 12)) if row.can_be_transposed]
    assert len(cases) > 6
    _run(kernels, element, cases, conv_transpose1d, spread)


@pytest.mark.parametrize("tiled", [False, True], ids=["direct", "tiled"])
def test_padding_meets_infinite_weights(kernels: Kernels, tiled: bool) -> None:  # noqa: FBT001 # pytest passes it
    """As a zero in conv2d, so NaN; conv_transpose2d never looks there."""
    x = Tensor.from_numpy(kernels.device, np.ones((1, 1, 2, 2), np.float32))
    weights = np.ones((1, 1, 3, 3), np.float32)
    weights[0, 0, 0, 0] = np.inf
    w = Tensor.from_numpy(kernels.device, weights)
    got = conv2d(kernels, x, w, padding=1, tiled=tiled).numpy()
    np.testing.assert_array_equal(got[0, 0], [[np.nan, np.nan], [np.nan, np.inf]])
    got = conv_transpose2d(kernels, x, w).numpy()
    np.testing.assert_array_equal(
        got[0, 0], [[np.inf, np.inf, 2, 1], [np.inf, np.inf, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    )


def test_a_result_of_2_31_pixels_is_refused() -> None:
    x = Tensor(Mock(), Buffer(1 << 40, 0), dtype("u8"), View.contiguous((1, 1, 50_000, 50_000)))
    w = Tensor(Mock(), Buffer(1 << 40, 0), dtype("u8"), View.contiguous((1, 1, 1, 1)))
    options = {"padding": (0, 0), "stride": 1, "dilation": 1, "tiled": None}
    with pytest.raises(ValueError, match="is too large"):
        plan(
            "conv", {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 48}, None, x=x, w=w, y=x, **options
        )


@pytest.mark.parametrize("limit", [1, 45, 100])
def test_launches_are_cut_into_images(kernels: Kernels, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    element = dtype("f64")
    x = Tensor.from_numpy(kernels.device, values := random_values(element, (5, 2, 4, 9), 1, special=False))
    w = Tensor.from_numpy(kernels.device, weights := random_values(element, (9, 2, 1, 1), 2, special=False))
    y = Tensor.empty(kernels.device, (5, 9, 4, 9), element)
    monkeypatch.setitem(kernels.limits, "elements", limit)
    options = {"padding": (0, 0), "stride": 1, "dilation": 1}
    for tiled in (False, True):
        launches = [launch for _, launch in kernels.plan("conv", x=x, w=w, y=y, tiled=tiled, **options)]
        assert len(launches) == -(-5 // max(limit // 36, 1))
        kernels.launch("conv", launches if tiled else with_few_blocks(launches))
        _check(y.numpy(), element, values, weights, convolved, Case((5, 2, 4, 9), 9, (1, 1)))
