"""Convolution kernels against sums over taps in numpy's widest types."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
from some import some

from codegen.device.hip import Buffer
from codegen.device.ops import conv
from codegen.device.ops.conv import conv1d, conv2d, conv_transpose1d, conv_transpose2d
from codegen.device.planner import plan
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, Kind, dtype
from codegen.kernels.layout import View
from codegen.kernels.loader import load_families
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

TILES = [
    (f"{kernel.op.name}_{kernel.variant.name}", kernel.type)
    for family in load_families()
    if family.name == "conv"
    for kernel in family.kernels
    if kernel.variant.constants
]
"""Kernels with tiles, and the types that they are made for."""


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
    **chosen: str | int | None,
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


LARGE = (Case((2, 5, 11, 12), 67, (3, 3), padding=1), Case((1, 33, 3, 3), 129, (1, 1)))
"""Several tiles of channels, and one of pixels."""
LONG = (
    Case((2, 19, 6, 7), 5, (5, 6), padding=3),
    Case((3, 70, 2, 5), 20, (2, 3), padding=1, dilation=2),
    Case((1, 24, 5, 9), 17, (3, 3), stride=2),
)
"""Sums of many terms; of the last, the weights of a channel are whole packs."""


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_conv2d(kernels: Kernels, element: DType) -> None:
    _run(kernels, element, [*FEW, *random_cases(element.size, 5)], conv2d, convolved, form="conv2d")


@pytest.mark.parametrize(("form", "element"), TILES, ids=str)
def test_conv2d_by_tiles(kernels: Kernels, form: str, element: DType) -> None:
    _run(kernels, element, [*FEW, *LARGE, *random_cases(element.size, 6, 90)], conv2d, convolved, form=form, parts=1)


@pytest.mark.parametrize(("form", "element"), TILES, ids=str)
def test_sums_in_parts(kernels: Kernels, form: str, element: DType) -> None:
    """In so few that a thread adds them up, and in more."""
    for parts in (3, 100):
        _run(kernels, element, LONG, conv2d, convolved, form=form, parts=parts)


def test_images_are_packed_in_several_turns(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case((5, 9, 6, 7), 70, (3, 3), padding=1)
    monkeypatch.setitem(kernels.limits, "elements", 2 * 6 * 7)
    for form, name in (("conv2d_matrix_packed_64", "f16"), ("conv2d_tiled_packed_64", "f32")):
        _run(kernels, dtype(name), [case], conv2d, convolved, form=form)


@pytest.mark.parametrize("element", [dtype("f16"), dtype("f32"), dtype("i32")], ids=str)
@pytest.mark.parametrize(
    ("groups", "inputs", "channels"), [(12, 1, 1), (9, 2, 3), (3, 2, 5), (2, 1, 4), (2, 40, 33), (9, 1, 17)], ids=str
)
def test_groups(kernels: Kernels, element: DType, groups: int, inputs: int, channels: int) -> None:
    """Of one channel each, and of several: all in one launch, or large ones on their own."""
    case = Case((3, inputs, 7, 8), channels, (3, 2), padding=1)
    image, kernel = (3, groups * inputs, 7, 8), (groups * channels, inputs, 3, 2)
    x, values = image_views(image)[1].make(kernels.device, element, 1, special=False)
    w, weights = image_views(kernel)[2].make(kernels.device, element, 2, special=False)
    found = np.split(conv2d(kernels, x, w, padding=1).numpy(), groups, axis=1)
    of_x, of_w = np.split(values, groups, axis=1), np.split(weights, groups, axis=0)
    for result, own, kernel_of_own in zip(some(found), of_x, of_w, strict=True):
        _check(result, element, own, kernel_of_own, convolved, case)


@pytest.mark.parametrize(
    ("groups", "inputs", "channels", "forms"),
    [
        (4096, 1, 5, ["conv2d_tiled_f32_16"]),
        (4097, 1, 5, ["conv2d_f32"]),
        (2, 1, 4, ["conv2d_f32"]),
        # Long sums of 256 results for each of so many groups, which are less than 16 blocks of 256 have.
        (15, 32, 4, ["conv2d_tiled_f32_16"]),
        (16, 32, 4, ["conv2d_f32"]),
        (2, 64, 5, ["conv2d_tiled_f32_16", "conv2d_sum_f32"]),
    ],
)
def test_groups_share_a_launch(groups: int, inputs: int, channels: int, forms: list[str]) -> None:
    device = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 8, "launch_time": 0}
    shapes = ((1, groups * inputs, 17, 17), (groups * channels, inputs, 2, 2), (1, groups * channels, 16, 16))
    of = [Tensor(Mock(), Buffer(1 << 40, 0), dtype("f32"), View.contiguous(shape)) for shape in shapes]
    made = plan("conv", device, None, x=of[0], w=of[1], y=of[2], padding=(0, 0), stride=1, dilation=1)
    assert [launch.symbol for _, launch in made] == forms


@pytest.mark.parametrize("element", [dtype("f16"), dtype("f32"), dtype("i32")], ids=str)
def test_sizes_decide(kernels: Kernels, element: DType) -> None:
    _run(kernels, element, [*FEW, *LARGE, *LONG], conv2d, convolved)


@pytest.mark.parametrize(
    ("channels", "image", "multiprocessors", "forms"),
    [
        # Few results of long sums, few of short ones, and many.
        (4, (1, 128, 9, 9), 8, {"f32": ("conv2d_tiled_f32_16", 1), "f16": ("conv2d_matrix_f16_16", 1)}),
        (4, (1, 127, 9, 9), 8, {"f32": ("conv2d_f32", 1), "f16": ("conv2d_f16", 1)}),
        (4, (64, 128, 8, 8), 8, {"f32": ("conv2d_f32", 1), "i32": ("conv2d_i32", 1)}),
        # As many blocks as fill the card, of no less than 128 terms.
        (5, (1, 1000, 9, 9), 8, {"f32": ("conv2d_tiled_f32_16", 7), "f16": ("conv2d_matrix_f16_16", 7)}),
        (5, (1, 10000, 9, 9), 8, {"f32": ("conv2d_tiled_f32_16", 14), "i32": ("conv2d_i32", 1)}),
        (65, (1, 10000, 9, 9), 8, {"f32": ("conv2d_tiled_f32_32", 5), "f16": ("conv2d_matrix_f16_128", 14)}),
        (97, (1, 10000, 9, 9), 8, {"f32": ("conv2d_tiled_f32_64", 7)}),
        # Blocks of 32 channels fill the card, or do not.
        (17, (1, 2048, 9, 9), 8, {"f32": ("conv2d_tiled_f32_32", 13)}),
        (17, (1, 2047, 9, 9), 8, {"f32": ("conv2d_tiled_f32_16", 7)}),
        (96, (1, 2047, 9, 9), 8, {"f32": ("conv2d_tiled_f32_64", 7)}),
        (33, (1, 1, 9, 9), 8, {"f32": ("conv2d_tiled_f32_64", 1), "f16": ("conv2d_matrix_f16_64", 1)}),
        (32, (1, 1, 9, 9), 8, {"f32": ("conv2d_tiled_f32_16", 1), "f16": ("conv2d_matrix_f16_64", 1)}),
        (129, (1, 1, 9, 9), 8, {"f16": ("conv2d_matrix_f16_64", 1), "f64": ("conv2d_tiled_f64_64", 1)}),
        (193, (1, 1, 9, 9), 8, {"bf16": ("conv2d_matrix_bf16_128", 1)}),
    ],
)
def test_the_form_that_pays(
    channels: int, image: tuple[int, int, int, int], multiprocessors: int, forms: dict[str, tuple[str, int]]
) -> None:
    """Kernels and parts of a sum, as if launches cost nothing."""
    device = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": multiprocessors, "launch_time": 0}
    for name, (kernel, parts) in some(forms.items()):
        of = [
            Tensor(Mock(), Buffer(1 << 40, 0), dtype(name), View.contiguous(shape))
            for shape in (image, (channels, image[1], 1, 1), (image[0], channels, *image[2:]))
        ]
        options = {"padding": (0, 0), "stride": 1, "dilation": 1}
        (_, first), *others = plan("conv", device, None, x=of[0], w=of[1], y=of[2], **options)
        assert (first.symbol, first.grid[2]) == (kernel, parts), name
        assert [launch.symbol for _, launch in others] == ([f"conv2d_sum_{name}"] if parts > 1 else [])


@pytest.mark.parametrize(
    ("inputs", "pixels", "stride", "tiles"),
    [
        # 270 ns for each channel and its term, or 1500 for as many threads as 8 processors hold; 6 us for the launch of
        # all phases.
        (22, 10, 1, False),
        (23, 10, 1, True),
        (20, 38 * 38, 1, False),
        (20, 39 * 39, 1, True),
        (22, 10, 2, False),
        (23, 10, 2, True),
        (22, 10, 3, False),
        (23, 10, 3, True),
    ],
)
def test_launches_are_worth_their_time(inputs: int, pixels: int, stride: int, tiles: bool) -> None:  # noqa: FBT001 # pytest passes it
    device = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 8}
    side = math.isqrt(pixels)
    shapes = ((1, inputs, side, side), (inputs, 5, stride, stride), (1, 5, side * stride, side * stride))
    of = [Tensor(Mock(), Buffer(1 << 40, 0), dtype("f32"), View.contiguous(shape)) for shape in shapes]
    paddings = {"padding": (0, 0), "output_padding": (0, 0)}
    made = plan("conv_transpose", device, None, x=of[0], w=of[1], y=of[2], stride=stride, dilation=1, **paddings)
    assert (made[0][1].symbol == "conv2d_tiled_f32_16") == tiles


@pytest.mark.parametrize(
    ("image", "channels", "taps", "launches"),
    [
        ((2, 64, 60, 60), 64, 3, ["conv2d_matrix_f16_64"]),  # 248 million products
        ((3, 64, 60, 60), 64, 3, ["conv2d_pack_b16", "conv2d_pack_b16", "conv2d_matrix_packed_f16_64"]),
        ((30, 6, 60, 60), 64, 3, ["conv2d_pack_b16", "conv2d_pack_b16", "conv2d_matrix_packed_f16_64"]),
        ((30, 5, 60, 60), 64, 3, ["conv2d_matrix_f16_64"]),  # packs of eight are mostly full, or not
        ((90, 64, 60, 60), 384, 1, ["conv2d_matrix_f16_128"]),
        ((90, 64, 60, 60), 385, 1, ["conv2d_pack_b16", "conv2d_pack_b16", "conv2d_matrix_packed_f16_128"]),
        # Of images of 3.4 MB, 77 have room at a time.
        ((79, 64, 164, 164), 64, 2, ["conv2d_pack_b16", *["conv2d_pack_b16", "conv2d_matrix_packed_f16_64"] * 2]),
    ],
)
def test_packing_pays(image: tuple[int, int, int, int], channels: int, taps: int, launches: list[str]) -> None:
    device = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 8}
    results = [size - taps + 1 for size in image[2:]]
    shapes = (image, (channels, image[1], taps, taps), (image[0], channels, *results))
    of = [Tensor(Mock(), Buffer(1 << 40, 0), dtype("f16"), View.contiguous(shape)) for shape in shapes]
    made = plan("conv", device, None, x=of[0], w=of[1], y=of[2], padding=(0, 0), stride=1, dilation=1)
    assert [launch.symbol for _, launch in made] == launches


@pytest.mark.parametrize("element", [dtype("f16"), dtype("f32")], ids=str)
@pytest.mark.parametrize("form", ["conv2d", "conv2d_tiled_16", None], ids=str)
def test_conv1d(kernels: Kernels, element: DType, form: str | None) -> None:
    cases = [case.as_row() for case in random_cases(11, 8, 30)]
    _run(kernels, element, cases, conv1d, convolved, form=form)


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_conv_transpose2d(kernels: Kernels, element: DType) -> None:
    cases = [
        *FEW,
        Case((1, 2, 5, 6), 3, (4, 4), stride=2, padding=1, output_padding=1),
        Case((1, 2, 5, 4), 5, (3, 2), stride=4, dilation=6, padding=2),
        Case((2, 3, 9, 10), 4, (2, 2), stride=2),
        *(case for case in random_cases(element.size + 20, 7) if case.can_be_transposed),
    ]
    _run(kernels, element, cases, conv_transpose2d, spread, form="conv2d")


@pytest.mark.parametrize(("form", "element"), TILES, ids=str)
def test_conv_transpose2d_by_tiles(kernels: Kernels, form: str, element: DType) -> None:
    """Phases with different taps, with none (a stride that is longer than the kernel), and beyond the image."""
    cases = [
        *FEW,
        Case((1, 2, 5, 6), 3, (4, 4), stride=2, padding=1, output_padding=1),
        Case((2, 3, 5, 4), 5, (3, 2), stride=4, dilation=6, padding=2),
        Case((2, 3, 9, 10), 70, (2, 2), stride=3, output_padding=2),
        Case((1, 30, 4, 5), 20, (3, 3), padding=2),
        Case((1, 3, 4, 5), 6, (1, 1), padding=1),
        *(case for case in random_cases(element.size + 20, 5, 40) if case.can_be_transposed),
    ]
    _run(kernels, element, cases, conv_transpose2d, spread, form=form)


@pytest.mark.parametrize(("form", "element"), [tile for tile in TILES if tile[1].name in ("f16", "f32")], ids=str)
def test_phases_in_parts(kernels: Kernels, form: str, element: DType) -> None:
    """Phases of four, two and one tap in a launch, of which the shorter ones have no terms in the last parts; and more
    phases than a launch has."""
    cases = [
        Case((2, 19, 6, 7), 21, (3, 3), stride=2, padding=1, output_padding=1),
        Case((1, 17, 5, 4), 9, (7, 6), stride=5, output_padding=1),
    ]
    for parts in (3, 20):
        _run(kernels, element, cases, conv_transpose2d, spread, form=form, parts=parts)


@pytest.mark.parametrize(("form", "element"), [tile for tile in TILES if tile[1].name != "f64"], ids=str)
def test_groups_in_parts(kernels: Kernels, form: str, element: DType) -> None:
    case = Case((2, 40, 5, 6), 7, (3, 2), padding=1)
    x, values = image_views((2, 200, 5, 6))[0].make(kernels.device, element, 1, special=False)
    w, weights = image_views((35, 40, 3, 2))[0].make(kernels.device, element, 2, special=False)
    found = np.split(conv2d(kernels, x, w, padding=1, form=form, parts=3).numpy(), 5, axis=1)
    of_x, of_w = np.split(values, 5, axis=1), np.split(weights, 5, axis=0)
    for result, own, kernel_of_own in zip(some(found), of_x, of_w, strict=True):
        _check(result, element, own, kernel_of_own, convolved, case)


@pytest.mark.parametrize("form", ["conv2d", None], ids=str)
@pytest.mark.parametrize("element", [dtype("i32"), dtype("bf16"), dtype("f64")], ids=str)
def test_conv_transpose1d(kernels: Kernels, element: DType, form: str | None) -> None:
    cases = [row for row in (case.as_row() for case in random_cases(5, 12)) if row.can_be_transposed]
    assert len(cases) > 6
    _run(kernels, element, cases, conv_transpose1d, spread, form=form)


@pytest.mark.parametrize(
    ("channels", "stride", "shape", "launches"),
    [
        (5, 1, (1, 3, 8, 8), ["conv2d_tiled_f32_16"]),
        (4, 1, (1, 3, 8, 8), ["conv_transpose2d_f32"]),
        (4, 1, (1, 128, 8, 8), ["conv2d_tiled_f32_16", "conv2d_sum_f32"]),
        (5, 4, (1, 3, 8, 8), ["conv2d_tiled_f32_16"]),
        (5, 5, (1, 3, 8, 8), ["conv_transpose2d_f32"]),
        # A row has one phase, whatever the stride.
        (5, 16, (1, 3, 8), ["conv2d_tiled_f32_16"]),
        (5, 17, (1, 3, 8), ["conv_transpose2d_f32"]),
    ],
)
def test_phases_of_transposed_convolutions(
    channels: int, stride: int, shape: tuple[int, ...], launches: list[str]
) -> None:
    taps = 2 * stride
    results = [conv.transposed_size(size, taps, stride, 0, 0, 1) for size in shape[2:]]
    of = [
        Tensor(Mock(), Buffer(1 << 40, 0), dtype("f32"), View.contiguous(shape_of))
        for shape_of in (shape, (shape[1], channels, *[taps] * len(results)), (1, channels, *results))
    ]
    paddings = {"padding": (0, 0), "output_padding": (0, 0)}
    device = {"architecture": "gfx1100", "wave_size": 32, "multiprocessors": 8, "launch_time": 0}
    made = plan("conv_transpose", device, None, x=of[0], w=of[1], y=of[2], stride=stride, dilation=1, **paddings)
    assert [launch.symbol for _, launch in made] == launches


@pytest.mark.parametrize("form", ["conv2d", "conv2d_tiled_16", "conv2d_tiled_64"])
def test_padding_meets_infinite_weights(kernels: Kernels, form: str) -> None:
    """As a zero in conv2d, so NaN; conv_transpose2d of few channels never looks there."""
    x = Tensor.from_numpy(kernels.device, np.ones((1, 1, 2, 2), np.float32))
    weights = np.ones((1, 1, 3, 3), np.float32)
    weights[0, 0, 0, 0] = np.inf
    w = Tensor.from_numpy(kernels.device, weights)
    got = conv2d(kernels, x, w, padding=1, form=form).numpy()
    np.testing.assert_array_equal(got[0, 0], [[np.nan, np.nan], [np.nan, np.inf]])
    got = conv_transpose2d(kernels, x, w).numpy()
    np.testing.assert_array_equal(
        got[0, 0], [[np.inf, np.inf, 2, 1], [np.inf, np.inf, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    )


def test_a_result_of_2_31_pixels_is_refused() -> None:
    x = Tensor(Mock(), Buffer(1 << 40, 0), dtype("u8"), View.contiguous((1, 1, 50_000, 50_000)))
    w = Tensor(Mock(), Buffer(1 << 40, 0), dtype("u8"), View.contiguous((1, 1, 1, 1)))
    options = {"padding": (0, 0), "stride": 1, "dilation": 1}
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
    for form in ("conv2d", "conv2d_tiled_16"):
        launches = [launch for _, launch in kernels.plan("conv", x=x, w=w, y=y, form=form, **options)]
        assert len(launches) == -(-5 // max(limit // 36, 1))
        kernels.launch("conv", with_few_blocks(launches) if form == "conv2d" else launches)
        _check(y.numpy(), element, values, weights, convolved, Case((5, 2, 4, 9), 9, (1, 1)))
