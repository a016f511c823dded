"""Rotary embeddings against complex multiplication in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.rope import rope, rope_append
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype, expand
from kernels.compare import assert_same_bits, epsilon
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels
    from codegen.kernels.dtypes import DType

Array = np.ndarray[Any, Any]

SHAPES = [(1, 1, 1, 2), (2, 3, 5, 8), (1, 2, 7, 64), (3, 2, 3, 6), (2, 1, 37, 34), (1, 3, 2, 4096), (0, 2, 3, 8)]
"""(b, h, t, d): one pair, whole packs, packs that do not divide a row, several blocks, rows beyond a block, none."""


def reference(x: Array, cos: Array, sin: Array, *, interleaved: bool) -> Array:
    """x (b, h, t, d) as complex numbers, times cos + i sin (b or 1, t, d / 2), in f64."""
    x, cos, sin = (a.astype(np.float64) for a in (x, cos, sin))
    half = x.shape[-1] // 2
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    turned = (first + 1j * second) * (cos + 1j * sin).reshape(-1, 1, *cos.shape[-2:])
    if interleaved:
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
    return np.concatenate([turned.real, turned.imag], axis=-1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("element", expand(("wide-float",)), ids=str)
def test_rope(kernels: Kernels, element: Any, shape: tuple[int, int, int, int]) -> None:
    """Every form of pairs, order of dimensions and of angles."""
    batch, _, length, depth = shape
    random = np.random.default_rng(depth)
    kind = numpy_type(element)
    x = random.standard_normal(shape).astype(kind)
    for per_batch in (False, True):
        angles = random.standard_normal((2, *((batch,) if per_batch else ()), length, depth // 2))
        cos, sin = np.cos(angles[0]).astype(kind), np.sin(angles[1]).astype(kind)
        on_device = [Tensor.from_numpy(kernels.device, a) for a in (cos, sin)]
        for interleaved in (False, True):
            expected = reference(x, cos, sin, interleaved=interleaved)
            # Each result is a sum of two products that are below |x| each, rounded once to the element type.
            allowed = 2 * epsilon(kind) * (np.abs(x).astype(np.float64).max(initial=0))
            for heads_inside in (False, True):
                axes = (0, 2, 1, 3) if heads_inside else (0, 1, 2, 3)
                given = Tensor.from_numpy(kernels.device, x.transpose(axes))
                result = rope(kernels, given, *on_device, interleaved=interleaved, heads_inside=heads_inside).numpy()
                difference = np.abs(result.astype(np.float64) - expected.transpose(axes))
                assert difference.max(initial=0) <= allowed, (per_batch, interleaved, heads_inside)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_misaligned_rows(kernels: Kernels, kind: type, interleaved: bool) -> None:  # noqa: FBT001 - a parameter
    """A tensor that starts at a multiple of its element's size only: a pair of f64 is no access of 16 bytes there."""
    memory: Array = np.random.default_rng(1).standard_normal(1 + 3 * 16).astype(kind)
    angles: Array = np.random.default_rng(2).standard_normal((3, 8)).astype(kind)
    cos, sin = np.cos(angles), np.sin(angles)
    tensor = Tensor.from_numpy(kernels.device, memory).narrow(0, 1, 48)
    x = tensor.reshaped(1, 1, 3, 16)
    on_device = [Tensor.from_numpy(kernels.device, a) for a in (cos, sin)]

    result = rope(kernels, x, *on_device, interleaved=interleaved).numpy()

    expected = reference(memory[1:].reshape(1, 1, 3, 16), cos, sin, interleaved=interleaved)
    np.testing.assert_allclose(result, expected, atol=1e-5)


def test_special_values_reach_only_their_pair(kernels: Kernels) -> None:
    x = np.ones((1, 1, 2, 8), dtype=np.float32)
    x[0, 0, 1, 2] = np.nan
    x[0, 0, 0, 5] = np.inf
    angles = np.full((2, 4), 0.5, dtype=np.float32)
    on_device = [Tensor.from_numpy(kernels.device, a) for a in (angles, angles)]

    result = rope(kernels, Tensor.from_numpy(kernels.device, x), *on_device).numpy()

    assert np.argwhere(np.isnan(result)).tolist() == [[0, 0, 1, 2], [0, 0, 1, 6]]
    assert np.argwhere(np.isinf(result)).tolist() == [[0, 0, 0, 1], [0, 0, 0, 5]]
    assert dtype("f32").size == result.itemsize


CACHED = [(1, 4, 2, 1, 64), (2, 3, 1, 5, 32), (1, 2, 2, 37, 128), (3, 1, 1, 2, 4096), (1, 2, 1, 0, 64)]
"""(b, h, g, t, d): one position and several, rows of a few packs and beyond a block, none."""


@pytest.mark.parametrize("shape", CACHED, ids=str)
@pytest.mark.parametrize("element", expand(("wide-float",)), ids=str)
def test_keys_and_values_go_to_caches(kernels: Kernels, element: DType, shape: tuple[int, ...]) -> None:
    """Bit for bit as rotated and then moved; other rows of the caches stay, and a place that is none is left out."""
    batch, heads, key_heads, length, depth = shape
    random = np.random.default_rng(depth)
    kind = numpy_type(element)
    capacity = length + 3

    def drawn(*sizes: int) -> Array:
        return random.standard_normal(sizes).astype(kind)

    q, k, v = (drawn(batch, each, length, depth) for each in (heads, key_heads, key_heads))
    caches = [drawn(batch, key_heads, capacity, depth) for _ in range(2)]
    cos, sin = drawn(length + 1, depth // 2), drawn(length + 1, depth // 2)
    places = random.permutation(capacity)[:length].astype(np.uint32)
    expected = [cache.copy() for cache in caches]
    on_device = [Tensor.from_numpy(kernels.device, array) for array in (q, k, v, cos, sin)]
    turned = [rope(kernels, on_device[n], *on_device[3:]).numpy() for n in (0, 1)]
    expected[0][:, :, places], expected[1][:, :, places] = turned[1], v
    kept = [Tensor.from_numpy(kernels.device, cache) for cache in caches]
    if length > 2:
        places[1], places[2] = np.iinfo(np.uint32).max, capacity
        for cache, before in zip(expected, caches, strict=True):
            left = np.setdiff1d(np.arange(capacity), np.delete(places, [1, 2]))
            cache[:, :, left] = before[:, :, left]
    failed = Tensor.from_numpy(kernels.device, np.zeros(1, np.uint32))

    with launched(kernels) as symbols:
        queries = rope_append(
            kernels,
            on_device[0],
            (on_device[1], on_device[2]),
            (on_device[3], on_device[4]),
            Tensor.from_numpy(kernels.device, places),
            (kept[0], kept[1]),
            failed,
        )

    assert symbols == ({f"rope_append_{element}"} if length else set())
    assert_same_bits(queries, turned[0])
    for found, wanted in zip(kept, expected, strict=True):
        assert_same_bits(found, wanted)
    assert failed.numpy().tolist() == [int(length > 2)]


def test_halves_that_are_no_packs_are_left_to_three_operations(kernels: Kernels) -> None:
    zeros = Tensor.from_numpy(kernels.device, np.zeros(4096, np.float32))
    places = Tensor.from_numpy(kernels.device, np.zeros(1, np.uint32))
    for depth, first in ((12, 0), (16, 1)):
        row = zeros.narrow(0, first, depth).reshaped(1, 1, 1, depth)
        angles = zeros.narrow(0, 0, depth // 2).reshaped(1, depth // 2)
        with pytest.raises(ValueError, match="whole packs"):
            rope_append(kernels, row, (row, row), (angles, angles), places, (row, row))
