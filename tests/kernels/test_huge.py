"""Index arithmetic of tensors with more than 4Gi elements, on the device and without their memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from some import some

from codegen.device.hip import Buffer, Launch
from codegen.device.kernels import pointer
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import MAX_RANK, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.device.hip import Module
    from codegen.device.kernels import Kernels

BLOCK = 64

PROBE = """
#include "candle_rocm/layout.h"

namespace candle {

// The offsets of both views at each of the given indices.
CANDLE_KERNEL(64) probe_offsets(i64 *offsets, const u32 *indices, u32 count, Layout<2> layout) {
  const u64 i = thread_in_grid();
  if (i >= count) return;
  const Offsets<2> at = offsets_at(layout, indices[i]);
  offsets[2 * i] = at.of[0];
  offsets[2 * i + 1] = at.of[1];
}

CANDLE_KERNEL(64) probe_division(u32 *quotients, const u32 *dividends, u32 count, Divisor divisor) {
  const u64 i = thread_in_grid();
  if (i < count) quotients[i] = divisor.divide(dividends[i]);
}

// A layout's fields, one after the other.
CANDLE_KERNEL(64) probe_fields(i64 *fields, Layout<3> layout) {
  if (thread_in_grid() != 0) return;
  *fields++ = layout.rank;
  *fields++ = layout.count;
  *fields++ = layout.flat;
  for (u32 d = 0; d < MAX_RANK; ++d) {
    *fields++ = layout.dims[d].size;
    *fields++ = layout.dims[d].magic;
    *fields++ = layout.dims[d].shift;
  }
  for (u32 k = 0; k < 3; ++k) {
    for (u32 d = 0; d < MAX_RANK; ++d) *fields++ = layout.strides[k][d];
  }
  *fields = sizeof(layout);
}

}  // namespace candle
"""

HUGE = {
    "middle": [View.contiguous((3, 1 << 31, 5)), View((3, 1 << 31, 5), (1 << 33, 0, 1))],
    "transposed": [View((1 << 16, 1 << 17), (1, 1 << 16)), View.contiguous((1 << 16, 1 << 17))],
    "rows": [View((7, (1 << 33) + 1), ((1 << 35), 1)), View((7, (1 << 33) + 1), (1, 0))],
    "far": [
        View((3, 5, 1 << 20, 1 << 11), (1 << 34, 1 << 40, 1 << 12, 2), 12345),
        View((3, 5, 1 << 20, 1 << 11), (0,) * 4),
    ],
    "once": [View((1 << 34,), (0,)), View.contiguous((1 << 34,))],
}
"""Pairs of views of more than 2^32 elements, with strides and offsets beyond 32 bits."""

APART = 1 << 58
"""Bytes between the made-up addresses of tensors that no kernel touches."""


@dataclass(frozen=True)
class Layout:
    """`candle::Layout` as the planner packs it, and the first element's number and offset in each view."""

    packed: bytes
    first: int = 0
    offsets: tuple[int, ...] = ()

    @property
    def shape(self) -> list[int]:
        """Innermost dimension first."""
        rank = struct.unpack_from("<I", self.packed)[0]
        return [struct.unpack_from("<I", self.packed, 12 + 12 * d)[0] for d in range(rank)]

    @property
    def count(self) -> int:
        return int(struct.unpack_from("<I", self.packed, 4)[0])


def planned(kernels: Kernels, operation: str, views: Sequence[View], **options: object) -> Iterator[Layout]:
    """The layouts of the launches for an operation on bytes in these views."""
    u8 = dtype("u8")
    tensors = [Tensor(kernels.device, Buffer(n * APART, 0), u8, view) for n, view in enumerate(views, 1)]
    y = Tensor(kernels.device, Buffer((len(views) + 1) * APART, 0), u8, View.contiguous(views[0].shape))
    names = ("condition", "on_true", "on_false") if operation == "select" else ("lhs", "rhs")
    operands = dict(zip(names, tensors, strict=True))
    for _, launch in kernels.plan(operation, y=y, **operands, **options):
        result, *starts = (struct.unpack("<Q", argument)[0] for argument in launch.arguments[: 1 + len(views)])
        offsets = tuple(start - n * APART for n, start in enumerate(starts, 1))
        yield Layout(launch.arguments[-1], result - y.address, offsets)


@pytest.fixture(scope="module")
def probe(kernels: Kernels) -> Iterator[Module]:
    """The probe kernels, with the headers that all kernels have."""
    module = kernels.compiled("probe.hip", PROBE)
    yield module
    module.unload()


def run(probe: Module, symbol: str, result: Tensor, numbers: Sequence[int], by_value: bytes) -> Tensor:
    """The result of a probe of u32 numbers."""
    given = Tensor.from_numpy(result.device, np.array(numbers, dtype=np.uint32))
    arguments = (pointer(result.address), pointer(given.address), struct.pack("<I", len(numbers)), by_value)
    probe.launch(Launch(symbol, (-(-len(numbers) // BLOCK), 1, 1), (BLOCK, 1, 1), arguments))
    return result


def chosen(layout: Layout) -> list[int]:
    """Indices at the ends, around multiples of every dimension, and a few between."""
    around = [0, layout.count - 1, layout.count // 2]
    step = 1
    for size in layout.shape:
        step *= size
        around += [step - 1, step, 3 * step + 1, layout.count // step * step - 1]
    around += [int(n) for n in np.random.default_rng(5).integers(0, layout.count, 40)]
    return sorted({index for index in around if 0 <= index < layout.count})


def element(views: Sequence[View], number: int) -> list[int]:
    """The offset in every view of the element with this number in row-major order."""
    offsets = [view.offset for view in views]
    for d in reversed(range(len(views[0].shape))):
        number, coordinate = divmod(number, views[0].shape[d])
        offsets = [offset + coordinate * view.strides[d] for offset, view in zip(offsets, views, strict=True)]
    return offsets


@pytest.mark.parametrize("name", HUGE)
def test_offsets_of_more_than_4gi_elements(kernels: Kernels, probe: Module, name: str) -> None:
    views = HUGE[name]
    pieces = list(planned(kernels, "compare", views, op="eq"))
    assert sum(piece.count for piece in pieces) == views[0].count > 1 << 32
    assert all(piece.count <= 1 << 30 for piece in pieces)
    for piece in [*pieces[:3], pieces[len(pieces) // 2], *pieces[-3:]]:
        indices = chosen(piece)
        result = Tensor.empty(kernels.device, (len(indices), 2), dtype("i64"))
        found = run(probe, "probe_offsets", result, indices, piece.packed).numpy() + np.array(piece.offsets)
        assert found.tolist() == [element(views, piece.first + index) for index in indices]


def test_division_at_extremes(kernels: Kernels, probe: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """By sizes of dimensions, of which a launch has one for this test, however long it is."""
    monkeypatch.setattr(kernels, "limits", {"elements": 1 << 31})
    ends = {n for power in range(32) for n in ((1 << power) - 1, 1 << power, (1 << power) + 1)}
    numbers = sorted(n for n in {*ends, 3, 7, 641, 6700417, 1000003} if 0 <= n < 1 << 31)
    for size in some([n for n in numbers if n > 1]):
        view = View((size,), (2,))
        [layout] = planned(kernels, "compare", [view, view], op="eq")
        assert layout.shape == [size]
        result = Tensor.empty(kernels.device, (len(numbers),), dtype("u32"))
        quotients = run(probe, "probe_division", result, numbers, layout.packed[12:24]).numpy()
        assert quotients.tolist() == [number // size for number in numbers]


def test_layouts_arrive_as_packed(kernels: Kernels, probe: Module) -> None:
    shape = (3, 5, 7)
    views = [View(shape, (1 << 40, 9, 2)), View.contiguous(shape), View(shape, (0, 1, 0))]
    [layout] = planned(kernels, "select", views)
    result = Tensor.empty(kernels.device, (3 + 3 * MAX_RANK + 3 * MAX_RANK + 1,), dtype("i64"))
    probe.launch(Launch("probe_fields", (1, 1, 1), (BLOCK, 1, 1), (pointer(result.address), layout.packed)))
    *fields, size = result.numpy().tolist()
    sent = struct.unpack(f"<{3 + 3 * MAX_RANK}I4x{3 * MAX_RANK}q", layout.packed)
    assert (fields, size) == (list(sent), len(layout.packed))
    assert fields[:3] == [3, 105, 0b10]
    assert fields[3:12:3] == [7, 5, 3]
    assert fields[3 + 3 * MAX_RANK :] == [n for view in views for n in (*view.strides[::-1], *[0] * (MAX_RANK - 3))]


def test_elementwise_launches_of_more_than_4gi_elements(kernels: Kernels) -> None:
    shape, block, start = (3, (1 << 31) + 8, 2), 256, 1 << 44
    f16, u8 = dtype("f16"), dtype("u8")
    a = Tensor(kernels.device, Buffer(start, 0), f16, View.contiguous(shape))
    row = Tensor(kernels.device, Buffer(2 * start, 0), f16, View(shape, (0, 2, 1), offset=6))
    y = Tensor(kernels.device, Buffer(3 * start, 0), u8, View.contiguous(shape))
    done = 0
    for _, launch in kernels.plan("compare", op="eq", lhs=a, rhs=row, y=y):
        result, first, second = (struct.unpack("<Q", argument)[0] for argument in launch.arguments[:3])
        count = struct.unpack_from("<I", launch.arguments[-1], 4)[0]
        assert result - y.start == done
        assert [(first - a.start) // 2, (second - row.start) // 2] == element([a.view, row.view], done)
        assert launch.grid[0] * block * 16 >= count  # 16 results to a thread
        assert launch.grid[0] < 1 << 31
        done += count
    assert done == a.view.count > 1 << 32
