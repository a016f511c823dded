"""Results against references, in units in the last place of the result's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from codegen.device.tensor import Tensor

Array = np.ndarray[Any, Any]


def assert_ulps(result: Tensor, expected: Array, ulps: int) -> None:
    """Fails unless every element is at most `ulps` numbers of its type away from `expected`, rounded to that type.

    NaN equals NaN, of any sign and payload; infinities and integers must be equal; zeros of either sign are equal.
    """
    _refuse_unbounded(ulps)
    got = result.numpy()
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected).astype(got.dtype)
    assert got.shape == wanted.shape
    distance = _ulps_between(got, wanted)
    bad = np.argwhere(distance > ulps)
    if len(bad):
        lines = [f"{tuple(int(i) for i in at)}: {got[tuple(at)]} instead of {wanted[tuple(at)]}" for at in bad[:8]]
        worst = distance.max()
        raise AssertionError(
            f"{len(bad)} of {got.size} elements of {got.dtype} are more than {ulps} ulp off (worst: {worst:g}):\n"
            + "\n".join(lines)
        )


def assert_same_bits(result: Tensor, expected: Array) -> None:
    """Fails unless every element has the bits of `expected`, which has the result's type; any NaN equals any NaN."""
    same = _same_bits(result, expected)
    with np.errstate(invalid="ignore"):  # ml_dtypes warns of NaN
        both_nan = (result.numpy() != result.numpy()) & (np.asarray(expected) != expected)
    _assert_all(same | both_nan, result, expected)


def assert_moved(result: Tensor, expected: Array) -> None:
    """Fails unless every element has the bits of `expected`, which has the result's type; those of NaN too."""
    _assert_all(_same_bits(result, expected), result, expected)


def _same_bits(result: Tensor, expected: Array) -> Array:
    got, wanted = result.numpy(), np.asarray(expected)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    bits = np.dtype(f"u{got.dtype.itemsize}")
    return np.asarray(got.view(bits) == wanted.view(bits))


def _assert_all(same: Array, result: Tensor, expected: Array) -> None:
    got, bad = result.numpy(), np.argwhere(~same)
    lines = [f"{tuple(int(i) for i in at)}: {got[tuple(at)]} instead of {expected[tuple(at)]}" for at in bad[:8]]
    assert not lines, f"{len(bad)} of {got.size} elements of {got.dtype} differ:\n" + "\n".join(lines)


def assert_near(result: Tensor, expected: Array, *, absolute: float, relative: float) -> None:
    """Fails unless |result - expected| <= absolute + relative * |expected| everywhere; NaN equals NaN."""
    _refuse_unbounded(absolute, relative)
    got = result.numpy().astype(np.float64)
    wanted = np.asarray(expected).astype(np.float64)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, atol=absolute, rtol=relative, equal_nan=True)


def assert_within(result: Array, expected: Array, bound: Array) -> None:
    """Fails unless |result - expected| <= bound, element by element; infinities must be equal, and NaN equals NaN.

    Raises ValueError for a bound that would let anything pass for a number.
    """
    got = result.astype(np.longdouble)
    assert got.shape == expected.shape
    number = np.isfinite(expected)
    _refuse_unbounded(np.broadcast_to(bound, got.shape)[number])
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= bound
        near = np.where(number, near, (got == expected) | (np.isnan(got) & np.isnan(expected)))
    bad = np.argwhere(~near)
    if len(bad):
        lines = [
            f"{tuple(int(i) for i in at)}: {got[tuple(at)]} instead of {expected[tuple(at)]}, give or take "
            f"{np.broadcast_to(bound, got.shape)[tuple(at)]:.3g}"
            for at in bad[:8]
        ]
        raise AssertionError(f"{len(bad)} of {got.size} elements of {result.dtype} are off:\n" + "\n".join(lines))


def _refuse_unbounded(*tolerances: float | Array) -> None:
    """Raises ValueError for a tolerance that is no number of zero or more: everything would be near, or nothing."""
    for tolerance in tolerances:
        if not np.all(np.isfinite(tolerance) & (np.asarray(tolerance) >= 0)):
            raise ValueError(f"{tolerance} is no tolerance")


def epsilon(element: np.dtype[Any]) -> float:
    """The distance from 1 to the next number of a floating-point type."""
    return float(ml_dtypes.finfo(element).eps)  # type: ignore[no-untyped-call] # ml_dtypes has no types for it


def smallest(element: np.dtype[Any]) -> float:
    """The smallest positive number of a floating-point type, which is a subnormal."""
    return float(ml_dtypes.finfo(element).smallest_subnormal)  # type: ignore[no-untyped-call] # ml_dtypes has no types


def _ulps_between(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.integer):
        return np.where(a == b, 0.0, np.inf)
    bits = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[a.dtype.itemsize]
    distance = np.abs(_ordered(a.view(bits)) - _ordered(b.view(bits)))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    nan_a, nan_b = np.isnan(wide_a), np.isnan(wide_b)
    unequal_infinity = (np.isinf(wide_a) | np.isinf(wide_b)) & (wide_a != wide_b)
    distance = np.where(unequal_infinity | (nan_a != nan_b), np.inf, distance)
    return np.where(nan_a & nan_b, 0.0, distance)


def _ordered(bits: Array) -> Array:
    """Numbers that are consecutive where floats are (as doubles: exact below 2^53, and far enough above)."""
    wide = bits.astype(object) if bits.dtype == np.int64 else bits.astype(np.int64)
    lowest = -(1 << (8 * bits.dtype.itemsize - 1))
    return np.where(wide < 0, lowest - wide, wide).astype(np.float64 if bits.dtype != np.int64 else object)
