"""Copies of views and of rows between matrices, for elements of every width."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.copy import contiguous, copy2d, copy_into
from codegen.device.tensor import Tensor
from codegen.kernels.dtypes import DTYPES, dtype, expand
from codegen.kernels.layout import View
from kernels.cases import VIEWS, ViewCase, random_values
from kernels.compare import assert_moved
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

SIZES = tuple(dtype(name) for name in ("u8", "bf16", "f32", "i64"))
"""One element type of each size."""


def _every_other(matrix: Tensor) -> Tensor:
    view = matrix.view
    return replace(matrix, view=View((view.shape[0], view.shape[1] // 2), (view.strides[0], 2), view.offset))


ROWS = (
    ViewCase("heads", (2, 9, 4, 16), lambda t: t.transpose(0, 2, 1, 3), lambda a: a.transpose(0, 2, 1, 3)),
    ViewCase(
        "repeated", (2, 1, 5, 24), lambda t: t.broadcast(2, 3, 5, 24), lambda a: np.broadcast_to(a, (2, 3, 5, 24))
    ),
    ViewCase("odd-rows", (8, 11, 3), lambda t: t.transpose(1, 0, 2), lambda a: a.transpose(1, 0, 2)),
    ViewCase("every-other", (7, 50), _every_other, lambda a: a[:, ::2]),
    ViewCase("scalar", (1, 1), lambda t: t.broadcast(70, 3), lambda a: np.broadcast_to(a, (70, 3))),
)
"""Views whose rows stay whole, and views in which nothing lies together."""


@pytest.mark.parametrize("element", DTYPES, ids=str)
def test_views(kernels: Kernels, element: DType) -> None:
    for view in some(VIEWS):
        x, array = view.make(kernels.device, element)
        assert_moved(contiguous(kernels, x), array)


@pytest.mark.parametrize("element", SIZES, ids=str)
def test_launches_go_on_where_those_before_ended(
    kernels: Kernels, element: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for tensors that one launch cannot cover."""
    monkeypatch.setitem(kernels.limits, "elements", 32)
    for view in (*VIEWS, *ROWS):
        x, array = view.make(kernels.device, element)
        y = contiguous(kernels, x)
        assert_moved(y, array)
    rows = Tensor.from_numpy(kernels.device, random_values(element, (30, 11)), element).narrow(1, 3, 7)
    y = Tensor.empty(kernels.device, (30, 7), element)
    assert len(kernels.plan("copy2d", x=rows, y=y)) > 2
    copy2d(kernels, rows, y)
    assert_moved(y, rows.numpy())


@pytest.mark.parametrize("element", SIZES, ids=str)
def test_rows(kernels: Kernels, element: DType) -> None:
    for view in ROWS:
        x, array = view.make(kernels.device, element)
        assert_moved(contiguous(kernels, x), array)


@pytest.mark.parametrize("offset", [0, 1, 3, 16])
@pytest.mark.parametrize("element", SIZES, ids=str)
def test_into_the_middle_of_a_buffer(kernels: Kernels, element: DType, offset: int) -> None:
    """Exactly the wanted elements are written, whichever way their address is aligned."""
    for view in some(VIEWS):
        x, array = view.make(kernels.device, element)
        before = random_values(element, (array.size + 21,), seed=1)
        y = Tensor.from_numpy(kernels.device, before, element)
        copy_into(kernels, x, y, offset)
        expected = before.copy()
        expected[offset : offset + array.size] = array.reshape(-1)
        assert_moved(y, expected)


MATRICES = [
    # rows, columns, distance of rows in x and in y, offsets
    (1, 1, 1, 1, 0, 0),
    (5, 7, 7, 7, 0, 0),
    (33, 64, 64, 192, 0, 64),
    (64, 48, 96, 48, 32, 0),
    (17, 13, 20, 31, 3, 5),
    (300, 1, 4, 3, 1, 2),
    (1, 5003, 5003, 5003, 1, 1),
    (0, 4, 4, 4, 0, 0),
    (4, 0, 4, 4, 0, 0),
    (3, 8, 0, 16, 0, 8),
]


@pytest.mark.parametrize("element", SIZES, ids=str)
def test_copy2d(kernels: Kernels, element: DType) -> None:
    for matrix in MATRICES:
        x, y, expected = _matrices(kernels, element, *matrix)
        copy2d(kernels, x, y)
        assert_moved(replace(y, view=View.contiguous(expected.shape)), expected)


def test_every_width_is_copied(kernels: Kernels) -> None:
    """All kernels of the family are launched by cases like those above."""
    with launched(kernels) as symbols:
        for element in SIZES:
            for view in (*VIEWS, *ROWS):
                contiguous(kernels, view.make(kernels.device, element)[0])
            for matrix in MATRICES:
                x, y, _ = _matrices(kernels, element, *matrix)
                copy2d(kernels, x, y)
    wanted = {f"{op}_{width}" for op in ("copy", "copy2d") for width in expand(("packed-bits",))}
    assert wanted <= symbols


def _matrices(
    kernels: Kernels,
    element: DType,
    rows: int,
    columns: int,
    x_stride: int,
    y_stride: int,
    x_offset: int,
    y_offset: int,
) -> tuple[Tensor, Tensor, Array]:
    """Two matrices within larger buffers, and what y's whole buffer holds after the copy."""
    values = random_values(element, (x_offset + rows * max(x_stride, columns),))
    buffer = random_values(element, (y_offset + rows * y_stride + 3,), seed=1)
    x, y = (Tensor.from_numpy(kernels.device, array, element) for array in (values, buffer))
    for row in range(rows):
        buffer[y_offset + row * y_stride :][:columns] = values[x_offset + row * x_stride :][:columns]
    return (
        replace(x, view=View((rows, columns), (x_stride, 1), x_offset)),
        replace(y, view=View((rows, columns), (y_stride, 1), y_offset)),
        buffer,
    )
