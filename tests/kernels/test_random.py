"""Random numbers: the generator's published answers, the distributions, and independence of how it is launched."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.random import rand_normal, rand_uniform, rand_uniform_from
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import GROUPS, dtype

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

FLOATS = GROUPS["float"]
ALL_ONES = (1 << 64) - 1

KNOWN_ANSWERS = (
    ((0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL_ONES, ALL_ONES, ALL_ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Seed (key), offset and group (counter) with the words that Random123's kat_vectors file gives for philox4x32-10."""


def philox(seed: int, offset: int, groups: Array) -> Array:
    """Philox4x32-10 of groups of words, shape (groups, 4); Salmon et al., SC11, written with 64-bit products."""
    low = np.uint64(0xFFFFFFFF)
    high = np.uint64(32)
    counter = [groups & low, groups >> high]
    counter += [np.full_like(groups, offset & 0xFFFFFFFF), np.full_like(groups, offset >> 32)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, third = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (third >> high) ^ counter[1] ^ np.uint64(key[0]),
            third & low,
            (first >> high) ^ counter[3] ^ np.uint64(key[1]),
            first & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, axis=1)


def words_of(count: int, per_group: int, seed: int, offset: int, first: int) -> Array:
    """The words of enough groups for `count` numbers."""
    return philox(seed, offset, np.arange(-(-count // per_group), dtype=np.uint64) + np.uint64(first))


def units(words: Array, name: str) -> Array:
    """Numbers in [0, 1) as the kernels take them from words."""
    if name == "f64":
        pairs = words.reshape(-1, 2)
        return ((pairs[:, 0] << np.uint64(32) | pairs[:, 1]) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (words.reshape(-1) >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


@pytest.mark.parametrize(("counter", "words"), KNOWN_ANSWERS, ids=["zeros", "ones", "pi"])
def test_known_answers(kernels: Kernels, counter: tuple[int, int, int], words: tuple[int, ...]) -> None:
    seed, offset, group = counter
    doubles = rand_uniform(kernels, (2,), dtype("f64"), 0, 1, seed=seed, offset=offset, first=group).numpy()
    pairs = [words[0] << 32 | words[1], words[2] << 32 | words[3]]
    assert [int(x * 2**53) for x in doubles] == [pair >> 11 for pair in pairs]
    singles = rand_uniform(kernels, (4,), dtype("f32"), 0, 1, seed=seed, offset=offset, first=group).numpy()
    assert [int(x * 2**24) for x in singles] == [word >> 8 for word in words]


@pytest.mark.parametrize("count", [0, 1, 3, 16, 67, 4099])
@pytest.mark.parametrize("name", FLOATS)
def test_uniform_is_philox_of_the_element(kernels: Kernels, name: str, count: int) -> None:
    seed, offset, first = 0x123456789ABCDEF0, 5, (1 << 34) + 3
    got = rand_uniform(kernels, (count,), dtype(name), -3, 5, seed=seed, offset=offset, first=first).numpy()
    wide = np.float64 if name == "f64" else np.float32
    unit = units(words_of(count, 2 if name == "f64" else 4, seed, offset, first), name)[:count]
    exact = unit.astype(np.float64) * 8 - 3  # f32 units times 8 less 3 are exact in f64; f64's are rounded twice
    expected = exact.astype(wide).astype(got.dtype)
    last = np.nextafter(np.array(5, got.dtype), np.array(0, got.dtype))
    expected = np.where(expected.astype(np.float64) >= 5, last, expected)
    if name == "f64":
        np.testing.assert_allclose(got, expected, rtol=0, atol=2.0**-51)
    else:
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("count", [1, 3, 16, 67, 4099])
@pytest.mark.parametrize("name", FLOATS)
def test_normal_is_box_muller_of_the_words(kernels: Kernels, name: str, count: int) -> None:
    seed, offset, first = 42, 1 << 40, 7
    got = rand_normal(kernels, (count,), dtype(name), 0.5, 2, seed=seed, offset=offset, first=first).numpy()
    words = words_of(count, 2 if name == "f64" else 4, seed, offset, first)
    if name == "f64":
        u, v = np.split(units(words, name).reshape(-1, 2), 2, axis=1)
        u = 1 - u
    else:
        pairs = words.reshape(-1, 2)
        u = (pairs[:, :1].astype(np.float64) + 0.5) * 2.0**-32
        v = (pairs[:, 1:] >> np.uint64(8)).astype(np.float64) * 2.0**-24
    radius = np.sqrt(-2 * np.log(u))
    points = np.concatenate([radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)], axis=1)
    expected = points.reshape(-1)[:count] * 2 + 0.5
    step = {"f64": 1e-14, "f32": 4e-6, "f16": 2.0**-10, "bf16": 2.0**-7, "f8e4m3": 2.0**-3}[name]
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=step, atol=step)


@pytest.mark.parametrize("name", FLOATS)
def test_upper_bound_is_never_returned(kernels: Kernels, name: str) -> None:
    kind = numpy_type(dtype(name))
    low = np.array(1, kind)
    for steps in (1, 2, 3):  # so close that most numbers round to a bound
        up = low
        for _ in range(steps):
            up = np.nextafter(up, np.array(2, kind))
        got = rand_uniform(kernels, (3000,), dtype(name), float(low), float(up), seed=3).numpy()
        assert set(np.unique(got.astype(np.float64))) <= {1.0 + k * (float(up) - 1) / steps for k in range(steps)}
    numbers = rand_uniform(kernels, (40000,), dtype(name), 0, 1, seed=4).numpy().astype(np.float64)
    assert numbers.max() < 1
    assert numbers.min() >= 0


@pytest.mark.parametrize("count", [1, 3, 16, 67, 4099])
@pytest.mark.parametrize("name", FLOATS)
def test_uniform_from_the_numbers_of_rocrand(kernels: Kernels, name: str, count: int) -> None:
    """In (0, 1] they come, and [low, up) they fill: one becomes the lower bound, and nothing the upper one."""
    wide = np.float64 if name == "f64" else np.float32
    given: Array = (1 - np.random.default_rng(count).random(count, wide)).astype(wide)
    given[::5], given[1::5] = 1, np.nextafter(wide(1), wide(0))
    units = Tensor.from_numpy(kernels.device, given)

    got = rand_uniform_from(kernels, units, dtype(name), -3, 5).numpy()

    exact = np.where(given < 1, given, 0).astype(np.longdouble) * 8 - 3
    last = np.nextafter(np.array(5, got.dtype), np.array(0, got.dtype))
    expected = exact.astype(wide).astype(got.dtype)
    expected = np.where(expected.astype(np.float64) >= 5, last, expected)
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))
    assert (got[::5].astype(np.float64) == -3).all()
    assert got.astype(np.float64).max(initial=-3) < 5


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_depend_on_seed_offset_and_place_alone(kernels: Kernels, name: str) -> None:
    def made(count: int, **where: int) -> bytes:
        return rand_uniform(kernels, (count,), dtype(name), 0, 1, **{"seed": 1, **where}).numpy().tobytes()

    per_group = 2 if name == "f64" else 4
    size = dtype(name).size
    whole = made(1200)
    assert made(500) == whole[: 500 * size]
    assert made(400, first=600 // per_group) == whole[600 * size : 1000 * size]
    assert len({whole, made(1200, seed=2), made(1200, seed=1 + (1 << 32)), made(1200, offset=1)}) == 4


def largest_gap(numbers: Array, probability: Array) -> float:
    """Kolmogorov-Smirnov: the largest distance between the sample's distribution and the given one, times sqrt(n)."""
    n = len(numbers)
    steps = np.arange(n + 1) / n
    return float(max(np.abs(probability - steps[1:]).max(), np.abs(probability - steps[:-1]).max()) * math.sqrt(n))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_distributions(kernels: Kernels, name: str) -> None:
    n = 60000
    uniform = np.sort(rand_uniform(kernels, (n,), dtype(name), -2, 6, seed=11).numpy().astype(np.float64))
    normal = np.sort(rand_normal(kernels, (n,), dtype(name), 3, 0.5, seed=12).numpy().astype(np.float64))
    below = np.array([0.5 * math.erfc((3 - x) / (0.5 * math.sqrt(2))) for x in normal])
    # 1.95 is exceeded once in a thousand samples; the sample is fixed.
    assert largest_gap(uniform, (uniform + 2) / 8) < 1.95
    assert largest_gap(normal, below) < 1.95
    assert abs(uniform.mean() - 2) < 4 * (8 / math.sqrt(12)) / math.sqrt(n)
    assert abs(uniform.var() / (64 / 12) - 1) < 4 * math.sqrt(0.8 / n)
    assert abs(normal.mean() - 3) < 4 * 0.5 / math.sqrt(n)
    assert abs(normal.var() / 0.25 - 1) < 4 * math.sqrt(2 / n)


@pytest.mark.parametrize("name", ["f16", "bf16", "f8e4m3"])
def test_narrow_distributions(kernels: Kernels, name: str) -> None:
    n = 40000
    uniform = rand_uniform(kernels, (n,), dtype(name), -2, 6, seed=13).numpy().astype(np.float64)
    normal = rand_normal(kernels, (n,), dtype(name), 0, 0.5, seed=14).numpy().astype(np.float64)
    assert abs(uniform.mean() - 2) < 0.06
    assert abs(uniform.std() - 8 / math.sqrt(12)) < 0.05
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 0.5) < 0.01


@pytest.mark.parametrize(
    ("name", "low", "up"), [("f32", 1, 1), ("f16", 1, 1.0001), ("f32", 2, 1), ("f32", -3e38, 3e38)]
)
def test_bounds_without_a_number_between_are_refused(kernels: Kernels, name: str, low: float, up: float) -> None:
    with pytest.raises(ValueError, match="no uniform distribution"):
        rand_uniform(kernels, (4,), dtype(name), low, up, seed=1)


@pytest.mark.usefixtures("one_block")
def test_a_grid_smaller_than_the_tensor(kernels: Kernels) -> None:
    got = rand_uniform(kernels, (5001,), dtype("f32"), 0, 1, seed=9).numpy()
    np.testing.assert_array_equal(got, units(words_of(5001, 4, 9, 0, 0), "f32")[:5001])
    scaled = rand_uniform_from(kernels, Tensor.from_numpy(kernels.device, got), dtype("f32"), 0, 2)
    np.testing.assert_array_equal(scaled.numpy(), got * 2)
