"""What device functions compute on the emulated device, for waves of 32 and of 64 lanes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.device.hip import HipError, Launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.machine import Emulator

T = np.arange(64, dtype=np.uint32)
Array = np.ndarray[Any, Any]


def run(
    device: Emulator,
    kernel: str,
    initial: Array,
    *arguments: bytes,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    lds: int = 0,
) -> Array:
    """The array after a kernel of right.hip has had it as its first argument."""
    buffer = device.upload(initial.tobytes())
    pointer = struct.pack("<Q", buffer.address)
    device.source("right.hip").launch(Launch(kernel, grid, block, (pointer, *arguments), lds))
    return np.frombuffer(device.download(buffer), initial.dtype)


def lanes_of(wave: int, bits: Callable[[int], bool]) -> Array:
    """For each thread the mask of the lanes of its wave for whose threads `bits` holds."""
    masks = [sum(1 << lane for lane in range(wave) if bits(first + lane)) for first in range(0, 64, wave)]
    return np.repeat(np.array(masks, dtype=np.uint64), wave)


def half_arithmetic() -> Array:
    """(0.1 t * 3 + t) / 7, each step rounded to half precision but for the product inside the sum."""
    tenth = (np.float32(0.1) * T.astype(np.float32)).astype(np.float16).astype(np.float64)
    fused = (tenth * 3 + T).astype(np.float16)
    return (fused.astype(np.float64) / 7).astype(np.float16)


def bfloat16(values: Array) -> Array:
    """The bits of finite floats rounded to bfloat16, to nearest and ties to even, by exact comparison."""
    below = (values.view(np.uint32) >> 16).astype(np.uint32)
    distance = values.view(np.uint32) & 0xFFFF
    up = (distance > 0x8000) | ((distance == 0x8000) & (below % 2 == 1))
    bits: Array = (below + up).astype(np.uint16)
    return bits


EXPECTED: dict[str, Callable[[int], Array]] = {
    "shuffle": lambda wave: T // 8 * 8 + 3,
    "shuffle_up": lambda wave: np.where(T % 16 < 2, T, T - 2),
    "shuffle_down": lambda wave: np.where(T % wave >= wave - 2, T, T + 2),
    "shuffle_xor": lambda wave: T ^ (wave // 2),
    "shuffle_double": lambda wave: (T ^ 1) + 0.5,
    "shuffle_long": lambda wave: np.uint64(1 << 40) + (T ^ 1).astype(np.uint64),
    "shuffle_masked": lambda wave: T ^ 4,
    "ballot": lambda wave: lanes_of(wave, lambda thread: thread % 3 == 0),
    "any_odd": lambda wave: (T // wave == 0).astype(np.int32),
    "all_small": lambda wave: ((T < 32) & (wave == 32)).astype(np.int32),
    "active": lambda wave: lanes_of(wave, lambda thread: True),
    "lane": lambda wave: T % wave,
    "wave": lambda wave: np.full(64, wave, np.uint32),
    "count_barrier": lambda wave: np.full(64, 16, np.int32),
    "and_barrier": lambda wave: np.full(64, 1, np.int32),
    "or_barrier": lambda wave: np.full(64, 2, np.int32),
    "bits": lambda wave: np.array(
        [t.bit_count() + 100 * (32 - t.bit_length()) + 10000 * (t & -t).bit_length() for t in range(64)], np.uint32
    ),
    "reversed": lambda wave: np.array([int(f"{t:032b}"[::-1], 2) for t in range(64)], np.uint32),
    "reciprocal_root": lambda wave: (1 / np.sqrt(T + 1.0)).astype(np.float32),
    "exponential": lambda wave: np.exp(T / 16).astype(np.float32),
    # Only a fused multiplication and addition keeps the square's last bit.
    "contracted": lambda wave: ((1 + T.astype(np.float64) * 2**-13) ** 2 - 1).astype(np.float32),
    "half_precision": lambda wave: (T.astype(np.float32) / np.float32(3)).astype(np.float16),
    "half_arithmetic": lambda wave: half_arithmetic(),
    "half_comparison": lambda wave: (
        ((np.float32(0.1) * T.astype(np.float32)).astype(np.float16) > np.float16(3)).astype(np.int32) + 1
    ),
    "brain_float": lambda wave: bfloat16(T.astype(np.float32) / np.float32(3)),
    "brain_not_a_number": lambda wave: np.full(64, 0x7FC0, np.uint16),
}
EXACT_TO = {"reciprocal_root": 1, "exponential": 1}
"""Units in the last place by which two libraries may differ."""


@pytest.mark.parametrize("kernel", EXPECTED)
def test_device_functions(device: Emulator, kernel: str) -> None:
    expected = EXPECTED[kernel](device.wave_size)
    result = run(device, kernel, np.zeros_like(expected))
    if kernel in EXACT_TO:
        np.testing.assert_array_max_ulp(result, expected, EXACT_TO[kernel])
    else:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("grid", "block"),
    [((1, 1, 1), (1, 1, 1)), ((3, 2, 5), (7, 3, 2)), ((997, 1, 1), (33, 1, 1)), ((1, 1, 2), (4, 8, 32))],
)
def test_every_thread_runs_once(device: Emulator, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    count = int(np.prod(grid) * np.prod(block))
    result = run(device, "number", np.zeros(count, np.uint32), grid=grid, block=block)
    np.testing.assert_array_equal(result, np.arange(count))


def test_atomics(device: Emulator) -> None:
    initial = np.array([0, 0, 99, 0, 0, 0xFFFFFFFF, 0, 0], np.uint32)
    result = run(device, "atomics", initial)
    assert result.tolist()[:7] == [sum(range(64)), 63, 0, 0xFFFFFFFF, int(np.bitwise_xor.reduce(T)), 0, 128]
    assert result[7:].view(np.float32)[0] == 32


def test_an_atomic_on_half_a_word_may_reach_past_the_end(device: Emulator) -> None:
    assert run(device, "half_atomic", np.zeros(1, np.uint16)).tolist() == [64]


def test_blocks_keep_their_lds_while_they_take_turns(device: Emulator) -> None:
    result = run(device, "own_lds", np.zeros(40 * 64, np.uint32), grid=(40, 1, 1), lds=256)
    np.testing.assert_array_equal(result, np.arange(40 * 64))


def test_a_ticket_orders_blocks(device: Emulator) -> None:
    blocks = 17
    x = np.arange(blocks * 64, dtype=np.float32)
    buffers = [device.upload(x.tobytes()), device.allocate(4 * blocks), device.upload(bytes(4)), device.allocate(4)]
    arguments = tuple(struct.pack("<Q", buffer.address) for buffer in buffers)
    device.source("right.hip").launch(Launch("two_stages", (blocks, 1, 1), (64, 1, 1), arguments))
    assert np.frombuffer(device.download(buffers[3]), np.float32)[0] == x.sum()


def test_a_wave_may_synchronize_alone(device: Emulator) -> None:
    np.testing.assert_array_equal(run(device, "wave_synchronous", np.zeros(64, np.uint32)), T ^ 1)


def test_part_of_a_wave_may_exchange_values(device: Emulator) -> None:
    result = run(device, "half_a_wave", np.zeros(64, np.uint32))
    np.testing.assert_array_equal(result, np.where(T % device.wave_size < 16, T ^ 8, T))


def test_an_unsized_array_is_the_dynamic_lds(device: Emulator) -> None:
    np.testing.assert_array_equal(run(device, "unsized_array", np.zeros(64, np.float32), lds=256), T[::-1])


def test_structs_are_passed_by_value(device: Emulator) -> None:
    strides = struct.pack("<B7x4q", 5, 1, -2, 3 << 40, 4)
    result = run(device, "by_value", np.zeros(4, np.int64), strides, struct.pack("<b", 7))
    assert result.tolist() == [13, 10, (3 << 40) + 12, 16]


def test_launch_bounds_are_enforced(device: Emulator) -> None:
    assert run(device, "bounded", np.zeros(64, np.uint32)).tolist() == [1] * 64
    with pytest.raises(HipError, match=r"\(719\)"):
        run(device, "bounded", np.zeros(65, np.uint32), block=(65, 1, 1))


def test_the_limit_on_lds_is_per_kernel(device: Emulator) -> None:
    assert run(device, "big_lds_one", np.zeros(64, np.uint32)).tolist() == [1] * 64
    assert run(device, "big_lds_two", np.zeros(64, np.uint32), lds=16 << 10).tolist() == [2] * 64
    with pytest.raises(HipError, match=r"\(1\)"):
        run(device, "big_lds_two", np.zeros(64, np.uint32), lds=(16 << 10) + 1)


@pytest.mark.parametrize(
    ("grid", "block", "code"),
    [
        ((0, 1, 1), (64, 1, 1), 1),
        ((1, 1, 1), (0, 1, 1), 1),
        ((1, 1, 1), (1025, 1, 1), 1),
        ((1, 1, 1), (64, 64, 1), 1),
        ((1 << 26, 1, 1), (64, 1, 1), 9),
    ],
)
def test_shapes_that_no_card_runs_are_refused(
    device: Emulator, grid: tuple[int, int, int], block: tuple[int, int, int], code: int
) -> None:
    with pytest.raises(HipError, match=rf"hipModuleLaunchKernel: .* \({code}\)"):
        run(device, "number", np.zeros(64, np.uint32), grid=grid, block=block)
