"""Softmax kernels against numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.softmax import softmax
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype, expand
from kernels.cases import random_values
from kernels.compare import assert_within, epsilon, smallest
from kernels.images import unit
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

TYPES = expand(("wide-float",))
ULPS = 4

SHARED_IN_A_WAVE = (1, 2, 7, 31, 32, 33, 34, 63, 64, 65, 126, 254, 255, 256, 257, 382)
LENGTHS = (*SHARED_IN_A_WAVE, 1000, 1024, 4096, 4099, 8201, 20011, 20016, 40000, 70003)
"""Around the sizes of packs, waves and blocks, packed or not; the last are cut into chunks where registers end."""


def _softmax(values: Array, element: DType) -> tuple[Array, Array]:
    """The softmax of the last dimension, and what a result may differ from it by.

    The difference from the largest is rounded, as on the CPU. A member sums length / 256 exponentials, or 32 of a held
    row, and ten more additions sum those of the members. Below the normal numbers of the wide type may be 0.
    """
    wide = np.float64 if element.size == 8 else np.float32
    with np.errstate(all="ignore"):
        widened = values.astype(wide)
        distance = (widened - np.fmax.reduce(widened, axis=-1, keepdims=True)).astype(np.longdouble)
        shares = np.exp(distance)
        expected = shares / shares.sum(axis=-1, keepdims=True)
    additions = (42 + values.shape[-1] / 256) * epsilon(np.dtype(wide)) / 2
    lost = float(np.finfo(wide).tiny) + smallest(numpy_type(element)) / 2
    with np.errstate(invalid="ignore"):
        return expected, (ULPS * unit(element) + additions) * np.abs(expected) + lost


def _check(kernels: Kernels, x: Tensor, array: Array) -> None:
    result = softmax(kernels, x).numpy()
    assert result.dtype == array.dtype
    assert_within(result, *_softmax(array, x.dtype))


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_lengths(kernels: Kernels, element: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    with launched(kernels) as symbols:
        for seed, length in enumerate(LENGTHS):
            array = random_values(element, (3, length), seed, special=False)
            _check(kernels, Tensor.from_numpy(kernels.device, array, element), array)
        # On so small a card, three rows are too many to be cut, and nine too many for a block each.
        monkeypatch.setitem(kernels.limits, "multiprocessors", 1)
        for seed, shape in enumerate(((3, 70000), (3, 70003), (9, 741))):
            array = random_values(element, shape, seed, special=False)
            _check(kernels, Tensor.from_numpy(kernels.device, array, element), array)

    expected = {
        f"softmax_{element}_{form}"
        for form in ("short", "held", "staged", "single", "streamed", "unaligned", "totals", "chunks")
    }
    if element.size < 8:  # larger pairs are packs
        expected.add(f"softmax_paired_{element}_single")
    if element.size == 2:
        expected |= {f"softmax_packed_{element}_{form}" for form in ("held", "unaligned")}
    assert symbols == expected


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_many_short_rows(kernels: Kernels, element: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape in (
        (1000, 3),
        (7, 45, 24),
        (517, 64),
        (2100, 160),
        (300, 1),
        (1027, 1),
        (2051, 2),
        (513, 4),
        (257, 8),
        (5003, 9),
        (1701, 58),
        (301, 741),
        (37, 2047),
    ):
        array = random_values(element, shape, special=False)
        _check(kernels, Tensor.from_numpy(kernels.device, array, element), array)
    # Where a card has little room, blocks have more rows in LDS than teams.
    monkeypatch.setitem(kernels.limits, "multiprocessors", 1)
    for shape in ((5003, 9), (1701, 58), (401, 201)):
        array = random_values(element, shape, special=False)
        _check(kernels, Tensor.from_numpy(kernels.device, array, element), array)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_rows_that_begin_anywhere(kernels: Kernels, element: DType) -> None:
    for length in (64, 67, 2048, 33000):
        array = random_values(element, (5, length), special=False)
        x = Tensor.from_numpy(kernels.device, array, element)
        _check(kernels, x.narrow(0, 1, 3), array[1:4])
        flat = Tensor.from_numpy(kernels.device, array.reshape(-1), element)
        _check(kernels, flat.narrow(0, 1, length).reshaped(1, length), array.reshape(-1)[None, 1 : length + 1])


@pytest.mark.parametrize("length", [1, 2, 4, 8, 9, 64, 1003, 4096, 20011, 50000])
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_special_values(kernels: Kernels, element: DType, length: int) -> None:
    """NaN and +inf make a row NaN, and so does -inf if there is nothing else."""
    array = random_values(element, (8, length), special=False)
    array[0, length // 2] = np.nan
    array[1, length - 1] = np.inf
    array[2] = -np.inf
    array[3] = -np.inf
    array[3, length // 3] = 1
    array[4, 1:] = -np.inf
    array[5, : length - 1] = -np.inf
    array[6] = 0
    array[7] = np.linspace(-60000, 0, length).astype(numpy_type(element))
    expected, bound = _softmax(array, element)

    result = softmax(kernels, Tensor.from_numpy(kernels.device, array, element)).numpy()

    assert np.isnan(expected[:3].astype(np.float64)).all()
    assert not np.isnan(expected[3:].astype(np.float64)).any()
    assert_within(result, expected, bound)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_long_rows_of_many_are_streamed(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, element: DType) -> None:
    """Two chunks of each row would be more blocks than a single multiprocessor takes."""
    monkeypatch.setitem(kernels.limits, "multiprocessors", 1)
    array = random_values(element, (3, 66000), special=False)
    with launched(kernels) as symbols:
        _check(kernels, Tensor.from_numpy(kernels.device, array, element), array)
    assert symbols == {f"softmax_{element}_streamed"}


@pytest.mark.parametrize("length", [2, 5, 8, 64, 1001, 4096])
def test_blocks_stride_over_rows(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setitem(kernels.limits, "blocks", 2)
    array = random_values(dtype("f32"), (7 if length > 1000 else 2300 if length == 2 else 700, length), special=False)
    _check(kernels, Tensor.from_numpy(kernels.device, array), array)


def test_nothing(kernels: Kernels) -> None:
    for shape in ((0, 3), (3, 0)):
        assert softmax(kernels, Tensor.from_numpy(kernels.device, np.zeros(shape, np.float32))).shape == shape


def test_rows_have_to_be_contiguous(kernels: Kernels) -> None:
    x = Tensor.from_numpy(kernels.device, np.zeros((4, 5), np.float32))
    with pytest.raises(ValueError, match="must be contiguous"):
        softmax(kernels, x.transpose(1, 0))
