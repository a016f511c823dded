"""Host functions of the emulated libamdhip64 beyond allocation, copies, streams and launches."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    Structure,
    byref,
    c_bool,
    c_char_p,
    c_int,
    c_short,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
    string_at,
)
from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.hip import DEVICE_TO_HOST, HOST_TO_DEVICE, Buffer, HipError, Launch
from emulator.library import address, fail, fault_of, peek, upload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.hip import Module
    from emulator.machine import Emulator

INVALID_VALUE, OUT_OF_MEMORY, INVALID_PITCH, INVALID_FUNCTION, INVALID_DEVICE = 1, 2, 12, 98, 101
UNSUPPORTED_LIMIT, INVALID_HANDLE, NOT_FOUND, ILLEGAL_ADDRESS = 215, 400, 500, 700
PEER_ALREADY, PEER_NOT_ENABLED, ALREADY_REGISTERED, NOT_REGISTERED, NOT_SUPPORTED = 704, 705, 712, 713, 801
DEVICE_TO_DEVICE, DEFAULT = 3, 4
POISON = b"\xff"

SOURCE = """
extern "C" __device__ int counter = 5;
extern "C" __global__ void add(int* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void count(int* x) { x[0] = counter; counter += 1; }
extern "C" __global__ void __launch_bounds__(128) tile(int* x) {
  __shared__ int lds[4096];
  lds[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = lds[blockDim.x - 1 - threadIdx.x];
}
"""


class PointerAttributes(Structure):
    """hipPointerAttribute_t"""

    _fields_ = (
        ("type", c_uint),
        ("device", c_int),
        ("device_pointer", c_void_p),
        ("host_pointer", c_void_p),
        ("is_managed", c_int),
        ("flags", c_uint),
    )


class Location(Structure):
    """hipMemLocation"""

    _fields_ = (("type", c_uint), ("id", c_int))


class Access(Structure):
    """hipMemAccessDesc"""

    _fields_ = (("location", Location), ("flags", c_uint))


class PoolProperties(Structure):
    """hipMemPoolProps"""

    _fields_ = (
        ("allocation_type", c_uint),
        ("handle_types", c_uint),
        ("location", Location),
        ("security", c_void_p),
        ("max_size", c_size_t),
        ("reserved", c_ubyte * 56),
    )


def code_of(device: Emulator, function: str, *arguments: object) -> int:
    """What a function returns, 0 for success."""
    try:
        device.call(function, *arguments)
    except HipError as error:
        return error.code
    return 0


def of_stream(device: Emulator, function: str, stream: c_void_p | None) -> int:
    """The number that a function writes through its second argument."""
    value = c_int(-77)
    device.call(function, stream, byref(value))
    return value.value


def number(device: Emulator, function: str, *arguments: object) -> int:
    """The number that a function writes through its first argument."""
    value = c_int(-77)
    device.call(function, byref(value), *arguments)
    return value.value


def pointer(device: Emulator, function: str, *arguments: object) -> int:
    """The address that a function writes through its first argument."""
    value = c_void_p()
    device.call(function, byref(value), *arguments)
    return value.value or 0


@pytest.fixture
def module(device: Emulator) -> Module:
    return device.module(device.compile(SOURCE))


@pytest.fixture
def stream(device: Emulator) -> Iterator[c_void_p]:
    """A stream that keeps no order with the null stream."""
    stream = c_void_p(pointer(device, "hipStreamCreateWithFlags", 1))
    yield stream
    device.call("hipStreamDestroy", stream)


@pytest.fixture
def other(device: Emulator) -> Iterator[int]:
    """The other device. Afterwards neither has access to its peer."""
    other = 1 - device.index
    yield other
    hip = device.libraries.hip
    for own, peer in ((device.index, other), (other, device.index)):
        hip.hipSetDevice(own)
        hip.hipDeviceDisablePeerAccess(peer)
    hip.hipSetDevice(device.index)


def on(device: Emulator, index: int, size: int) -> Buffer:
    """Memory of another device."""
    device.libraries.hip.hipSetDevice(index)
    place = c_void_p()
    assert device.libraries.hip.hipMalloc(byref(place), c_size_t(size)) == 0
    device.libraries.hip.hipSetDevice(device.index)
    return Buffer(place.value or 0, size)


def one_block(symbol: str, buffer: int, threads: int = 4) -> Launch:
    return Launch(symbol, (1, 1, 1), (threads, 1, 1), (buffer.to_bytes(8, "little"),))


# Devices


def test_identity(device: Emulator, other: int) -> None:
    name, bus = ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
    assert number(device, "hipDeviceGet", device.index) == device.index
    device.call("hipDeviceGetName", name, 64, device.index)
    assert b"(emulated)" in name.value
    device.call("hipDeviceGetName", name, 4, device.index)
    assert name.value == b"AMD"
    device.call("hipDeviceGetPCIBusId", bus, 16, device.index)
    assert number(device, "hipDeviceGetByPCIBusId", bus) == device.index
    assert code_of(device, "hipDeviceGetByPCIBusId", byref(c_int()), b"0000:77:00.0") == INVALID_DEVICE
    ids = [ctypes.create_string_buffer(16) for _ in range(2)]
    for index, uuid in zip((device.index, other), ids, strict=True):
        device.call("hipDeviceGetUuid", uuid, index)
    assert ids[0].raw != ids[1].raw
    total, free, also = c_size_t(), c_size_t(), c_size_t()
    device.call("hipDeviceTotalMem", byref(total), device.index)
    device.call("hipMemGetInfo", byref(free), byref(also))
    assert total.value == also.value
    minor = c_int()
    assert number(device, "hipDeviceComputeCapability", byref(minor), device.index) == (11 if device.index == 0 else 9)
    assert code_of(device, "hipDeviceGet", byref(c_int()), 2) == INVALID_DEVICE


def test_limits_and_flags(device: Emulator) -> None:
    size = c_size_t()
    device.call("hipDeviceSetLimit", 2, c_size_t(1 << 24))
    device.call("hipDeviceGetLimit", byref(size), 2)
    assert size.value == 1 << 24
    assert code_of(device, "hipDeviceGetLimit", byref(size), 9) == UNSUPPORTED_LIMIT
    device.call("hipSetDeviceFlags", 4)
    assert number(device, "hipGetDeviceFlags") == 4
    assert code_of(device, "hipSetDeviceFlags", 3) == INVALID_VALUE
    device.call("hipSetDeviceFlags", 0)


def test_a_reset_frees_the_device_s_memory_only(device: Emulator, other: int) -> None:
    """Other tests of this process keep nothing on their devices but code, which stays."""
    mine, others = device.allocate(1 << 20), on(device, other, 1 << 20)
    device.call("hipDeviceReset")
    assert code_of(device, "hipFree", address(mine)) == INVALID_VALUE
    assert code_of(device, "hipFree", address(others)) == 0


# Peers


def test_peer_access(device: Emulator, other: int) -> None:
    assert number(device, "hipDeviceCanAccessPeer", device.index, other) == 1
    assert number(device, "hipDeviceCanAccessPeer", device.index, device.index) == 0
    assert number(device, "hipDeviceGetP2PAttribute", 1, device.index, other) == 1
    assert code_of(device, "hipDeviceDisablePeerAccess", other) == PEER_NOT_ENABLED
    assert code_of(device, "hipDeviceEnablePeerAccess", other, 1) == INVALID_VALUE
    assert code_of(device, "hipDeviceEnablePeerAccess", device.index, 0) == INVALID_DEVICE
    device.call("hipDeviceEnablePeerAccess", other, 0)
    assert code_of(device, "hipDeviceEnablePeerAccess", other, 0) == PEER_ALREADY
    device.call("hipDeviceDisablePeerAccess", other)


def test_a_kernel_reaches_a_peer_only_when_it_may(device: Emulator, other: int, module: Module) -> None:
    buffer = on(device, other, 16)
    device.call("hipMemcpy", address(buffer), bytes(16), c_size_t(16), HOST_TO_DEVICE)
    code, report = device.fault(module, one_block("add", buffer.address))
    assert (code, f"memory of device {other}" in report) == (ILLEGAL_ADDRESS, True)
    device.call("hipDeviceEnablePeerAccess", other, 0)
    module.launch(one_block("add", buffer.address))
    assert device.download(buffer) == np.ones(4, np.int32).tobytes()


def test_copies_between_devices(device: Emulator, other: int, stream: c_void_p) -> None:
    values = np.arange(64, dtype=np.int32)
    source, target = upload(device, values), on(device, other, 256)
    back = device.allocate(256)
    device.call("hipMemcpyPeer", address(target), other, address(source), device.index, c_size_t(256))
    device.call("hipDeviceSynchronize")
    copy = (address(back), device.index, address(target), other, c_size_t(256))
    device.call("hipMemcpyPeerAsync", *copy, stream)
    assert peek(device, back.address, 256) == POISON * 256
    device.call("hipStreamSynchronize", stream)
    assert device.download(back) == values.tobytes()
    wrong = (address(target), device.index, address(source), device.index, c_size_t(256))
    assert code_of(device, "hipMemcpyPeer", *wrong) == INVALID_VALUE
    assert code_of(device, "hipMemcpyPeer", address(target), 2, *wrong[2:]) == INVALID_DEVICE


# Pinned memory


@pytest.mark.parametrize("function", ["hipHostMalloc", "hipHostAlloc", "hipMallocHost"])
def test_pinned_memory_is_the_host_s_and_the_device_s(device: Emulator, module: Module, function: str) -> None:
    flags = [] if function == "hipMallocHost" else [c_uint(2)]
    place = pointer(device, function, c_size_t(16), *flags)
    assert number(device, "hipHostGetFlags", c_void_p(place)) == (2 if flags else 0)
    assert pointer(device, "hipHostGetDevicePointer", c_void_p(place), 0) == place
    ctypes.memset(place, 0, 16)
    module.launch(one_block("add", place))
    device.synchronize()
    assert string_at(place, 16) == np.ones(4, np.int32).tobytes()
    device.call("hipHostFree", c_void_p(place))
    assert code_of(device, "hipHostFree", c_void_p(place)) == INVALID_VALUE
    assert code_of(device, "hipHostGetFlags", byref(c_uint()), c_void_p(place)) == INVALID_VALUE


def test_pinned_memory_is_read_when_the_copy_is_done(device: Emulator, stream: c_void_p) -> None:
    place, target = pointer(device, "hipHostMalloc", c_size_t(16), 0), device.allocate(16)
    ctypes.memset(place, 1, 16)
    device.call("hipMemcpyAsync", address(target), c_void_p(place), c_size_t(16), HOST_TO_DEVICE, stream)
    ctypes.memset(place, 2, 16)
    device.call("hipStreamSynchronize", stream)
    assert device.download(target) == b"\2" * 16
    device.call("hipFreeHost", c_void_p(place))


def test_registered_memory(device: Emulator, module: Module, stream: c_void_p) -> None:
    values = np.zeros(4, np.int32)
    place = values.ctypes.data
    code, report = device.fault(module, one_block("add", place))
    assert (code, "is it a host pointer?" in report) == (ILLEGAL_ADDRESS, True)
    device.call("hipHostRegister", c_void_p(place), c_size_t(16), 2)
    assert code_of(device, "hipHostRegister", c_void_p(place + 8), c_size_t(16), 0) == ALREADY_REGISTERED
    assert pointer(device, "hipHostGetDevicePointer", c_void_p(place), 0) == place
    assert number(device, "hipHostGetFlags", c_void_p(place + 4)) == 2
    module.launch(one_block("add", place))
    device.synchronize()
    assert values.tolist() == [1, 1, 1, 1]
    target = device.allocate(16)
    device.call("hipMemcpyAsync", address(target), c_void_p(place), c_size_t(16), HOST_TO_DEVICE, stream)
    values[:] = 7
    device.call("hipHostUnregister", c_void_p(place))
    assert device.download(target) == values.tobytes()
    assert code_of(device, "hipHostUnregister", c_void_p(place)) == NOT_REGISTERED
    assert device.fault(module, one_block("add", place))[0] == ILLEGAL_ADDRESS


def test_kinds_of_device_memory(device: Emulator) -> None:
    for kind in (0, 1, 3, 4):
        place = pointer(device, "hipExtMallocWithFlags", c_size_t(64), kind)
        device.call("hipFree", c_void_p(place))
    assert code_of(device, "hipExtMallocWithFlags", byref(c_void_p()), c_size_t(64), 2) == INVALID_VALUE
    assert code_of(device, "hipMallocManaged", byref(c_void_p()), c_size_t(64), 1) == NOT_SUPPORTED
    assert number(device, "hipDeviceGetAttribute", 24, device.index) == 0


# Stream-ordered memory


def test_memory_of_a_stream(device: Emulator, stream: c_void_p, module: Module) -> None:
    place = pointer(device, "hipMallocAsync", c_size_t(16), stream)
    device.call("hipMemsetAsync", c_void_p(place), 0, c_size_t(16), stream)
    device.call("hipFreeAsync", c_void_p(place), stream)
    assert code_of(device, "hipFreeAsync", c_void_p(place), stream) == INVALID_VALUE
    device.call("hipStreamSynchronize", stream)
    code, report = device.fault(module, one_block("add", place))
    assert (code, "of 16 bytes" in report, "which was freed" in report) == (ILLEGAL_ADDRESS, True, True)


def test_memory_is_freed_when_the_stream_gets_there(device: Emulator, stream: c_void_p) -> None:
    free = c_size_t()

    def available() -> int:
        device.call("hipMemGetInfo", byref(free), byref(c_size_t()))
        return free.value

    before = available()
    place = pointer(device, "hipMallocAsync", c_size_t(1 << 20), stream)
    device.call("hipFreeAsync", c_void_p(place), stream)
    assert available() == before - (1 << 20)
    device.call("hipStreamSynchronize", stream)
    assert available() == before


def test_pools(device: Emulator, other: int, stream: c_void_p) -> None:
    default = pointer(device, "hipDeviceGetDefaultMemPool", device.index)
    assert pointer(device, "hipDeviceGetMemPool", device.index) == default
    properties = PoolProperties(allocation_type=1, location=Location(1, device.index), max_size=1 << 20)
    pool = c_void_p(pointer(device, "hipMemPoolCreate", byref(properties)))
    device.call("hipDeviceSetMemPool", device.index, pool)
    assert pointer(device, "hipDeviceGetMemPool", device.index) == pool.value
    assert code_of(device, "hipDeviceSetMemPool", other, pool) == INVALID_DEVICE

    def attribute(which: int) -> int:
        value = c_uint64()
        device.call("hipMemPoolGetAttribute", pool, which, byref(value))
        return value.value

    used, high, threshold = 7, 8, 4
    place = pointer(device, "hipMallocAsync", c_size_t(3 << 18), stream)
    too_much = (byref(c_void_p()), c_size_t(1 << 19), pool, stream)
    assert code_of(device, "hipMallocFromPoolAsync", *too_much) == OUT_OF_MEMORY
    assert (attribute(used), attribute(high)) == (3 << 18, 3 << 18)
    device.call("hipFreeAsync", c_void_p(place), stream)
    device.call("hipStreamSynchronize", stream)
    assert (attribute(used), attribute(high)) == (0, 3 << 18)
    device.call("hipMemPoolSetAttribute", pool, high, byref(c_uint64(0)))
    device.call("hipMemPoolSetAttribute", pool, threshold, byref(c_uint64(1 << 30)))
    assert (attribute(high), attribute(threshold)) == (0, 1 << 30)
    assert code_of(device, "hipMemPoolSetAttribute", pool, used, byref(c_uint64(0))) == INVALID_VALUE
    device.call("hipMemPoolTrimTo", pool, c_size_t(0))

    flags, location = c_uint(), Location(1, other)
    device.call("hipMemPoolGetAccess", byref(flags), pool, byref(location))
    assert flags.value == 0
    device.call("hipMemPoolSetAccess", pool, byref(Access(location, 3)), c_size_t(1))
    device.call("hipMemPoolGetAccess", byref(flags), pool, byref(location))
    assert flags.value == 3

    device.call("hipMemPoolDestroy", pool)
    assert code_of(device, "hipMemPoolDestroy", pool) == INVALID_VALUE
    assert code_of(device, "hipMemPoolDestroy", c_void_p(default)) == INVALID_VALUE
    assert pointer(device, "hipDeviceGetMemPool", device.index) == default


# Copies and fills


def test_copies_that_name_their_direction(device: Emulator, stream: c_void_p) -> None:
    values, size = np.arange(64, dtype=np.int32), c_size_t(256)
    first, second, third = (device.allocate(256) for _ in range(3))
    result = np.zeros_like(values)
    host, back = c_void_p(values.ctypes.data), c_void_p(result.ctypes.data)
    device.call("hipMemcpyHtoD", address(first), host, size)
    device.call("hipMemcpyDtoD", address(second), address(first), size)
    device.call("hipMemcpyDtoH", back, address(second), size)
    np.testing.assert_array_equal(result, values)
    values += 1
    device.call("hipMemcpyHtoDAsync", address(first), host, size, stream)
    device.call("hipMemcpyDtoDAsync", address(third), address(first), size, stream)
    device.call("hipMemcpyDtoHAsync", back, address(third), size, stream)
    assert result.tobytes() == POISON * 256
    device.call("hipStreamSynchronize", stream)
    np.testing.assert_array_equal(result, values)
    device.call("hipMemcpyWithStream", back, address(second), size, DEVICE_TO_HOST, stream)
    np.testing.assert_array_equal(result, values - 1)
    assert code_of(device, "hipMemcpyDtoH", address(first), address(second), size) == INVALID_VALUE


@pytest.mark.parametrize("asynchronous", [False, True])
def test_rows(device: Emulator, stream: c_void_p, asynchronous: bool) -> None:  # noqa: FBT001 - a parameter
    suffix, last = ("Async", [stream]) if asynchronous else ("", [])
    pitch, place = c_size_t(), c_void_p()
    width, height = c_size_t(10), c_size_t(5)
    device.call("hipMallocPitch", byref(place), byref(pitch), width, height)
    assert pitch.value == 256
    values = np.arange(5 * 16, dtype=np.uint8).reshape(5, 16)
    result = np.full((5, 12), 9, np.uint8)
    host, back = c_void_p(values.ctypes.data), c_void_p(result.ctypes.data)
    device.call(f"hipMemset2D{suffix}", place, pitch, 3, width, height, *last)
    device.call(f"hipMemcpy2D{suffix}", place, pitch, host, c_size_t(16), c_size_t(7), height, DEFAULT, *last)
    device.call(f"hipMemcpy2D{suffix}", back, c_size_t(12), place, pitch, width, height, DEVICE_TO_HOST, *last)
    device.call("hipStreamSynchronize", stream)
    expected = np.full((5, 12), 9, np.uint8)
    expected[:, :10] = 3
    expected[:, :7] = values[:, :7]
    np.testing.assert_array_equal(result, expected)
    wrong = (back, c_size_t(9), place, pitch, width, height, DEVICE_TO_HOST, *last)
    assert code_of(device, f"hipMemcpy2D{suffix}", *wrong) == INVALID_PITCH
    # The gaps between rows were never written.
    whole = Buffer(place.value or 0, 10)
    device.call("hipMemcpy", byref(c_ubyte()), c_void_p(whole.address + 4 * 256), c_size_t(1), DEVICE_TO_HOST)
    assert peek(device, whole.address + 10, 6) == POISON * 6


@pytest.mark.parametrize(
    ("function", "value", "pattern"),
    [
        ("hipMemsetD8", c_ubyte(0xA1), b"\xa1"),
        ("hipMemsetD16", c_short(0x1234), b"\x34\x12"),
        ("hipMemsetD32", c_int(0x12345678), b"\x78\x56\x34\x12"),
    ],
)
def test_fills(device: Emulator, stream: c_void_p, function: str, value: object, pattern: bytes) -> None:
    first, second = device.allocate(64), device.allocate(64)
    count = c_size_t(64 // len(pattern))
    device.call(function, address(first), value, count)
    assert device.download(first) == pattern * count.value
    device.call(f"{function}Async", address(second), value, count, stream)
    assert peek(device, second.address, 64) == POISON * 64
    device.call("hipStreamSynchronize", stream)
    assert device.download(second) == pattern * count.value
    assert code_of(device, function, address(first), value, c_size_t(count.value + 1)) == INVALID_VALUE


# Addresses


def test_what_an_address_is(device: Emulator, other: int) -> None:
    attributes = PointerAttributes()
    buffer, pinned = on(device, other, 64), pointer(device, "hipHostMalloc", c_size_t(64), 0)
    own = np.zeros(1)
    unregistered, host, on_device = 0, 1, 2
    for place, kind, index in [
        (buffer.address + 8, on_device, other),
        (pinned + 8, host, 0),
        (own.ctypes.data, unregistered, -2),
    ]:
        device.call("hipPointerGetAttributes", byref(attributes), c_void_p(place))
        assert (attributes.type, attributes.device) == (kind, index)
        assert attributes.device_pointer == (None if kind == unregistered else place)
        assert attributes.host_pointer == (place if kind == host else None)
    assert code_of(device, "hipPointerGetAttributes", byref(attributes), None) == INVALID_VALUE

    start, size, managed = c_void_p(), c_size_t(), c_bool(1)
    inside = c_void_p(buffer.address + 8)
    device.call("hipMemGetAddressRange", byref(start), byref(size), inside)
    assert (start.value, size.value) == (buffer.address, 64)
    assert code_of(device, "hipMemGetAddressRange", byref(start), byref(size), c_void_p(own.ctypes.data)) == NOT_FOUND
    assert number(device, "hipPointerGetAttribute", 9, inside) == other
    device.call("hipPointerGetAttribute", byref(size), 12, inside)
    device.call("hipPointerGetAttribute", byref(start), 11, inside)
    device.call("hipPointerGetAttribute", byref(managed), 8, inside)
    assert (size.value, start.value, managed.value) == (64, buffer.address, False)
    assert code_of(device, "hipPointerGetAttribute", byref(start), 4, inside) == INVALID_VALUE
    device.call("hipHostFree", c_void_p(pinned))


# Kernels


def test_variables_of_a_module(device: Emulator, module: Module) -> None:
    place, size = c_void_p(), c_size_t()
    device.call("hipModuleGetGlobal", byref(place), byref(size), module._module, b"counter")
    assert size.value == 4
    for name in (b"absent", b"add"):
        assert code_of(device, "hipModuleGetGlobal", byref(place), byref(size), module._module, name) == NOT_FOUND
    device.call("hipMemcpyHtoD", place, byref(c_int(41)), size)
    result, value = device.allocate(4), c_int()
    module.launch(one_block("count", result.address, 1))
    device.call("hipMemcpyDtoH", byref(value), place, size)
    assert (device.download(result), value.value) == (c_int(41).value.to_bytes(4, "little"), 42)


def function_of(device: Emulator, module: Module, name: bytes) -> c_void_p:
    return c_void_p(pointer(device, "hipModuleGetFunction", module._module, name))


def test_attributes_of_a_kernel(device: Emulator, module: Module) -> None:
    tile, add = (function_of(device, module, name) for name in (b"tile", b"add"))
    threads, lds, dynamic_lds = 0, 1, 8
    found = [number(device, "hipFuncGetAttribute", which, tile) for which in (threads, lds, dynamic_lds)]
    assert found == [128, 16384, 65536 - 16384]
    assert number(device, "hipFuncGetAttribute", threads, add) == 1024
    assert code_of(device, "hipFuncGetAttribute", byref(c_int()), 99, tile) == INVALID_VALUE
    assert code_of(device, "hipFuncGetAttribute", byref(c_int()), 0, None) == INVALID_FUNCTION
    device.call("hipFuncSetAttribute", tile, 8, 65536)
    assert code_of(device, "hipFuncSetAttribute", tile, 8, 65537) == INVALID_VALUE
    for function in ("hipFuncGetAttributes", "hipFuncSetAttribute"):
        assert code_of(device, function, None, None, 0) == INVALID_FUNCTION


@pytest.mark.parametrize(
    ("name", "threads", "dynamic_lds", "blocks"),
    [(b"add", 256, 0, 8), (b"add", 33, 0, 32), (b"tile", 64, 0, 4), (b"tile", 64, 16384, 2), (b"tile", 129, 0, 0)],
)
def test_occupancy(device: Emulator, module: Module, name: bytes, threads: int, dynamic_lds: int, blocks: int) -> None:
    function = function_of(device, module, name)
    held = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
    assert number(device, held, function, threads, c_size_t(dynamic_lds)) == blocks
    assert number(device, f"{held}WithFlags", function, threads, c_size_t(dynamic_lds), 0) == blocks
    assert code_of(device, held, byref(c_int()), function, 0, c_size_t(0)) == INVALID_VALUE
    flags = (byref(c_int()), function, threads, c_size_t(0), 2)
    assert code_of(device, f"{held}WithFlags", *flags) == INVALID_VALUE


@pytest.mark.parametrize(("name", "limit", "blocks", "threads"), [(b"add", 0, 2, 1024), (b"tile", 0, 4, 128)])
def test_the_best_number_of_threads(
    device: Emulator, module: Module, name: bytes, limit: int, blocks: int, threads: int
) -> None:
    best = c_int()
    arguments = (function_of(device, module, name), c_size_t(0), limit)
    for function, flags in (("", []), ("WithFlags", [0])):
        grid = number(device, f"hipModuleOccupancyMaxPotentialBlockSize{function}", byref(best), *arguments, *flags)
        assert (grid, best.value) == (blocks * device.multiprocessors, threads)


def test_a_kernel_known_by_its_address_is_none(device: Emulator) -> None:
    class Dim3(Structure):
        _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))

    one = Dim3(1, 1, 1)
    assert code_of(device, "hipLaunchKernel", c_void_p(16), one, one, None, c_size_t(0), None) == INVALID_FUNCTION


# Streams


def test_properties_of_a_stream(device: Emulator, stream: c_void_p, other: int) -> None:
    least, greatest = c_int(), c_int()
    device.call("hipDeviceGetStreamPriorityRange", byref(least), byref(greatest))
    assert (least.value, greatest.value) == (1, -1)
    for asked, given in ((-1, -1), (0, 0), (-9, -1), (9, 1)):
        urgent = c_void_p(pointer(device, "hipStreamCreateWithPriority", 1, asked))
        assert of_stream(device, "hipStreamGetPriority", urgent) == given
        assert of_stream(device, "hipStreamGetFlags", urgent) == 1
        device.call("hipStreamDestroy", urgent)
    assert code_of(device, "hipStreamGetPriority", urgent, byref(least)) == INVALID_HANDLE
    assert of_stream(device, "hipStreamGetPriority", stream) == 0
    assert of_stream(device, "hipStreamGetFlags", None) == 0
    device.libraries.hip.hipSetDevice(other)
    owner = c_int()
    device.libraries.hip.hipStreamGetDevice(stream, byref(owner))
    assert owner.value == device.index


def test_functions_of_the_program(device: Emulator, stream: c_void_p) -> None:
    """They run in order with what the stream does, and not before it is waited for."""
    seen: list[tuple[str, bytes]] = []
    buffer = Buffer(pointer(device, "hipHostMalloc", c_size_t(4), 0), 4)

    def note_data(data: int) -> None:
        seen.append(("function", string_at(data, 4)))

    def note_all(of: int, status: int, data: int) -> None:
        seen.append((f"callback {of == stream.value} {status}", string_at(data, 4)))

    host_function = CFUNCTYPE(None, c_void_p)(note_data)
    callback = CFUNCTYPE(None, c_void_p, c_uint, c_void_p)(note_all)

    device.call("hipMemsetAsync", address(buffer), 1, c_size_t(4), stream)
    device.call("hipLaunchHostFunc", stream, host_function, address(buffer))
    device.call("hipMemsetAsync", address(buffer), 2, c_size_t(4), stream)
    device.call("hipStreamAddCallback", stream, callback, address(buffer), 0)
    assert seen == []
    device.call("hipStreamSynchronize", stream)
    assert seen == [("function", b"\1" * 4), ("callback True 0", b"\2" * 4)]
    device.call("hipHostFree", address(buffer))
    assert code_of(device, "hipLaunchHostFunc", stream, None, None) == INVALID_VALUE
    assert code_of(device, "hipStreamAddCallback", stream, callback, None, 1) == INVALID_VALUE


def test_a_kernel_runs_on_the_device_of_its_module_only(device: Emulator, other: int, module: Module) -> None:
    """Whichever device is current: the stream decides where a launch goes. The waves of the two differ."""
    hip, stream = device.libraries.hip, c_void_p()
    hip.hipSetDevice(other)
    assert hip.hipStreamCreateWithFlags(byref(stream), 1) == 0
    buffer = device.upload(bytes(16))
    device.stream = stream
    try:
        with pytest.raises(HipError) as caught:
            module.launch(one_block("add", buffer.address))
    finally:
        device.stream = c_void_p(0)
    assert caught.value.code == INVALID_HANDLE
    module.launch(one_block("add", buffer.address))
    assert device.download(buffer) == np.ones(4, np.int32).tobytes()
    assert hip.hipStreamDestroy(stream) == 0


def test_work_of_two_devices_side_by_side(device: Emulator, other: int, module: Module, stream: c_void_p) -> None:
    """An event of one device's stream is waited for by the other's, whose copy sees what came before the event."""
    hip = device.libraries.hip
    source, target = device.upload(bytes(16)), on(device, other, 16)
    event = c_void_p()
    device.call("hipEventCreate", byref(event))
    module.launch(one_block("add", source.address))
    device.call("hipEventRecord", event, None)
    hip.hipSetDevice(other)
    copying = c_void_p()
    assert hip.hipStreamCreateWithFlags(byref(copying), 1) == 0
    assert hip.hipStreamWaitEvent(copying, event, 0) == 0
    copy = (address(target), other, address(source), device.index, c_size_t(16), copying)
    assert hip.hipMemcpyPeerAsync(*copy) == 0
    assert hip.hipStreamSynchronize(copying) == 0
    assert peek(device, target.address, 16) == np.ones(4, np.int32).tobytes()
    assert hip.hipStreamDestroy(copying) == 0
    hip.hipSetDevice(device.index)


@pytest.mark.parametrize(
    "function", ["hipHostMalloc", "hipMallocAsync", "hipMemcpyPeer", "hipStreamCreateWithPriority"]
)
def test_any_function_can_be_made_to_fail(device: Emulator, function: str) -> None:
    fail(device, function, 1, OUT_OF_MEMORY)
    assert code_of(device, function, None, None, None, None, None) == OUT_OF_MEMORY
    device.libraries.hip.hipGetLastError.restype = c_uint
    assert device.libraries.hip.hipGetLastError() == OUT_OF_MEMORY
    assert fault_of(device) == ""


def test_names_of_errors(device: Emulator) -> None:
    device.libraries.hip.hipGetErrorName.restype = c_char_p
    assert device.libraries.hip.hipGetErrorName(UNSUPPORTED_LIMIT) == b"hipErrorUnsupportedLimit"
    assert device.libraries.hip.hipGetErrorName(INVALID_PITCH) == b"hipErrorInvalidPitchValue"
