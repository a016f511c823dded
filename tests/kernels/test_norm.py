"""Normalisations against numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.binary import binary
from codegen.device.ops.norm import add_rms_norm, layer_norm, rms_norm
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype, expand
from kernels.cases import random_values
from kernels.compare import assert_same_bits, assert_within, epsilon, smallest
from kernels.images import unit
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

TYPES = expand(("wide-float",))
OPS = ("rms_norm", "layer_norm")
EPS = 1e-5

LENGTHS = (1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000, 1024, 4096, 4099, 12288, 20011, 20016, 70001, 70008)
"""Around the sizes of packs, waves and blocks, packed or not; registers hold 16384 elements at most."""


def _norm(op: str, x: Array, alpha: Array, beta: Array, element: DType) -> tuple[Array, Array]:
    """The exact result, and what a result may differ from it by.

    The error of a sum of n numbers, taken by members that add n / 256 or 16 of them each, counts relative to the
    numbers' magnitude; of the mean, that is what deviations are off by.
    """
    step = epsilon(np.dtype(np.float64 if element.size == 8 else np.float32))
    sums = (32 + x.shape[-1] / 256) * step
    wide, scale, offset = (a.astype(np.longdouble) for a in (x, alpha, beta))
    with np.errstate(all="ignore"):
        mean = wide.mean(axis=-1, keepdims=True) if op == "layer_norm" else np.longdouble(0)
        magnitude = np.abs(wide).mean(axis=-1, keepdims=True) if op == "layer_norm" else np.longdouble(0)
        deviation = wide - mean
        root = np.sqrt((deviation**2).mean(axis=-1, keepdims=True) + np.longdouble(np.float32(EPS)))
        normal = deviation / root * scale
        expected = normal + offset
        off = sums * (np.abs(normal) + magnitude / root * np.abs(scale)) + step * np.abs(offset)
        rounding = unit(element) * np.abs(expected) + smallest(numpy_type(element)) / 2
        return expected, off + rounding


def _apply(kernels: Kernels, op: str, x: Tensor, alpha: Tensor | None, beta: Tensor | None) -> Tensor:
    return rms_norm(kernels, x, alpha, EPS) if op == "rms_norm" else layer_norm(kernels, x, alpha, beta, EPS)


def _check(kernels: Kernels, op: str, x: Tensor, array: Array, seed: int = 0) -> None:
    length = array.shape[-1]
    alpha = random_values(x.dtype, (length,), seed + 1, special=False)
    beta = random_values(x.dtype, (length,), seed + 2, special=False) if op == "layer_norm" else np.zeros_like(alpha)
    vectors = [Tensor.from_numpy(kernels.device, vector, x.dtype) for vector in (alpha, beta)]
    result = _apply(kernels, op, x, *vectors).numpy()
    assert result.dtype == array.dtype
    assert_within(result, *_norm(op, array, alpha, beta, x.dtype))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_lengths(kernels: Kernels, element: DType, op: str) -> None:
    with launched(kernels) as symbols:
        for seed, length in enumerate(LENGTHS):
            array = random_values(element, (3, length), seed, special=False)
            _check(kernels, op, Tensor.from_numpy(kernels.device, array, element), array, seed)

    assert symbols == {f"{op}_{element}_{form}" for form in ("held", "staged", "streamed", "unaligned")}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_many_short_rows(kernels: Kernels, element: DType, op: str) -> None:
    for shape in ((1000, 3), (7, 45, 24), (517, 64), (2100, 160), (5003, 9), (1701, 58), (301, 741), (37, 2047)):
        array = random_values(element, shape, special=False)
        _check(kernels, op, Tensor.from_numpy(kernels.device, array, element), array)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_rows_that_begin_anywhere(kernels: Kernels, element: DType, op: str) -> None:
    for length in (64, 67, 2048):
        array = random_values(element, (5, length), special=False)
        x = Tensor.from_numpy(kernels.device, array, element)
        _check(kernels, op, x.narrow(0, 1, 3), array[1:4])
        flat = Tensor.from_numpy(kernels.device, array.reshape(-1), element)
        _check(kernels, op, flat.narrow(0, 1, length).reshaped(1, length), array.reshape(-1)[None, 1 : length + 1])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_parameters_that_begin_anywhere(kernels: Kernels, element: DType, op: str) -> None:
    array = random_values(element, (3, 64), special=False)
    vectors = random_values(element, (2, 67), 1, special=False)
    alpha, beta = (Tensor.from_numpy(kernels.device, v, element).narrow(0, 3, 64) for v in vectors)
    result = _apply(kernels, op, Tensor.from_numpy(kernels.device, array, element), alpha, beta).numpy()
    offset = vectors[1, 3:] if op == "layer_norm" else np.zeros(64, numpy_type(element))
    assert_within(result, *_norm(op, array, vectors[0, 3:], offset, element))


@pytest.mark.parametrize("op", OPS)
def test_parameters_may_be_left_out(kernels: Kernels, op: str) -> None:
    for length in (64, 67):
        array = random_values(dtype("f32"), (3, length), special=False)
        ones, zeros = np.ones(length, np.float32), np.zeros(length, np.float32)
        x = Tensor.from_numpy(kernels.device, array)
        expected = _norm(op, array, ones, zeros, dtype("f32"))
        assert_within(_apply(kernels, op, x, None, None).numpy(), *expected)
        assert_within(_apply(kernels, op, x, Tensor.from_numpy(kernels.device, ones), None).numpy(), *expected)
        assert_within(_apply(kernels, op, x, None, Tensor.from_numpy(kernels.device, zeros)).numpy(), *expected)


@pytest.mark.parametrize("length", [9, 64, 1003, 4096])
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_special_values(kernels: Kernels, element: DType, length: int) -> None:
    """NaN makes a row NaN. An infinity makes rms_norm's row 0 but for itself, which is NaN, and layer_norm's NaN."""
    array = random_values(element, (5, length), special=False)
    array[0, length // 2] = np.nan
    array[1, length - 1] = np.inf
    array[2, 0] = -np.inf
    array[3] = 0
    array[4] = np.finfo(np.float16).smallest_subnormal
    for op in OPS:
        _check(kernels, op, Tensor.from_numpy(kernels.device, array, element), array)


def test_squares_beyond_f32_give_zero_as_on_the_cpu(kernels: Kernels) -> None:
    x = Tensor.from_numpy(kernels.device, np.full((1, 64), 1e25, np.float32))
    assert (rms_norm(kernels, x, None, EPS).numpy() == 0).all()


@pytest.mark.parametrize("length", [64, 1001, 4096])
def test_variance_survives_a_large_mean(kernels: Kernels, length: int) -> None:
    """In f32, mean(x^2) - mean(x)^2 is off by more than the variance itself here."""
    array = random_values(dtype("f32"), (3, length), special=False) + np.float32(10000)
    x = Tensor.from_numpy(kernels.device, array)
    exact = array.astype(np.float64)
    expected = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + EPS)
    np.testing.assert_allclose(layer_norm(kernels, x, None, None, EPS).numpy(), expected, atol=2e-3)


@pytest.mark.parametrize("length", [64, 1001, 4096])
def test_a_constant_row_has_no_deviations(kernels: Kernels, length: int) -> None:
    x = Tensor.from_numpy(kernels.device, np.full((2, length), 3, np.float32))
    assert (layer_norm(kernels, x, None, None, EPS).numpy() == 0).all()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("length", [5, 8, 64, 1001, 4096])
def test_blocks_stride_over_rows(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, op: str, length: int) -> None:
    monkeypatch.setitem(kernels.limits, "blocks", 2)
    array = random_values(dtype("f32"), (700 if length < 1000 else 7, length), special=False)
    _check(kernels, op, Tensor.from_numpy(kernels.device, array), array)


@pytest.mark.parametrize("op", OPS)
def test_nothing(kernels: Kernels, op: str) -> None:
    for shape in ((0, 3), (3, 0)):
        x = Tensor.from_numpy(kernels.device, np.zeros(shape, np.float32))
        assert _apply(kernels, op, x, None, None).shape == shape


def test_rows_have_to_be_contiguous(kernels: Kernels) -> None:
    x = Tensor.from_numpy(kernels.device, np.zeros((4, 4), np.float32))
    strided = Tensor.from_numpy(kernels.device, np.zeros((4, 2), np.float32)).narrow(1, 0, 1).transpose(1, 0)
    for tensor, alpha in ((x.transpose(1, 0), None), (x, strided)):
        with pytest.raises(ValueError, match="must be contiguous"):
            rms_norm(kernels, tensor, alpha, EPS)


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_a_sum_is_normalized_as_by_two_operations(kernels: Kernels, element: DType) -> None:
    """For one row and for many, by a few lanes, a wave and a block, and once with values that are no numbers."""
    for shape in ((1, 16), (3, 64), (1, 4096), (700, 1024), (2, 5, 8192)):
        arrays = [random_values(element, shape, seed, special=shape == (3, 64)) for seed in (1, 2)]
        arrays.append(random_values(element, shape[-1:], 3, special=False))
        x, other, alpha = (Tensor.from_numpy(kernels.device, array, element) for array in arrays)
        with launched(kernels) as symbols:
            total, normed = add_rms_norm(kernels, x, other, alpha, EPS)
        assert symbols == {f"add_rms_norm_{element}_held"}
        expected = binary(kernels, "add", x, other)
        assert_same_bits(total, expected.numpy())
        assert_same_bits(normed, rms_norm(kernels, expected, alpha, EPS).numpy())


def test_what_is_no_row_of_whole_packs_is_left_to_two_operations(kernels: Kernels) -> None:
    zeros = Tensor.from_numpy(kernels.device, np.zeros((2, 70016), np.float32))
    for length, first in ((1003, 0), (1000, 1), (70016, 0)):
        row = zeros.narrow(0, 0, 1).reshaped(70016).narrow(0, first, length).reshaped(1, length)
        with pytest.raises(ValueError, match="registers"):
            add_rms_norm(kernels, row, row, None, EPS)
