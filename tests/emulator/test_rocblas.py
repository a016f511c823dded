"""Matrix products of the emulated librocblas against numpy."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from ctypes import byref, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from some import some

from codegen.device.hip import Buffer
from codegen.paths import repository_root
from emulator.library import Array, Library, StatusError, address, download, fail, fault_of, peek, upload
from emulator.machine import emulator_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.machine import Emulator

NONE, TRANSPOSE, CONJUGATE = 111, 112, 113
INVALID_HANDLE, NOT_IMPLEMENTED, INVALID_POINTER, INVALID_SIZE, INVALID_VALUE = 1, 2, 3, 4, 11
SIZE_QUERY_MISMATCH, SIZE_UNCHANGED = 8, 10
F16, F32, F64, I8, I32, BF16 = 150, 151, 152, 160, 162, 168
DTYPES: dict[int, Any] = {
    F16: np.float16,
    F32: np.float32,
    F64: np.float64,
    I8: np.int8,
    I32: np.int32,
    BF16: ml_dtypes.bfloat16,
}
COMBINATIONS = [
    (F64, F64, F64),
    (F32, F32, F32),
    (F16, F16, F16),
    (F16, F16, F32),
    (F16, F32, F32),
    (BF16, BF16, F32),
    (BF16, F32, F32),
    (I8, I32, I32),
]


@dataclass(frozen=True)
class Blas:
    """The library with a handle."""

    library: Library
    handle: c_void_p

    @property
    def device(self) -> Emulator:
        return self.library.device

    def call(self, function: str, *arguments: object) -> None:
        self.library.call(f"rocblas_{function}", self.handle, *arguments)

    def status(self, function: str, *arguments: object) -> int:
        return self.library.status(f"rocblas_{function}", self.handle, *arguments)


@pytest.fixture
def blas(device: Emulator) -> Iterator[Blas]:
    library = Library(device, "rocblas")
    handle = library.handle("rocblas_create_handle")
    yield Blas(library, handle)
    library.call("rocblas_destroy_handle", handle)


def numbers(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small integers: their products and sums are exact in every type."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def scalar(code: int, value: float) -> Any:
    return np.array([value], DTYPES[code]).ctypes.data_as(c_void_p)


def padded(array: Array, leading: int) -> tuple[Array, Array]:
    """Columns of a matrix `leading` elements apart, with gaps of the value 77; all of it, and the matrix in it."""
    whole = np.full((leading, array.shape[1]), 77, array.dtype, order="F")
    whole[: array.shape[0]] = array
    return whole, whole[: array.shape[0]]


def stored(operation: int, array: Array) -> Array:
    """The matrix of which an operation makes the given one."""
    return array if operation == NONE else array.T


@pytest.mark.parametrize(("input_type", "output_type", "compute_type"), COMBINATIONS)
@pytest.mark.parametrize(("op_a", "op_b"), list(product([NONE, TRANSPOSE, CONJUGATE], [NONE, TRANSPOSE])))
def test_gemm_ex(blas: Blas, input_type: int, output_type: int, compute_type: int, op_a: int, op_b: int) -> None:
    m, n, k = 13, 7, 11
    a, b = numbers(DTYPES[input_type], (m, k), 1), numbers(DTYPES[input_type], (k, n), 2)
    c = numbers(DTYPES[output_type], (m, n), 3)
    (a_whole, _), (b_whole, _) = padded(stored(op_a, a), 17), padded(stored(op_b, b), 19)
    (c_whole, _), (d_whole, d) = padded(c, 14), padded(np.zeros_like(c), 15)
    buffers = [upload(blas.device, whole) for whole in (a_whole, b_whole, c_whole, d_whole)]
    matrices = [
        (address(buffers[0]), input_type, 17),
        (address(buffers[1]), input_type, 19),
        (address(buffers[2]), output_type, 14),
        (address(buffers[3]), output_type, 15),
    ]
    alpha, beta = scalar(compute_type, 2), scalar(compute_type, -3)
    arguments = [op_a, op_b, m, n, k, alpha, *matrices[0], *matrices[1], beta, *matrices[2], *matrices[3]]
    blas.call("gemm_ex", *arguments, compute_type, 0, 0, c_uint32(0))

    d[:] = 2 * (a.astype(float) @ b.astype(float)) - 3 * c.astype(float)
    np.testing.assert_array_equal(download(blas.device, buffers[3], d_whole), d_whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_that_of_the_type(blas: Blas, dtype: Any) -> None:
    """Sums of k products are within k roundings of the exact ones, and not closer than the type allows."""
    m, n, k = 5, 3, 1000
    random = np.random.default_rng(4)
    a, b = random.standard_normal((m, k)).astype(dtype), random.standard_normal((k, n)).astype(dtype)
    c = np.zeros((m, n), dtype, order="F")
    c_buffer = upload(blas.device, c)
    number = {np.float32: c_float, np.float64: c_double}[dtype]
    function = {np.float32: "sgemm", np.float64: "dgemm"}[dtype]
    a_buffer, b_buffer = upload(blas.device, np.asfortranarray(a)), upload(blas.device, np.asfortranarray(b))
    factors = byref(number(1)), byref(number(0))
    blas.call(
        function, NONE, NONE, m, n, k, factors[0], address(a_buffer), m, address(b_buffer), k, factors[1],
        address(c_buffer), m,
    )  # fmt: skip
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    bound = k * np.finfo(dtype).eps * (np.abs(a.astype(float)) @ np.abs(b.astype(float)))
    error = np.abs(download(blas.device, c_buffer, c) - exact)
    assert (error <= bound).all()
    assert (error > 0).any()


@dataclass(frozen=True)
class Gemm:
    """Arguments of rocblas_sgemm: a product of 3 x 5 and 5 x 4 without gaps, and how they are told."""

    op_a: int = NONE
    op_b: int = NONE
    m: int = 3
    n: int = 4
    k: int = 5
    alpha: float | None = 1
    a: int = 0
    lda: int = 3
    b: int = 0
    ldb: int = 5
    beta: float | None = 0
    c: int = 0
    ldc: int = 3

    def arguments(self) -> list[object]:
        alpha, beta = (None if value is None else byref(c_float(value)) for value in (self.alpha, self.beta))
        a, b, c = c_void_p(self.a), c_void_p(self.b), c_void_p(self.c)
        sizes = (self.op_a, self.op_b, self.m, self.n, self.k)
        return [*sizes, alpha, a, self.lda, b, self.ldb, beta, c, self.ldc]


@pytest.fixture
def gemm(blas: Blas) -> tuple[Gemm, Array, Buffer]:
    """A right call, what it computes, and where to."""
    a, b = numbers(np.float32, (3, 5), 1), numbers(np.float32, (5, 4), 2)
    a_buffer, b_buffer = upload(blas.device, np.asfortranarray(a)), upload(blas.device, np.asfortranarray(b))
    c_buffer = blas.device.allocate(3 * 4 * 4)
    expected = np.asfortranarray(a @ b)
    return Gemm(a=a_buffer.address, b=b_buffer.address, c=c_buffer.address), expected, c_buffer


def test_beta_zero_reads_no_c(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    """C was never written: reading it would be reported, and it holds NaN."""
    call, expected, c = gemm
    blas.call("sgemm", *call.arguments())
    np.testing.assert_array_equal(download(blas.device, c, expected), expected)


def test_alpha_zero_reads_neither_a_nor_b(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    blas.call("sgemm", *replace(call, alpha=0, a=blas.device.allocate(60).address, b=0).arguments())
    np.testing.assert_array_equal(download(blas.device, c, expected), np.zeros_like(expected))


def test_no_terms_scale_c(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    blas.call("sgemm", *call.arguments())
    blas.call("sgemm", *replace(call, k=0, alpha=None, a=0, b=0, beta=3).arguments())
    np.testing.assert_array_equal(download(blas.device, c, expected), 3 * expected)


@pytest.mark.parametrize("empty", [{"m": 0}, {"n": 0}, {"m": 0, "n": 0, "k": 0}])
def test_nothing_to_do_needs_no_memory(blas: Blas, empty: dict[str, int]) -> None:
    blas.call("sgemm", *replace(Gemm(alpha=None, beta=None), **empty).arguments())


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"op_a": 0}, INVALID_VALUE),
        ({"op_b": 114}, INVALID_VALUE),
        ({"m": -1}, INVALID_SIZE),
        ({"n": -1}, INVALID_SIZE),
        ({"k": -1}, INVALID_SIZE),
        ({"lda": 2}, INVALID_SIZE),
        ({"op_a": TRANSPOSE}, INVALID_SIZE),
        ({"ldb": 4}, INVALID_SIZE),
        ({"ldc": 2}, INVALID_SIZE),
        ({"alpha": None}, INVALID_POINTER),
        ({"beta": None}, INVALID_POINTER),
        ({"a": 0}, INVALID_POINTER),
        ({"b": 0}, INVALID_POINTER),
        ({"c": 0}, INVALID_POINTER),
    ],
    ids=str,
)
def test_wrong_arguments(blas: Blas, gemm: tuple[Gemm, Array, Buffer], change: dict[str, Any], status: int) -> None:
    assert blas.status("sgemm", *replace(gemm[0], **change).arguments()) == status


def test_a_destroyed_handle_is_none(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    handle = blas.library.handle("rocblas_create_handle")
    blas.library.call("rocblas_destroy_handle", handle)
    for wrong in (handle, None):
        assert blas.library.status("rocblas_sgemm", wrong, *gemm[0].arguments()) == INVALID_HANDLE


def test_combinations_that_rocblas_lacks(blas: Blas) -> None:
    complex_f32 = 154
    for types in [(F32, F64, F64), (F16, F16, F64), (I8, F32, F32), (complex_f32,) * 3]:
        matrix = [c_void_p(1), types[0], 4]
        output = [c_void_p(1), types[1], 4]
        alpha, beta = scalar(F64, 1), scalar(F64, 0)
        arguments = [NONE, NONE, 4, 4, 4, alpha, *matrix, *matrix, beta, *output, *output]
        assert blas.status("gemm_ex", *arguments, types[2], 0, 0, c_uint32(0)) == NOT_IMPLEMENTED


@pytest.mark.parametrize(("function", "dtype"), [("hgemm", np.float16), ("sgemm", np.float32), ("dgemm", np.float64)])
@pytest.mark.parametrize("shared_a", [False, True], ids=["every item has its A", "stride zero: one A for all"])
def test_strided_batches(blas: Blas, function: str, dtype: Any, shared_a: bool) -> None:  # noqa: FBT001 - a parameter
    m, n, k, count = 3, 2, 5, 4
    a, b = numbers(dtype, (count, m, k), 1), numbers(dtype, (count, k, n), 2)
    if shared_a:
        a[:] = a[0]
    columns = [np.ascontiguousarray(matrices.transpose(0, 2, 1)) for matrices in (a, b)]
    buffers = [upload(blas.device, column) for column in columns]
    gap = 3
    d = np.full((count, m * n + gap), 9, dtype)
    d_buffer = upload(blas.device, d)
    one, zero = (np.array([value], dtype).ctypes.data_as(c_void_p) for value in (1, 0))
    stride_a = c_int64(0 if shared_a else m * k)
    blas.call(
        f"{function}_strided_batched", NONE, NONE, m, n, k, one, address(buffers[0]), m, stride_a,
        address(buffers[1]), k, c_int64(k * n), zero, address(d_buffer), m, c_int64(m * n + gap), count,
    )  # fmt: skip
    d[:, : m * n] = (a @ b).transpose(0, 2, 1).reshape(count, m * n)
    np.testing.assert_array_equal(download(blas.device, d_buffer, d), d)


def test_batches_of_pointers(blas: Blas) -> None:
    size, count = 3, 3
    a, b = numbers(np.float32, (count, size, size), 1), numbers(np.float32, (count, size, size), 2)
    places = {
        name: [upload(blas.device, np.ascontiguousarray(matrix.T)).address for matrix in matrices]
        for name, matrices in {"a": a, "b": b}.items()
    }
    places["d"] = [blas.device.allocate(size * size * 4).address for _ in range(count)]
    arrays = {name: upload(blas.device, np.array(entries, np.uint64)) for name, entries in places.items()}
    parts = {name: (address(array), F32, size) for name, array in arrays.items()}
    one, zero = byref(c_float(1)), byref(c_float(0))
    arguments = [NONE, NONE, size, size, size, one, *parts["a"], *parts["b"], zero, *parts["d"], *parts["d"]]
    blas.call("gemm_batched_ex", *arguments, count, F32, 0, 0, c_uint32(0))
    for item, place in some(enumerate(places["d"])):
        expected = np.asfortranarray(a[item] @ b[item])
        np.testing.assert_array_equal(download(blas.device, Buffer(place, expected.nbytes), expected), expected)


def ex(blas: Blas, types: tuple[int, ...], sizes: tuple[int, int, int], factors: tuple[float, float], *at: int) -> int:
    """The status of rocblas_gemm_ex with matrices without gaps; types are those of A, B, C, D and the sums."""
    m, n, k = sizes
    a, b, c, d = ((c_void_p(place), of, rows) for place, of, rows in zip(at, types, (m, max(k, 1), m, m), strict=False))
    alpha, beta = (scalar(types[4], factor) for factor in factors)
    return blas.status("gemm_ex", NONE, NONE, m, n, k, alpha, *a, *b, beta, *c, *d, types[4], 0, 0, c_uint32(0))


@pytest.mark.parametrize(("types", "exact"), [((F64,) * 5, 2**24 + 1), ((I8, I8, I32, I32, I32), 127 * 127 * 1041)])
def test_sums_are_exact_where_f32_is_not(blas: Blas, types: tuple[int, ...], exact: int) -> None:
    """The sums are odd, and larger than 2^24."""
    k = 1041
    values = np.full((k, 1), 127) if types[0] == I8 else np.append(np.ones((k - 1, 1)), [[exact - k + 1]], 0)
    a = upload(blas.device, np.ascontiguousarray(values.T).astype(DTYPES[types[0]]))
    b = upload(blas.device, (values if types[0] == I8 else np.ones((k, 1))).astype(DTYPES[types[1]]))
    d = np.zeros((1, 1), DTYPES[types[3]])
    place = upload(blas.device, d)
    assert ex(blas, types, (1, 1, k), (1, 0), a.address, b.address, 0, place.address) == 0
    assert download(blas.device, place, d).tolist() == [[exact]]


def test_without_products_c_is_scaled_into_d(blas: Blas) -> None:
    c, d = np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((2, 3), np.float32)
    types, sizes = (F32,) * 5, (2, 3, 0)
    source, target = upload(blas.device, np.asfortranarray(c)), upload(blas.device, np.asfortranarray(d))
    for beta in (1, 3):
        assert ex(blas, types, sizes, (1, beta), 0, 0, source.address, target.address) == 0
        np.testing.assert_array_equal(download(blas.device, target, np.asfortranarray(d)), beta * c)
    assert ex(blas, types, sizes, (1, 1), 0, 0, 0, target.address) == INVALID_POINTER
    assert ex(blas, types, sizes, (1, 1), 0, 0, source.address, 0) == INVALID_POINTER
    assert ex(blas, types, sizes, (1, 0), 0, 0, 0, target.address) == 0
    assert ex(blas, types, sizes, (1, 1), 0, 0, 0, 0) == 0, "there is nothing to do"
    assert download(blas.device, target, np.asfortranarray(d)).tolist() == d.tolist()
    unlike = (F16, F32, F32, F32, F32)
    for types in (unlike, (F16, F16, F16, F32, F32), (F32, F32, F64, F32, F32)):
        assert ex(blas, types, (2, 3, 4), (1, 0), *[target.address] * 4) == NOT_IMPLEMENTED


def test_counts_of_a_batch(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    given = call.arguments()
    for count, status in ((0, 0), (-1, INVALID_SIZE), (1, 0)):
        batched: list[object] = [*given[:8], c_int64(0), *given[8:10], c_int64(0), *given[10:], c_int64(0), count]
        assert blas.status("sgemm_strided_batched", *batched) == status
        if count < 1:
            assert peek(blas.device, c.address, 4) == bytes([255]) * 4
    np.testing.assert_array_equal(download(blas.device, c, expected), expected)


def test_a_wild_pointer_in_a_batch_is_reported(blas: Blas) -> None:
    array = upload(blas.device, np.array([0x1234, 0x1234], np.uint64))
    part = (address(array), F32, 2)
    one, zero = byref(c_float(1)), byref(c_float(0))
    arguments = [NONE, NONE, 2, 2, 2, one, *part, *part, zero, *part, *part]
    blas.call("gemm_batched_ex", *arguments, 2, F32, 0, 0, c_uint32(0))
    assert "rocblas_gemm_batched_ex, matrix A: invalid read of 16 bytes at 0x1234" in fault_of(blas.device)


def test_a_product_waits_for_its_stream(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    stream = c_void_p()
    blas.device.call("hipStreamCreateWithFlags", byref(stream), c_uint32(1))
    blas.call("set_stream", stream)
    blas.call("sgemm", *call.arguments())
    poison = b"\xff" * expected.nbytes
    assert peek(blas.device, c.address, expected.nbytes) == poison
    blas.device.call("hipStreamSynchronize", stream)
    assert peek(blas.device, c.address, expected.nbytes) == expected.tobytes("F")
    known = c_void_p()
    blas.call("get_stream", byref(known))
    assert known.value == stream.value
    blas.device.call("hipStreamDestroy", stream)


def test_factors_on_the_device_are_read_when_the_work_is_done(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    factors = blas.device.allocate(8)
    blas.call("set_pointer_mode", 1)
    arguments = call.arguments()
    arguments[5], arguments[10] = c_void_p(factors.address), c_void_p(factors.address + 4)
    blas.device.call("hipMemcpy", address(factors), np.array([2, 0], np.float32).tobytes(), c_size_t(8), c_int(1))
    blas.call("sgemm", *arguments)
    np.testing.assert_array_equal(download(blas.device, c, expected), 2 * expected)

    arguments[5] = c_void_p(blas.device.allocate(4).address)
    blas.call("sgemm", *arguments)
    assert "rocblas_sgemm, alpha: uninitialised read of 4 bytes" in fault_of(blas.device)


def test_memory_past_the_end_is_reported(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, _, c = gemm
    blas.call("sgemm", *replace(call, n=5).arguments())
    assert "rocblas_sgemm, matrix B: invalid read of 100 bytes" in fault_of(blas.device)
    blas.call("sgemm", *replace(call, c=c.address + 4).arguments())
    report = fault_of(blas.device)
    assert "rocblas_sgemm, matrix C: invalid write of 48 bytes" in report or "matrix D: invalid write" in report
    assert "4 bytes of it past the end of allocation" in report


def test_memory_that_was_never_written_is_reported(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    blas.call("sgemm", *replace(call, a=blas.device.allocate(60).address).arguments())
    assert "rocblas_sgemm, matrix A: uninitialised read of 60 bytes" in fault_of(blas.device)
    blas.call("sgemm", *replace(call, beta=1).arguments())
    assert "rocblas_sgemm, matrix C: uninitialised read" in fault_of(blas.device)
    blas.call("sgemm", *call.arguments())
    np.testing.assert_array_equal(download(blas.device, c, expected), expected)


def test_the_gaps_between_columns_need_no_memory(blas: Blas) -> None:
    """The last column ends the matrix: after it comes no gap."""
    a = blas.device.allocate((2 * 7 + 3) * 4)
    for column in range(3):
        values = np.full(3, column, np.float32).tobytes()
        blas.device.call("hipMemcpy", c_void_p(a.address + column * 28), values, c_size_t(12), c_int(1))
    c = np.zeros((3, 3), np.float32, order="F")
    c_buffer = upload(blas.device, c)
    identity = upload(blas.device, np.eye(3, dtype=np.float32))
    one, zero = byref(c_float(1)), byref(c_float(0))
    blas.call(
        "sgemm", NONE, NONE, 3, 3, 3, one, address(a), 7, address(identity), 3, zero, address(c_buffer), 3
    )  # fmt: skip
    np.testing.assert_array_equal(download(blas.device, c_buffer, c), np.tile(np.arange(3, dtype=np.float32), (3, 1)))


def test_the_nth_call_can_be_made_to_fail(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    call, expected, c = gemm
    memory_error = 5
    fail(blas.device, "rocblas_sgemm", 2, memory_error)
    assert [blas.status("sgemm", *call.arguments()) for _ in range(3)] == [0, memory_error, 0]
    np.testing.assert_array_equal(download(blas.device, c, expected), expected)


VECTORS = {
    "sgemv": (np.float32, np.float32, np.float32),
    "dgemv": (np.float64, np.float64, np.float64),
    "sgemv_strided_batched": (np.float32, np.float32, np.float32),
    "dgemv_strided_batched": (np.float64, np.float64, np.float64),
    "hshgemv_strided_batched": (np.float16, np.float16, np.float32),
    "hssgemv_strided_batched": (np.float16, np.float32, np.float32),
    "tstgemv_strided_batched": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32),
    "tssgemv_strided_batched": (ml_dtypes.bfloat16, np.float32, np.float32),
}
"""Types of A and x, of y, and in which sums are made."""


@pytest.mark.parametrize("function", VECTORS)
@pytest.mark.parametrize("operation", [NONE, TRANSPOSE])
@pytest.mark.parametrize(("incx", "incy"), [(1, 1), (2, 3), (-2, -1)])
def test_gemv(blas: Blas, function: str, operation: int, incx: int, incy: int) -> None:
    input_type, output_type, compute_type = VECTORS[function]
    m, n = 5, 7
    lengths = (n, m) if operation == NONE else (m, n)
    count = 3 if "batched" in function else 1
    a = numbers(input_type, (count, m, n), 1)
    x, y = numbers(input_type, (count, lengths[0]), 2), numbers(output_type, (count, lengths[1]), 3)
    x_whole, x_inside = spread(x, incx)
    y_whole, y_inside = spread(y, incy)
    buffers = [upload(blas.device, np.ascontiguousarray(a.transpose(0, 2, 1)))]
    buffers += [upload(blas.device, whole) for whole in (x_whole, y_whole)]
    alpha, beta = (np.array([value], compute_type).ctypes.data_as(c_void_p) for value in (2, -1))
    strides = [c_int64(m * n), c_int64(x_whole.shape[1]), c_int64(y_whole.shape[1])]
    operands: list[list[object]] = [[address(buffers[0]), m], [address(buffers[1]), incx], [address(buffers[2]), incy]]
    if "batched" in function:
        for operand, stride in zip(operands, strides, strict=True):
            operand.append(stride)
    last = [count] if "batched" in function else []
    blas.call(function, operation, m, n, alpha, *operands[0], *operands[1], beta, *operands[2], *last)

    matrices = a if operation == NONE else a.transpose(0, 2, 1)
    y_inside[:] = 2 * np.einsum("bij,bj->bi", matrices.astype(float), x.astype(float)) - y.astype(float)
    assert np.shares_memory(x_whole, x_inside)
    np.testing.assert_array_equal(download(blas.device, buffers[2], y_whole), y_whole)


def spread(vectors: Array, increment: int) -> tuple[Array, Array]:
    """Vectors with elements an increment apart, backwards if it is negative; all of it, and the vectors in it."""
    whole = np.full((vectors.shape[0], vectors.shape[1] * abs(increment)), 55, vectors.dtype)
    inside = whole[:, :: abs(increment)][:, :: 1 if increment > 0 else -1]
    inside[:] = vectors
    return whole, inside


@pytest.mark.parametrize(
    ("change", "status"),
    [((1, -1), INVALID_SIZE), ((5, 0), INVALID_SIZE), ((7, 0), INVALID_SIZE), ((10, 0), INVALID_SIZE),
     ((2, -1), INVALID_SIZE), ((5, 3), INVALID_SIZE), ((1, 0), 0), ((2, 0), 0),
     ((3, None), INVALID_POINTER), ((8, None), INVALID_POINTER), ((6, None), INVALID_POINTER), ((0, 7), INVALID_VALUE)],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_of_gemv(blas: Blas, change: tuple[int, Any], status: int) -> None:
    one = byref(c_float(1))
    memory = address(upload(blas.device, numbers(np.float32, (4, 4))))
    arguments: list[object] = [NONE, 4, 4, one, memory, 4, memory, 1, one, memory, 1]
    assert blas.status("sgemv", *arguments) == 0
    arguments[change[0]] = change[1]
    assert blas.status("sgemv", *arguments) == status


def test_sums_are_of_the_compute_type(blas: Blas) -> None:
    """60000 + 60000 - 60000: too much for f16 in between, not for f32."""
    terms = np.array([[60000, 60000, -60000]], np.float16)
    x, ones = upload(blas.device, terms), upload(blas.device, np.ones((3, 1), np.float16))
    sums = []
    for compute_type in (F16, F32):
        result = np.zeros((1, 1), np.float16)
        y = address(buffer := upload(blas.device, result))
        matrices = [(address(x), F16, 1), (address(ones), F16, 3), (y, F16, 1), (y, F16, 1)]
        alpha, beta = scalar(compute_type, 1), scalar(compute_type, 0)
        arguments = [NONE, NONE, 1, 1, 3, alpha, *matrices[0], *matrices[1], beta, *matrices[2], *matrices[3]]
        blas.call("gemm_ex", *arguments, compute_type, 0, 0, c_uint32(0))
        sums.append(float(download(blas.device, buffer, result)[0, 0]))
    assert sums == [np.inf, 60000]


XF32 = """
import os, sys
from ctypes import byref, c_float, c_void_p
import numpy as np
sys.path.insert(0, "tests")
from codegen.device.hip import Device
from codegen.device.libraries import find_libraries
from emulator.library import Library, address, download, upload
os.environ["CANDLE_ROCM_EMULATOR_DEVICES"] = "gfx942,gfx90a"  # now: the import clears what is set from outside
found = []
for index in range(2):
    device = Device(index, find_libraries())
    library = Library(device, "rocblas")
    handle = library.handle("rocblas_create_handle")
    for mode, function, number in ((0, "s", np.float32), (1, "s", np.float32), (1, "d", np.float64)):
        library.call("rocblas_set_math_mode", handle, mode)
        x, one = (upload(device, np.full((1, 1), value, number)) for value in (1 + 2**-12, 1))
        y = np.zeros((1, 1), number)
        buffer = upload(device, y)
        factors = [np.array([value], number).ctypes.data_as(c_void_p) for value in (1, 0)]
        sizes = (111, 111, 1, 1, 1)
        matrices = (address(x), 1, address(one), 1, factors[1], address(buffer), 1)
        library.call(f"rocblas_{function}gemm", handle, *sizes, factors[0], *matrices)
        found.append(float(download(device, buffer, y)[0, 0]) == 1)
print(found)
"""


def test_only_gfx942_rounds_f32() -> None:
    environment = {**os.environ, "CANDLE_ROCM_HIP": str(emulator_folder())}
    command = [sys.executable, "-c", XF32]
    root = repository_root()
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([False, True, False, False, False, False])


def test_shapes_of_gemv_at_their_limits(blas: Blas) -> None:
    one = byref(c_float(1))
    memory = upload(blas.device, np.ones((4, 4), np.float32))
    y = upload(blas.device, np.zeros(4, np.float32))

    def status(m: int, n: int, lda: int, x: int, incx: int, count: int | None = None) -> int:
        places = [[c_void_p(memory.address), lda], [c_void_p(x), incx], [address(y), 1]]
        strides: list[object] = [] if count is None else [c_int64(0)]
        (a, b, c), last = ([*place, *strides] for place in places), [] if count is None else [count]
        return blas.status(
            "sgemv" if count is None else "sgemv_strided_batched", NONE, m, n, one, *a, *b, one, *c, *last
        )

    assert status(1, 4, 1, memory.address, 1) == 0
    assert [status(0, 4, 0, memory.address, 1), status(0, 4, 1, 0, 1)] == [INVALID_SIZE, 0]
    assert status(4, 4, 4, 0, -1) == INVALID_POINTER
    assert [status(4, 4, 4, memory.address, 1, count) for count in (-1, 0, 1)] == [INVALID_SIZE, 0, 0]
    assert download(blas.device, y, np.zeros(4, np.float32)).tolist() == [8, 4, 4, 4]


@pytest.mark.parametrize("mode", ["pointer_mode", "atomics_mode", "math_mode"])
def test_modes_are_remembered(blas: Blas, mode: str) -> None:
    known = c_int(7)
    for value in (1, 0):
        blas.call(f"set_{mode}", value)
        blas.call(f"get_{mode}", byref(known))
        assert known.value == value
    assert blas.status(f"set_{mode}", 2) == INVALID_VALUE
    assert blas.status(f"get_{mode}", None) == INVALID_POINTER


def test_workspace(blas: Blas, gemm: tuple[Gemm, Array, Buffer]) -> None:
    size = c_size_t()
    blas.call("get_device_memory_size", byref(size))
    assert size.value > 0
    assert blas.status("is_managing_device_memory") & 1 == 1
    blas.call("set_workspace", address(blas.device.allocate(4096)), c_size_t(4096))
    blas.call("get_device_memory_size", byref(size))
    assert (size.value, blas.status("is_user_managing_device_memory") & 1) == (4096, 1)

    assert blas.status("stop_device_memory_size_query", byref(size)) == SIZE_QUERY_MISMATCH
    blas.call("start_device_memory_size_query")
    assert blas.status("sgemm", *gemm[0].arguments()) == SIZE_UNCHANGED
    blas.call("stop_device_memory_size_query", byref(size))
    assert size.value == 0


def test_names(blas: Blas) -> None:
    functions = blas.library.functions
    functions.rocblas_status_to_string.restype = c_char_p
    assert functions.rocblas_status_to_string(INVALID_SIZE) == b"rocblas_status_invalid_size"
    size, text = c_size_t(), ctypes.create_string_buffer(64)
    blas.library.call("rocblas_get_version_string_size", byref(size))
    blas.library.call("rocblas_get_version_string", text, size)
    assert text.value == b"5.2.0-emulator"
    with pytest.raises(StatusError, match="returned 4"):
        blas.library.call("rocblas_get_version_string", text, c_size_t(size.value - 1))
    functions.rocblas_initialize()


PRODUCT = """
import ctypes, sys
import numpy as np
sys.path.insert(0, "tests")
from codegen.device.hip import Device
from codegen.device.libraries import find_libraries
from emulator.library import Library, address, download, upload
device = Device(0, find_libraries())
library = Library(device, "rocblas")
handle = library.handle("rocblas_create_handle")
one = np.ones((1, 1), np.float32)
buffers = [upload(device, one) for _ in range(3)]
factors = [np.array([value], np.float32).ctypes.data_as(ctypes.c_void_p) for value in (1, 0)]
matrices = (address(buffers[0]), 1, address(buffers[1]), 1, factors[1], address(buffers[2]), 1)
print("multiplies", flush=True)
library.call("rocblas_sgemm", handle, 111, 111, 1, 1, 1, factors[0], *matrices)
device.synchronize()
print("done")
"""


@pytest.mark.parametrize(("kernels_for", "said"), [("gfx1100", "multiplies\ndone\n"), ("gfx1101", "multiplies\n")])
def test_a_product_without_kernels_for_the_gpu_ends_the_process(tmp_path: Path, kernels_for: str, said: str) -> None:
    (tmp_path / f"TensileLibrary_lazy_{kernels_for}.dat").touch()
    environment = {**os.environ, "CANDLE_ROCM_HIP": str(emulator_folder()), "ROCBLAS_TENSILE_LIBPATH": str(tmp_path)}
    command = [sys.executable, "-c", PRODUCT]
    root = repository_root()
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == said, done.stderr
    assert done.returncode == (0 if "done" in said else -signal.SIGABRT)
    if "done" not in said:
        assert "cannot read" in done.stderr
        assert "there are: TensileLibrary_lazy_gfx1101.dat" in done.stderr
