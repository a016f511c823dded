"""Large allocations cost memory only where they are touched, and some blocks of a grid can run without the others."""

from __future__ import annotations

import re
import struct
from ctypes import c_int, c_size_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.hip import Buffer, HipError, Launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.device.hip import Module
    from emulator.machine import Emulator

SOURCE = """
extern "C" __global__ void put(unsigned char* x, unsigned long long at) { x[at] = 7; }
extern "C" __global__ void add(unsigned char* x, unsigned long long at) { x[at] += 1; }
extern "C" __global__ void mark(unsigned* x) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  x[block] = gridDim.x * 10000 + gridDim.y * 100 + gridDim.z;
}
"""

LARGE = (8 << 30) + 1000
ILLEGAL_ADDRESS, LAUNCH_FAILURE, INVALID_VALUE, DEVICE_TO_DEVICE = 700, 719, 1, 3
GRID = (5, 4, 3)


@pytest.fixture
def module(device: Emulator) -> Module:
    return device.module(device.compile(SOURCE))


@pytest.fixture
def large(device: Emulator) -> Iterator[Buffer]:
    """More bytes than 32 bits can count."""
    buffer = device.allocate(LARGE)
    yield buffer
    device.free(buffer)


def touch(kernel: str, buffer: Buffer, at: int) -> Launch:
    return Launch(kernel, (1, 1, 1), (1, 1, 1), (struct.pack("<Q", buffer.address), struct.pack("<q", at)))


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_large_memory_costs_what_is_touched(device: Emulator, module: Module) -> None:
    before = resident()
    buffer = device.allocate(LARGE)
    places = (0, 1 << 31, 1 << 32, LARGE - 1)
    for place in places:
        module.launch(touch("put", buffer, place))
        module.launch(touch("add", buffer, place))
    assert [device.download(Buffer(buffer.address + place, 1)) for place in places] == [b"\x08"] * 4
    device.free(buffer)
    assert resident() - before < 16 << 20


@pytest.mark.parametrize(
    ("kernel", "at", "code", "report"),
    [
        ("add", (1 << 32) + 5, LAUNCH_FAILURE, "uninitialised read of 1 byte .* at offset 4294967301 of"),
        ("put", LARGE, ILLEGAL_ADDRESS, f"invalid write to 1 byte .* 0 bytes past the end of .* of {LARGE} bytes"),
        ("put", -1, ILLEGAL_ADDRESS, "invalid write to 1 byte .* 1 bytes before"),
    ],
)
def test_faults_in_large_memory_are_reported(
    device: Emulator, module: Module, large: Buffer, kernel: str, at: int, code: int, report: str
) -> None:
    module.launch(touch("put", large, (1 << 32) + 4))
    module.launch(touch("put", large, LARGE - 1))
    found, text = device.fault(module, touch(kernel, large, at))
    assert found == code
    assert re.search(report, text), text


def test_a_copy_of_untouched_memory_is_uninitialised(device: Emulator, module: Module, large: Buffer) -> None:
    small = device.upload(bytes(16))
    copy = (c_void_p(small.address + 4), c_void_p(large.address + 4096), c_size_t(8), c_int(DEVICE_TO_DEVICE))
    device.call("hipMemcpy", *copy)
    assert device.fault(module, touch("add", small, 3)) == (0, "")
    assert "uninitialised read" in device.fault(module, touch("add", small, 4))[1]


def test_freed_large_memory_is_nobody_s(device: Emulator, module: Module) -> None:
    buffer = device.allocate(LARGE)
    module.launch(touch("put", buffer, 4096))
    device.free(buffer)
    code, _ = device.fault(module, touch("add", buffer, 4096))
    assert code == ILLEGAL_ADDRESS
    again = device.allocate(LARGE)
    assert "uninitialised read" in device.fault(module, touch("add", again, 4096))[1]
    device.free(again)


def marked(device: Emulator, module: Module) -> list[int]:
    """The blocks of a grid that have run, each of which saw all of it."""
    result = device.upload(bytes(4 * np.prod(GRID)))
    module.launch(Launch("mark", GRID, (1, 1, 1), (struct.pack("<Q", result.address),)))
    found = np.frombuffer(device.download(result), np.uint32)
    assert set(found.tolist()) <= {0, 50403}
    return np.flatnonzero(found).tolist()


def test_only_chosen_blocks_run(device: Emulator, module: Module) -> None:
    everything = list(range(60))
    with device.only_blocks([59, 0, 7, 7, 23]):
        assert marked(device, module) == [0, 7, 23, 59]
        device.libraries.hip.candle_rocm_emulator_reset()
        assert marked(device, module) == everything
    with device.only_blocks([3]):
        pass
    assert marked(device, module) == everything


def test_blocks_are_chosen_when_a_launch_is_enqueued(device: Emulator, module: Module) -> None:
    result = device.upload(bytes(4 * np.prod(GRID)))
    with device.only_blocks([1, 2]):
        module.launch(Launch("mark", GRID, (1, 1, 1), (struct.pack("<Q", result.address),)))
    assert np.flatnonzero(np.frombuffer(device.download(result), np.uint32)).tolist() == [1, 2]


def test_a_block_that_the_grid_does_not_have(device: Emulator, module: Module) -> None:
    with device.only_blocks([0, 60]), pytest.raises(HipError) as refused:
        marked(device, module)
    assert refused.value.code == INVALID_VALUE
