"""Work is late and in a random order that the rules of HIP allow; calls are counted and fail on demand."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING

import pytest

from codegen.device.hip import DEVICE_TO_HOST, HOST_TO_DEVICE, Buffer, HipError

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.machine import Emulator

NOT_READY = 600
POISON = b"\xff"
SEEDS = range(12)


def stream(device: Emulator, *, blocking: bool = True) -> c_void_p:
    """A new stream."""
    handle = c_void_p()
    device.call("hipStreamCreateWithFlags", byref(handle), c_int(not blocking))
    return handle


def event(device: Emulator) -> c_void_p:
    """A new event."""
    handle = c_void_p()
    device.call("hipEventCreateWithFlags", byref(handle), c_int(0))
    return handle


def fill(device: Emulator, buffer: Buffer, value: int, on: c_void_p) -> None:
    """Fills a buffer on a stream."""
    device.call("hipMemsetAsync", c_void_p(buffer.address), c_int(value), c_size_t(buffer.size), on)


def test_a_copy_that_nobody_waits_for_has_not_run(device: Emulator) -> None:
    buffer, on = device.upload(b"\x05" * 64), stream(device)
    device.synchronize()
    host = ctypes.create_string_buffer(b"\x01" * 64, 64)
    device.call("hipMemcpyAsync", host, c_void_p(buffer.address), c_size_t(64), c_int(DEVICE_TO_HOST), on)
    assert host.raw == POISON * 64
    device.call("hipStreamSynchronize", on)
    assert host.raw == b"\x05" * 64


def test_pageable_memory_is_read_when_the_copy_is_asked_for(device: Emulator) -> None:
    buffer, on = device.allocate(64), stream(device)
    host = ctypes.create_string_buffer(b"\x01" * 64, 64)
    device.call("hipMemcpyAsync", c_void_p(buffer.address), host, c_size_t(64), c_int(HOST_TO_DEVICE), on)
    ctypes.memset(host, 2, 64)
    device.call("hipStreamSynchronize", on)
    assert device.download(buffer) == b"\x01" * 64


def test_an_event_orders_streams(device: Emulator) -> None:
    for value in SEEDS:
        first, second, done = stream(device, blocking=False), stream(device, blocking=False), event(device)
        buffer = device.allocate(4)
        fill(device, buffer, 100 + value, first)
        device.call("hipEventRecord", done, first)
        device.call("hipStreamWaitEvent", second, done, c_int(0))
        fill(device, buffer, value, second)
        device.call("hipStreamSynchronize", second)
        assert device.download(buffer) == bytes([value]) * 4


def test_asking_again_and_again_ends(device: Emulator) -> None:
    on, done = stream(device, blocking=False), event(device)
    for _ in range(5):
        fill(device, device.allocate(4), 1, on)
    device.call("hipEventRecord", done, on)
    with pytest.raises(HipError) as caught:
        device.call("hipEventQuery", done)
    assert caught.value.code == NOT_READY
    # A GPU would answer "not ready" some number of times; here each question does a piece of work.
    answers = [device.libraries.hip.hipEventQuery(done) for _ in range(200)]
    assert answers[-1] == 0
    assert answers == sorted(answers, reverse=True)
    assert device.libraries.hip.hipStreamQuery(on) == 0


def test_elapsed_time_needs_two_timed_events_that_were_reached(device: Emulator) -> None:
    on, start, stop, elapsed = stream(device), event(device), event(device), ctypes.c_float(-1)
    device.call("hipEventRecord", start, on)
    fill(device, device.allocate(1 << 20), 1, on)
    device.call("hipEventRecord", stop, on)
    assert device.libraries.hip.hipEventElapsedTime(byref(elapsed), start, stop) == NOT_READY
    device.call("hipEventSynchronize", stop)
    device.call("hipEventElapsedTime", byref(elapsed), start, stop)
    assert elapsed.value > 0


def test_a_stream_that_was_destroyed_is_no_stream(device: Emulator) -> None:
    on, buffer = stream(device), device.allocate(4)
    fill(device, buffer, 3, on)
    device.call("hipStreamDestroy", on)
    assert device.download(buffer) == b"\x03" * 4
    with pytest.raises(HipError, match=r"\(400\)"):
        device.call("hipStreamSynchronize", on)


def test_a_long_backlog_is_worked_off(device: Emulator) -> None:
    on, buffer = stream(device), device.allocate(4)
    for number in range(5000):
        fill(device, buffer, number % 251, on)
    device.call("hipStreamSynchronize", on)
    assert device.download(buffer) == bytes([4999 % 251]) * 4


def test_several_threads_may_use_one_device(device: Emulator) -> None:
    """Each host thread copies through a stream of its own; each gets its own bytes back."""
    hip, results = device.libraries.hip, {}

    def work(number: int) -> None:
        hip.hipSetDevice(device.index)
        on, address, host = c_void_p(), c_void_p(), ctypes.create_string_buffer(4096)
        codes = [hip.hipStreamCreateWithFlags(byref(on), c_int(1)), hip.hipMalloc(byref(address), c_size_t(4096))]
        for turn in range(50):
            codes.append(hip.hipMemsetAsync(address, c_int(number + turn), c_size_t(4096), on))
            codes.append(hip.hipMemcpyAsync(host, address, c_size_t(4096), c_int(DEVICE_TO_HOST), on))
            codes.append(hip.hipStreamSynchronize(on))
            results[number, turn] = host.raw == bytes([number + turn]) * 4096 and not any(codes)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200
    assert all(results.values())


def test_a_copy_past_the_end_is_refused(device: Emulator) -> None:
    buffer = device.allocate(64)
    with pytest.raises(HipError, match=r"hipMemcpy: .*\(1\)"):
        device.call("hipMemcpy", c_void_p(buffer.address), bytes(65), c_size_t(65), c_int(HOST_TO_DEVICE))


def test_the_nth_call_fails_on_demand(device: Emulator) -> None:
    hip = device.libraries.hip
    hip.candle_rocm_emulator_fail(b"hipMalloc", ctypes.c_int64(2), c_int(2))
    device.allocate(4)
    with pytest.raises(HipError, match=r"hipMalloc: out of memory.*\(2\)"):
        device.allocate(4)
    device.allocate(4)


def test_calls_are_counted(device: Emulator) -> None:
    hip = device.libraries.hip
    hip.candle_rocm_emulator_trace_count.restype = ctypes.c_int64
    hip.candle_rocm_emulator_trace_start()
    for _ in range(3):
        device.allocate(4)
    device.compile('extern "C" __global__ void none() {}')
    hip.candle_rocm_emulator_trace_stop()
    device.allocate(4)
    counts = {name: hip.candle_rocm_emulator_trace_count(name) for name in (b"hipMalloc", b"hipFree")}
    assert counts == {b"hipMalloc": 3, b"hipFree": 0}
    assert hip.candle_rocm_emulator_trace_count(b"hiprtcCompileProgram") == 1


SEEDED = """
import ctypes, struct, sys
from codegen.device.hip import *
device = Device()
streams = [ctypes.c_void_p() for _ in range(2)]
for stream in streams:
    device.call("hipStreamCreateWithFlags", ctypes.byref(stream), ctypes.c_int(1))
buffer = device.allocate(4)
for value, stream in enumerate(streams):
    size = ctypes.c_size_t(4)
    device.call("hipMemsetAsync", ctypes.c_void_p(buffer.address), ctypes.c_int(value), size, stream)
device.synchronize()
print(device.download(buffer)[0])
"""


def _output(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {f"CANDLE_ROCM_EMULATOR_{name}": value for name, value in variables.items()}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_the_seed_decides_which_of_two_streams_is_first(device: Emulator) -> None:
    outputs = [_output(SEEDED, SEED=str(seed)).stdout for seed in SEEDS]
    assert set(outputs) == {"0\n", "1\n"}
    assert outputs[0] == _output(SEEDED, SEED="0").stdout


def test_every_call_is_written_down(device: Emulator, tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    assert _output(SEEDED, TRACE=str(trace)).returncode == 0
    lines = trace.read_text().splitlines()
    assert sum(line.startswith("hipMemsetAsync(") and "size=4" in line for line in lines) == 2
    assert sum(line.startswith("hipDeviceSynchronize()") for line in lines) == 1


def test_unchecked_kernels_still_report_what_the_host_s_processor_traps(device: Emulator) -> None:
    script = """
import struct
from codegen.device.hip import *
device = Device()
source = 'extern "C" __global__ void wild(int* x, int n) { x[threadIdx.x] = 100 / (n - int(threadIdx.x)); }'
module = device.module(compile_source(device.libraries, "a.hip", source, {}, []))
def run(address, n):
    module.launch(Launch("wild", (1, 1, 1), (64, 1, 1), (struct.pack("<Q", address), struct.pack("<i", n))))
    try:
        device.synchronize()
    except HipError as error:
        print(error.code, device.report().strip())
    device.libraries.hip.candle_rocm_emulator_reset()
run(device.allocate(256).address, 100)
run(16, 100)
run(device.allocate(256).address, 5)
"""
    done = _output(script, CHECK="0")
    null, division = done.stdout.splitlines()
    assert "700 kernel `wild`, block (0, 0, 0), thread (" in null
    assert "invalid access to 0x" in null
    assert "719 kernel `wild`, block (0, 0, 0), thread (5, 0, 0): integer division by zero" in division


def test_memory_is_limited(device: Emulator) -> None:
    script = """
import ctypes
from codegen.device.hip import *
device = Device()
first = device.allocate(3 << 20)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
device.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
print(free.value, total.value)
try:
    device.allocate((1 << 20) + 1)
except HipError as error:
    print(error.code)
device.free(first)
device.allocate(4 << 20)
"""
    assert _output(script, MEMORY="4M").stdout == f"{1 << 20} {4 << 20}\n2\n"
