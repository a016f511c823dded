"""Matrix products against numpy's widest types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.matmul import matmul
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import DTYPES, dtype
from codegen.kernels.layout import View
from kernels.cases import ViewCase, random_values, special_values
from kernels.compare import assert_within
from kernels.images import unit

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

    Array = np.ndarray[Any, Any]

FLOATS = [t for t in DTYPES if t.name in ("bf16", "f16", "f32", "f64")]

# Batch, rows, depth, columns.
SIZES = (
    ((), 1, 1, 1),
    ((), 1, 67, 1),
    ((), 3, 5, 2),
    ((3,), 16, 16, 16),
    ((2,), 17, 33, 65),
    ((2, 3), 64, 16, 64),
    ((), 129, 7, 5),
    ((5,), 1, 40, 70),
    ((), 66, 1, 131),
    ((3, 2), 70, 50, 1),
)


def matrix_views(shape: tuple[int, ...]) -> tuple[ViewCase, ...]:
    """Ways to lay out matrices of this shape, with dimensions of products in front."""
    *batch, rows, columns = shape
    rank = len(shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    outward = tuple(reversed(range(rank)))
    ones = (1,) * len(batch)

    def every_other(t: Tensor) -> Tensor:
        strides = (*t.view.strides[: rank - 1], 2)
        return Tensor(t.device, t.buffer, t.dtype, View(shape, strides, 1))

    return (
        ViewCase("rows", shape, lambda t: t, lambda a: a),
        ViewCase("columns", (*batch, columns, rows), lambda t: t.transpose(*swapped), lambda a: a.transpose(*swapped)),
        ViewCase(
            "cut",
            (*batch, rows + 2, columns + 3),
            lambda t: t.narrow(rank - 2, 1, rows).narrow(rank - 1, 2, columns),
            lambda a: a[..., 1 : rows + 1, 2 : columns + 2],
        ),
        ViewCase("gaps", (*batch, rows, 2 * columns), every_other, lambda a: a[..., 1::2]),
        ViewCase("inside-out", shape[::-1], lambda t: t.transpose(*outward), lambda a: a.transpose(*outward)),
        ViewCase("one-row", (*batch, 1, columns), lambda t: t.broadcast(*shape), lambda a: np.broadcast_to(a, shape)),
        ViewCase("one-column", (*batch, rows, 1), lambda t: t.broadcast(*shape), lambda a: np.broadcast_to(a, shape)),
        ViewCase(
            "one-matrix", (*ones, rows, columns), lambda t: t.broadcast(*shape), lambda a: np.broadcast_to(a, shape)
        ),
    )


def check(result: Array, element: DType, left: Array, right: Array) -> None:
    """Within an error of f32 or f64 for each addition, and one rounding to the type."""
    wide_left, wide_right = left.astype(np.longdouble), right.astype(np.longdouble)
    expected = wide_left @ wide_right
    magnitudes = np.abs(wide_left) @ np.abs(wide_right)
    bound = (left.shape[-1] + 1) * unit(dtype(element.wide)) * magnitudes + unit(element) * np.abs(expected)
    assert_within(result, expected, bound + (2.0**-24 if element.name == "f16" else 0.0))


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_views(kernels: Kernels, element: DType) -> None:
    seed = 0
    for batch, m, k, n in SIZES:
        lefts, rights = matrix_views((*batch, m, k)), matrix_views((*batch, k, n))
        for turn in range(len(lefts)):
            seed += 1
            left, x = lefts[turn].make(kernels.device, element, seed, special=False)
            right, y = rights[(turn * 3 + seed) % len(rights)].make(kernels.device, element, seed + 99, special=False)
            check(matmul(kernels, left, right).numpy(), element, x, y)
    assert seed == len(SIZES) * 8


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_sums_do_not_lose_what_the_type_would(kernels: Kernels, element: DType) -> None:
    """A sum that overflows f16 in between, and small terms that a narrow sum would not feel."""
    terms = [60000.0, 60000.0, -60000.0] if element.name == "f16" else [1.0] * 512 + [-511.0]
    x = np.array([terms], numpy_type(element))
    left = Tensor.from_numpy(kernels.device, x, element)
    right = Tensor.from_numpy(kernels.device, np.ones((len(terms), 1), numpy_type(element)), element)
    exact = x.astype(np.float64).sum()
    assert matmul(kernels, left, right).numpy().astype(np.float64).item() == exact


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_infinities_and_nan_stay_in_their_rows_and_columns(kernels: Kernels, element: DType) -> None:
    x = random_values(element, (3, 5), 1, special=False)
    y = random_values(element, (5, 4), 2, special=False)
    odd = some(v for v in special_values(element) if not np.isfinite(v.astype(np.float64)))
    for value in odd:
        x[1, 4], y[0, 2] = value, value
        left, right = (Tensor.from_numpy(kernels.device, array, element) for array in (x, y))
        finite = np.isfinite(matmul(kernels, left, right).numpy().astype(np.float64))
        expected = np.ones((3, 4), bool)
        expected[1, :] = expected[:, 2] = False
        np.testing.assert_array_equal(finite, expected)


@pytest.mark.parametrize(("batch", "m", "k", "n"), [((), 0, 3, 2), ((), 3, 2, 0), ((0,), 2, 2, 2), ((2,), 3, 0, 2)])
def test_sizes_of_none(kernels: Kernels, batch: tuple[int, ...], m: int, k: int, n: int) -> None:
    element = dtype("f32")
    left, right = (
        Tensor.from_numpy(kernels.device, np.ones(shape, np.float32), element)
        for shape in ((*batch, m, k), (*batch, k, n))
    )
    np.testing.assert_array_equal(matmul(kernels, left, right).numpy(), np.zeros((*batch, m, n), np.float32))


def test_blocks_stride_over_tiles_and_matrices(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer blocks than tiles and products in each dimension of the grid, and several launches."""
    element = dtype("f32")
    left, x = matrix_views((2, 5, 150, 20))[4].make(kernels.device, element, 3, special=False)
    right, y = matrix_views((2, 5, 20, 200))[1].make(kernels.device, element, 4, special=False)
    result = Tensor.empty(kernels.device, (2, 5, 150, 200), element)
    monkeypatch.setitem(kernels.limits, "elements", 3)
    launches = [launch for _, launch in kernels.plan("matmul", left=left, right=right, y=result)]
    assert len(launches) == 4
    assert launches[0].grid == (4, 3, 3)
    kernels.launch("matmul", [replace(launch, grid=(3, 2, 1)) for launch in launches])
    check(result.numpy(), element, x, y)


def test_shapes_that_do_not_fit_are_refused(kernels: Kernels) -> None:
    element = dtype("f32")
    left = Tensor.empty(kernels.device, (2, 3, 4), element)
    for shape in ((2, 3, 4), (3, 4, 5), (4, 5)):
        with pytest.raises(ValueError, match="have no product"):
            matmul(kernels, left, Tensor.empty(kernels.device, shape, element))
