"""Rotary embeddings against complex multiplication in f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.ops.rope import rope
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype, expand
from kernels.compare import epsilon

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

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
