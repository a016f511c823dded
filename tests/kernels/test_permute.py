"""Transposes and permutes through LDS tiles: every shape of tile, whole and broken packs, any batch."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.hip import Buffer, Launch
from codegen.device.kernels import pointer, u32
from codegen.device.ops.binary import binary
from codegen.device.ops.copy import contiguous, copy_into
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype, expand
from codegen.kernels.layout import View
from kernels.cases import random_values
from kernels.compare import assert_moved
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.hip import Module
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

SIZES = tuple(dtype(name) for name in ("f8e4m3", "f16", "u32", "f64"))
"""One element type of each size."""

MATRICES = [
    (64, 64),
    (97, 97),
    (128, 192),
    (136, 72),
    (67, 129),
    (200, 1000),
    (4000, 3),
    (6, 4000),
    (512, 8),
    (12, 1500),
    (9, 2000),
    (130, 195),
]
"""Multiples of a tile, of packs, odd, wide, tall, so small in one dimension that tiles take another shape, and cut into
tiles that are no powers of two."""

PERMUTES = [
    # shape, order of its dimensions: attention's keys, images to and from channels last, all dimensions reversed
    ((2, 40, 3, 32), (0, 2, 3, 1)),
    ((2, 14, 13, 24), (0, 3, 1, 2)),
    ((2, 24, 7, 26), (0, 2, 3, 1)),
    ((5, 6, 7, 33), (3, 2, 1, 0)),
    ((2, 3, 2, 16, 18), (1, 0, 4, 2, 3)),
]


@pytest.fixture
def few_tiles(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles for small views, too."""
    monkeypatch.setitem(kernels.limits, "least_tiles", 1)


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize("element", SIZES, ids=str)
def test_transpose(kernels: Kernels, element: DType) -> None:
    for shape in MATRICES:
        values = random_values(element, shape)
        x = Tensor.from_numpy(kernels.device, values, element).transpose(1, 0)
        _check(kernels, x, values.T)


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize("element", SIZES, ids=str)
def test_permute(kernels: Kernels, element: DType) -> None:
    for shape, order in PERMUTES:
        values = random_values(element, shape)
        x = Tensor.from_numpy(kernels.device, values, element).transpose(*order)
        assert_moved(contiguous(kernels, x), values.transpose(order))


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize("element", SIZES, ids=str)
def test_part_of_a_matrix(kernels: Kernels, element: DType) -> None:
    """Offsets and distances of rows that are no multiples of packs, on either side."""
    values = random_values(element, (150, 165))
    whole = Tensor.from_numpy(kernels.device, values, element)
    for rows, columns in [(slice(0, 150), slice(1, 129)), (slice(3, 131), slice(0, 64)), (slice(5, 140), slice(7, 98))]:
        x = whole.narrow(0, rows.start, rows.stop - rows.start).narrow(1, columns.start, columns.stop - columns.start)
        _check(kernels, x.transpose(1, 0), values[rows, columns].T)


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize("element", SIZES, ids=str)
def test_into_the_middle_of_a_buffer(kernels: Kernels, element: DType) -> None:
    values = random_values(element, (72, 136))
    x = Tensor.from_numpy(kernels.device, values, element).transpose(1, 0)
    for offset in (1, 2, 8):
        expected = random_values(element, (values.size + 19,), seed=1)
        y = Tensor.from_numpy(kernels.device, expected, element)
        with launched(kernels) as symbols:
            copy_into(kernels, x, y, offset)
        assert {symbol.split("_")[0] for symbol in symbols} == {"permute"}
        expected[offset : offset + values.size] = values.T.reshape(-1)
        assert_moved(y, expected)


@pytest.mark.usefixtures("few_tiles")
def test_column_repeated_along_rows(kernels: Kernels) -> None:
    """A dimension of stride 0 is as good as any other."""
    values = random_values(dtype("f32"), (130, 1))
    x = Tensor.from_numpy(kernels.device, values).broadcast(130, 96)
    _check(kernels, x, np.broadcast_to(values, (130, 96)))


@pytest.mark.usefixtures("few_tiles")
def test_pairs_move_as_one_element(kernels: Kernels) -> None:
    """Where some elements stay together, tiles are of wider elements: all widths are launched."""
    with launched(kernels) as symbols:
        for element, together in [("u8", 1), ("u8", 2), ("i16", 2), ("f32", 2), ("f32", 4), ("f64", 2)]:
            values = random_values(dtype(element), (128, 96, together))
            x = Tensor.from_numpy(kernels.device, values, dtype(element)).transpose(1, 0, 2)
            assert_moved(contiguous(kernels, x), values.transpose(1, 0, 2))
    assert symbols == {f"permute_{width}" for width in expand(("packed-bits",))}


@pytest.mark.usefixtures("few_tiles")
def test_few_blocks_for_many_tiles(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that moves several tiles, one after the other, does not mix them up."""
    monkeypatch.setitem(kernels.limits, "blocks", 2)
    for shape in [(300, 200), (5, 70, 66)]:
        values = random_values(dtype("f32"), shape)
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        x = Tensor.from_numpy(kernels.device, values).transpose(*order)
        _check(kernels, x, values.transpose(order))


@pytest.mark.parametrize("element", SIZES, ids=str)
def test_views_of_few_tiles_go_element_by_element(kernels: Kernels, element: DType) -> None:
    """Few tiles would leave most of the card idle; the largest view that is copied so, and the smallest that is not."""
    numbers = kernels.numbers("permute")
    side = numbers[f"pack_b{8 * element.size}"] * math.isqrt(numbers["block"])
    for tiles, family in [(numbers["least_tiles"] - 1, "copy"), (numbers["least_tiles"], "permute")]:
        values = random_values(element, (side, tiles * side))
        with launched(kernels) as symbols:
            assert_moved(
                contiguous(kernels, Tensor.from_numpy(kernels.device, values, element).transpose(1, 0)), values.T
            )
        assert {symbol.split("_")[0] for symbol in symbols} == {family}
    for shape, order in PERMUTES:
        values = random_values(element, shape)
        x = Tensor.from_numpy(kernels.device, values, element).transpose(*order)
        assert_moved(contiguous(kernels, x), values.transpose(order))


def test_short_rows_go_element_by_element(kernels: Kernels) -> None:
    """Threads that take neighbouring results of such rows read neighbours of every row of the view, too."""
    narrow = kernels.numbers("permute")["narrow"]
    for columns, family in [(narrow, "copy"), (narrow + 1, "permute")]:
        values = random_values(dtype("f32"), (columns, 70_000))
        with launched(kernels) as symbols:
            assert_moved(contiguous(kernels, Tensor.from_numpy(kernels.device, values).transpose(1, 0)), values.T)
        assert {symbol.split("_")[0] for symbol in symbols} == {family}


def test_transposed_operands_of_other_operations_are_made_contiguous(kernels: Kernels) -> None:
    numbers = kernels.numbers("permute")
    rows = numbers["turned_row"]
    columns = -(-numbers["turned_least"] // (4 * rows))
    for shape, expected in [
        ((rows, columns), {"permute_b32", "minimum_f32"}),
        ((rows, columns - 1), {"minimum_f32"}),
        ((rows - 1, columns + 30), {"minimum_f32"}),
    ]:
        a, b = (random_values(dtype("f32"), shape, seed, special=False) for seed in (1, 2))
        turned = Tensor.from_numpy(kernels.device, a).transpose(1, 0)
        other = Tensor.from_numpy(kernels.device, np.ascontiguousarray(b.T))
        for operands in ((turned, other), (other, turned)):
            with launched(kernels) as symbols:
                assert_moved(binary(kernels, "minimum", *operands), np.minimum(a, b).T)
            assert symbols == expected


PROBE = """
namespace candle {
CANDLE_KERNEL(64) probe(i64 *places, const u32 *numbers, u32 count, Tiles tiles) {
  const u32 i = thread_in_grid();
  if (i >= count) return;
  const Tile<b8> tile = tile_at<b8>(tiles, numbers[i], nullptr, nullptr);
  places[2 * i] = i64(reinterpret_cast<u64>(tile.x));
  places[2 * i + 1] = i64(reinterpret_cast<u64>(tile.y));
}
}
"""


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize(
    "view",
    [View((120_000, 70_000), (1, 120_000)), View((3, 500, 64), (1 << 33, 1, (1 << 32) + 8))],
    ids=["8.4e9 elements", "rows 4Gi apart"],
)
def test_places_beyond_4gi_elements(kernels: Kernels, view: View) -> None:
    """Tiles of a view too large for any memory here begin where 64-bit arithmetic puts them."""
    module = _probe_module(kernels)
    base, seen = 1 << 44, 0
    x = Tensor(kernels.device, Buffer(base, 0), dtype("u8"), view)
    y = Tensor(kernels.device, Buffer(2 * base, 0), dtype("u8"), View.contiguous(view.shape))
    for family, launch in kernels.plan("contiguous", x=x, y=y):
        assert family == "permute"
        to, start, tiles = launch.arguments
        offset, first = struct.unpack("<Q", start)[0] - base, struct.unpack("<Q", to)[0] - 2 * base
        numbers = np.unique(np.linspace(0, struct.unpack_from("<I", tiles)[0] - 1, 200).astype(np.uint32))
        for from_x, from_y in _probed(kernels, module, tiles, numbers):
            indices = np.unravel_index(first + from_y, view.shape)
            expected = sum(i * stride for i, stride in zip(indices, view.strides, strict=True))
            assert offset + from_x == expected
            seen = max(seen, int(expected))
    assert seen > 1 << 32


def _probe_module(kernels: Kernels) -> Module:
    return kernels.compiled("probe.hip", kernels.sources.family("permute").text + PROBE)


def _probed(kernels: Kernels, module: Module, tiles: bytes, numbers: Array) -> list[tuple[int, int]]:
    """Offsets in x and y of the tiles with these numbers; tiles are of bytes."""
    given = kernels.device.upload(numbers.tobytes())
    places = kernels.device.allocate(16 * len(numbers))
    arguments = (pointer(places.address), pointer(given.address), u32(len(numbers)), tiles)
    module.launch(Launch("probe", (-(-len(numbers) // 64), 1, 1), (64, 1, 1), arguments))
    found = np.frombuffer(kernels.device.download(places), np.int64).reshape(-1, 2)
    return [(int(x), int(y)) for x, y in found]


def _check(kernels: Kernels, x: Tensor, expected: Array) -> None:
    with launched(kernels) as symbols:
        assert_moved(contiguous(kernels, x), expected)
    assert {symbol.split("_")[0] for symbol in symbols} == {"permute"}
