"""Random numbers of the emulated librocrand: ranges, moments, and where a sequence starts and goes on."""

from __future__ import annotations

from ctypes import byref, c_double, c_float, c_int, c_size_t, c_uint16, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from emulator.library import Array, Library, address, fail, fault_of, peek

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.machine import Emulator

DEFAULT, XORWOW, PHILOX, SOBOL32 = 400, 401, 404, 501
NOT_CREATED, TYPE_ERROR, OUT_OF_RANGE, LENGTH_NOT_MULTIPLE, LAUNCH_FAILURE = 101, 103, 104, 105, 107
UNIFORM = {"uniform": np.float32, "uniform_double": np.float64, "uniform_half": np.float16}
NORMAL = {"normal": np.float32, "normal_double": np.float64, "normal_half": np.float16}
COUNT = 20_000


def argument(dtype: Any, value: float) -> object:
    if dtype == np.float16:
        return c_uint16(int(np.float16(value).view(np.uint16)))
    return c_float(value) if dtype == np.float32 else c_double(value)


@dataclass(frozen=True)
class Generator:
    """A generator, and the library that it is of."""

    library: Library
    handle: c_void_p

    def set(self, what: str, value: int) -> None:
        self.library.call(f"rocrand_set_{what}", self.handle, c_ulonglong(value))

    def draw(self, function: str, dtype: Any, count: int, *shape: float) -> Array:
        """`count` numbers; `shape` is mean and deviation."""
        buffer = self.library.device.allocate(count * np.dtype(dtype).itemsize)
        values = [argument(dtype, value) for value in shape]
        name = "rocrand_generate" + (f"_{function}" if function else "")
        self.library.call(name, self.handle, address(buffer), c_size_t(count), *values)
        return np.frombuffer(self.library.device.download(buffer), dtype)


@pytest.fixture
def generator(device: Emulator) -> Iterator[Generator]:
    library = Library(device, "rocrand")
    handle = library.handle("rocrand_create_generator", PHILOX)
    yield Generator(library, handle)
    library.call("rocrand_destroy_generator", handle)


@pytest.mark.parametrize("function", UNIFORM)
def test_uniform_numbers_exclude_zero_and_include_one(generator: Generator, function: str) -> None:
    drawn = generator.draw(function, UNIFORM[function], COUNT).astype(np.float64)
    assert (drawn > 0).all()
    assert (drawn <= 1).all()
    # Five standard deviations of the mean, and of the share below a quarter.
    assert abs(drawn.mean() - 0.5) < 5 / np.sqrt(12 * COUNT)
    assert abs((drawn < 0.25).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / COUNT)


def test_uniform_halves_reach_one(generator: Generator) -> None:
    """One in 2048 of them is one."""
    assert generator.draw("uniform_half", np.float16, COUNT).max() == 1


@pytest.mark.parametrize("function", NORMAL)
def test_normal_numbers_have_mean_and_deviation(generator: Generator, function: str) -> None:
    drawn = generator.draw(function, NORMAL[function], COUNT, 3.0, 2.0).astype(np.float64)
    assert abs(drawn.mean() - 3) < 5 * 2 / np.sqrt(COUNT)
    assert abs(drawn.std() - 2) < 5 * 2 / np.sqrt(2 * COUNT)
    within = np.abs(drawn - 3) < 2
    assert abs(within.mean() - 0.6827) < 5 * np.sqrt(0.6827 * 0.3173 / COUNT)


@pytest.mark.parametrize("function", NORMAL)
def test_normal_numbers_are_made_in_pairs(generator: Generator, function: str) -> None:
    dtype = NORMAL[function]
    buffer = generator.library.device.allocate(64)
    arguments = (generator.handle, address(buffer), c_size_t(7), argument(dtype, 0), argument(dtype, 1))
    assert generator.library.status(f"rocrand_generate_{function}", *arguments) == LENGTH_NOT_MULTIPLE


@pytest.mark.parametrize(("function", "dtype"), [("", np.uint32), ("long_long", np.uint64)])
def test_every_bit_of_a_word_is_random(generator: Generator, function: str, dtype: Any) -> None:
    drawn = generator.draw(function, dtype, COUNT)
    bits = np.unpackbits(drawn.view(np.uint8).reshape(COUNT, -1), axis=1)
    assert (np.abs(bits.mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(COUNT)).all()


def test_a_seed_fixes_the_sequence(generator: Generator) -> None:
    def sequence(seed: int) -> Array:
        generator.set("seed", seed)
        return generator.draw("uniform", np.float32, 100)

    first, other, again = sequence(1 << 40 | 7), sequence(7), sequence(1 << 40 | 7)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_calls_go_on_where_the_last_one_ended(generator: Generator) -> None:
    whole = generator.draw("", np.uint32, 101)
    generator.set("seed", 0)
    parts = np.concatenate([generator.draw("", np.uint32, count) for count in (1, 0, 33, 67)])
    np.testing.assert_array_equal(parts, whole)


def test_an_offset_leaves_words_out(generator: Generator) -> None:
    whole = generator.draw("", np.uint32, 50)
    generator.set("offset", 13)
    np.testing.assert_array_equal(generator.draw("", np.uint32, 37), whole[13:])


def test_known_words_of_philox(generator: Generator) -> None:
    """The first block of counter and key zero, as the authors of the generator publish it."""
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert generator.draw("", np.uint32, 4).tolist() == words


def test_numbers_are_written_when_the_stream_gets_there(generator: Generator) -> None:
    device, stream = generator.library.device, c_void_p()
    device.call("hipStreamCreateWithFlags", byref(stream), 1)
    generator.library.call("rocrand_set_stream", generator.handle, stream)
    buffer = device.allocate(400)
    generator.library.call("rocrand_generate_uniform", generator.handle, address(buffer), c_size_t(100))
    assert peek(device, buffer.address, 400) == b"\xff" * 400
    device.call("hipStreamSynchronize", stream)
    assert peek(device, buffer.address, 400) != b"\xff" * 400
    device.call("hipStreamDestroy", stream)


def test_memory_past_the_end_is_reported(generator: Generator) -> None:
    device = generator.library.device
    buffer = device.allocate(400)
    generator.library.call("rocrand_generate_uniform", generator.handle, address(buffer), c_size_t(101))
    report = fault_of(device)
    assert "rocrand_generate_uniform, the output: invalid write of 404 bytes" in report
    assert "4 bytes of it past the end of allocation" in report


def test_types_and_orderings(device: Emulator) -> None:
    library, handle = Library(device, "rocrand"), c_void_p()
    for rng_type in (DEFAULT, XORWOW):
        library.call("rocrand_create_generator", byref(handle), rng_type)
        library.call("rocrand_initialize_generator", handle)
        library.call("rocrand_set_ordering", handle, 101)
        assert library.status("rocrand_set_ordering", handle, 201) == OUT_OF_RANGE
        library.call("rocrand_destroy_generator", handle)
        assert library.status("rocrand_destroy_generator", handle) == NOT_CREATED
    assert library.status("rocrand_create_generator", byref(handle), 399) == TYPE_ERROR
    assert library.status("rocrand_create_generator", byref(handle), SOBOL32) == TYPE_ERROR
    assert "quasirandom generators are not supported" in device.report()


def test_version(device: Emulator) -> None:
    version = c_int()
    Library(device, "rocrand").call("rocrand_get_version", byref(version))
    assert version.value == 400200


def test_the_nth_call_can_be_made_to_fail(generator: Generator) -> None:
    device = generator.library.device
    fail(device, "rocrand_generate_uniform", 2, LAUNCH_FAILURE)
    buffer = device.allocate(400)
    arguments = (generator.handle, address(buffer), c_size_t(100))
    statuses = [generator.library.status("rocrand_generate_uniform", *arguments) for _ in range(3)]
    assert statuses == [0, LAUNCH_FAILURE, 0]
