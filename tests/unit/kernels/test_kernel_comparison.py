"""What kernel tests hold results against: it finds what is off, and no tolerance of theirs lets everything pass."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from kernels.compare import assert_near, assert_ulps, assert_within

Array = np.ndarray[Any, Any]


def tensor(*values: float) -> Any:
    return cast("Any", SimpleNamespace(numpy=lambda: np.array(values, np.float32)))


def array(*values: float) -> Array:
    return np.array(values, np.float64)


def test_what_is_near_passes() -> None:
    values = (1.0, math.inf, -math.inf, math.nan)
    assert_within(array(*values), array(*values), array(0, math.inf, 0, math.nan))
    assert_within(array(1.0), array(1.5), array(0.5))
    assert_near(tensor(1.0, math.inf), array(1.25, math.inf), absolute=0.25, relative=0)
    assert_ulps(tensor(1.0, math.nan), array(1 + 2**-23, math.nan), 1)


@pytest.mark.parametrize(
    ("got", "expected"),
    [(1.0, math.inf), (math.inf, 1.0), (math.nan, 1.0), (1.0, math.nan), (math.inf, -math.inf), (1.0, 3.0)],
)
@pytest.mark.parametrize("bound", [1.0, math.inf])
def test_what_is_off_does_not(got: float, expected: float, bound: float) -> None:
    """Nor where the bound comes from the data, and is as infinite as the number that is expected."""
    if math.isfinite(expected) and math.isinf(bound):
        with pytest.raises(ValueError, match="no tolerance"):
            assert_within(array(got), array(expected), array(bound))
        return
    with pytest.raises(AssertionError, match="are off"):
        assert_within(array(got), array(expected), array(bound))


@pytest.mark.parametrize("tolerance", [math.inf, math.nan, -1.0])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="no tolerance"):
        assert_within(array(1), array(1), array(tolerance))
    with pytest.raises(ValueError, match="no tolerance"):
        assert_near(tensor(1), array(1), absolute=tolerance, relative=0)
    with pytest.raises(ValueError, match="no tolerance"):
        assert_near(tensor(1), array(1), absolute=0, relative=tolerance)
    with pytest.raises(ValueError, match="no tolerance"):
        assert_ulps(tensor(1), array(1), cast("int", tolerance))


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_the_largest_number_is_not_as_good_as_infinity(value: float) -> None:
    largest = float(np.finfo(np.float32).max)
    with pytest.raises(AssertionError, match="1 ulp off"):
        assert_ulps(tensor(math.copysign(largest, value)), array(value), 1)


def test_what_is_a_unit_further_off_than_it_may_be_fails() -> None:
    assert_ulps(tensor(1.0), array(1 + 2**-23), 1)
    with pytest.raises(AssertionError, match="more than 1 ulp off"):
        assert_ulps(tensor(1.0), array(1 + 2**-22), 1)
    with pytest.raises(AssertionError):
        assert_near(tensor(1.0), array(1.26), absolute=0.25, relative=0)
