"""Work that is captured from a stream is done when a graph of it is launched, and as often."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import TYPE_CHECKING

import pytest

from codegen.device.hip import DEVICE_TO_HOST, Buffer, HipError, Launch
from emulator.library import Library, peek
from emulator.test_order import event, fill, stream

if TYPE_CHECKING:
    from emulator.machine import Emulator

INVALID_VALUE, INVALID_HANDLE, ILLEGAL_STATE, NOT_SUPPORTED = 1, 400, 401, 801
UNSUPPORTED, INVALIDATED, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = 900, 901, 906, 907, 908
DEVICE_TO_DEVICE = 3
GLOBAL, THREAD_LOCAL, RELAXED = range(3)

SOURCE = 'extern "C" __global__ void add(int* x) { x[threadIdx.x] += 1; }'


def begin(device: Emulator, on: c_void_p, mode: int = RELAXED) -> None:
    """Begins a capture."""
    device.call("hipStreamBeginCapture", on, c_int(mode))


def end(device: Emulator, on: c_void_p) -> c_void_p:
    """Ends a capture and makes what can be launched, of a graph that is given up."""
    graph, executable = c_void_p(), c_void_p()
    device.call("hipStreamEndCapture", on, byref(graph))
    device.call("hipGraphInstantiate", byref(executable), graph, None, None, c_size_t(0))
    device.call("hipGraphDestroy", graph)
    return executable


def launched(device: Emulator, executable: c_void_p, on: c_void_p) -> None:
    """Launches a graph and waits."""
    device.call("hipGraphLaunch", executable, on)
    device.call("hipStreamSynchronize", on)


def status(device: Emulator, function: str, *arguments: object) -> int:
    """What a function returns."""
    device.call("hipSetDevice", c_int(device.index))
    return Library(device, "amdhip64").status(function, *arguments)


def content(device: Emulator, buffer: Buffer) -> bytes:
    """What lies in a buffer, without a wait."""
    return peek(device, buffer.address, buffer.size)


def numbers(device: Emulator, buffer: Buffer) -> list[int]:
    """The first two numbers of a buffer."""
    return [int.from_bytes(content(device, buffer)[at : at + 4], "little") for at in (0, 4)]


def test_a_graph_does_again_what_was_captured(device: Emulator) -> None:
    module = device.module(device.compile(SOURCE))
    x, y, on = device.zeros(8), device.zeros(8), stream(device, blocking=False)
    add = Launch("add", (1, 1, 1), (2, 1, 1), (x.address.to_bytes(8, "little"),))
    begin(device, on)
    device.stream = on
    try:
        for _ in range(3):
            module.launch(add)
    finally:
        device.stream = c_void_p(0)
    copy = (c_void_p(y.address), c_void_p(x.address), c_size_t(8), c_int(DEVICE_TO_DEVICE), on)
    device.call("hipMemcpyAsync", *copy)
    executable = end(device, on)
    device.call("hipDeviceSynchronize")
    assert numbers(device, x) == numbers(device, y) == [0, 0]

    for launches in (1, 2):
        launched(device, executable, on)
        assert numbers(device, x) == numbers(device, y) == [3 * launches] * 2
    begin(device, on)
    device.call("hipGraphLaunch", executable, on)
    device.call("hipGraphLaunch", executable, on)
    twice = end(device, on)
    device.call("hipGraphExecDestroy", executable)
    launched(device, twice, on)
    assert numbers(device, y) == [12] * 2
    device.call("hipGraphExecDestroy", twice)
    assert status(device, "hipGraphLaunch", twice, on) == INVALID_VALUE


def test_work_on_other_streams_is_done_meanwhile(device: Emulator) -> None:
    buffer, on, other = device.zeros(8), stream(device, blocking=False), stream(device)
    begin(device, on)
    fill(device, buffer, 1, on)
    fill(device, buffer, 2, other)
    device.call("hipStreamSynchronize", other)
    assert content(device, buffer) == b"\x02" * 8
    launched(device, end(device, on), on)
    assert content(device, buffer) == b"\x01" * 8


def test_what_a_graph_uses_has_to_be_there_still(device: Emulator) -> None:
    buffer, on = device.zeros(8), stream(device, blocking=False)
    begin(device, on)
    fill(device, buffer, 1, on)
    executable = end(device, on)
    device.free(buffer)
    with pytest.raises(HipError):
        launched(device, executable, on)
    assert "hipMemsetAsync" in device.report()


def test_a_default_stream_is_not_captured_and_no_stream_twice(device: Emulator) -> None:
    on = stream(device)
    assert status(device, "hipStreamBeginCapture", None, c_int(RELAXED)) == UNSUPPORTED
    assert status(device, "hipStreamBeginCapture", on, c_int(3)) == INVALID_VALUE
    assert status(device, "hipStreamEndCapture", on, byref(c_void_p())) == ILLEGAL_STATE
    begin(device, on)
    assert status(device, "hipStreamBeginCapture", on, c_int(RELAXED)) == ILLEGAL_STATE
    assert status(device, "hipStreamEndCapture", on, None) == INVALID_VALUE
    end(device, on)
    for function in ("hipGraphDestroy", "hipGraphExecDestroy"):
        assert status(device, function, c_void_p(77)) == INVALID_VALUE
    assert status(device, "hipGraphInstantiate", byref(c_void_p()), c_void_p(77), None, None, c_size_t(0)) == 1


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("hipStreamSynchronize", UNSUPPORTED),
        ("hipStreamQuery", UNSUPPORTED),
        ("hipDeviceSynchronize", UNSUPPORTED),
        ("hipMemset", IMPLICIT),
        ("hipMemcpy", IMPLICIT),
    ],
)
def test_what_cannot_be_captured_spoils_the_capture(device: Emulator, what: str, code: int) -> None:
    buffer, on = device.zeros(8), stream(device, blocking=False)
    address, size = c_void_p(buffer.address), c_size_t(8)
    calls = {
        "hipMemset": ("hipMemset", address, c_int(1), size),
        "hipMemcpy": ("hipMemcpy", address, address, size, c_int(DEVICE_TO_DEVICE)),
        "hipDeviceSynchronize": ("hipDeviceSynchronize",),
    }
    begin(device, on)
    fill(device, buffer, 1, on)
    function, *arguments = calls.get(what, (what, on))
    assert status(device, str(function), *arguments) == code
    for _ in range(2):  # HIP leaves the stream as it is: it can only be destroyed
        graph = c_void_p(5)
        assert status(device, "hipStreamEndCapture", on, byref(graph)) == INVALIDATED
        assert graph.value is None
    assert status(device, "hipMemsetAsync", address, c_int(7), size, on) == INVALIDATED
    assert status(device, "hipStreamSynchronize", on) == UNSUPPORTED
    device.call("hipStreamDestroy", on)
    on = stream(device)
    fill(device, buffer, 7, on)
    device.call("hipStreamSynchronize", on)
    assert content(device, buffer) == b"\x07" * 8


def test_what_a_capture_does_not_concern_goes_on(device: Emulator) -> None:
    """HIP takes a wait for an event outside of the capture, and forgets it; its default stream waits for no capture."""
    buffer, other, on, earlier = device.zeros(8), device.zeros(8), stream(device), event(device)
    device.call("hipEventRecord", earlier, None)
    device.synchronize()
    begin(device, on)
    fill(device, buffer, 1, on)
    device.call("hipStreamWaitEvent", on, earlier, c_int(0))
    fill(device, other, 2, c_void_p(0))
    device.call("hipStreamSynchronize", None)
    assert content(device, other) == b"\x02" * 8
    launched(device, end(device, on), on)
    assert content(device, buffer) == b"\x01" * 8


def test_events_of_a_capture_order_it_and_never_come(device: Emulator) -> None:
    on, other, mark = stream(device, blocking=False), stream(device, blocking=False), event(device)
    begin(device, on)
    device.call("hipEventRecord", mark, on)
    device.call("hipStreamWaitEvent", on, mark, c_int(0))
    assert status(device, "hipStreamWaitEvent", other, mark, 0) == NOT_SUPPORTED
    assert "a capture of several streams (hipStreamWaitEvent): not supported" in device.report()
    end(device, on)
    for function in ("hipEventSynchronize", "hipEventQuery"):
        assert status(device, function, mark) == CAPTURED_EVENT


@pytest.mark.parametrize(("mode", "own", "others"), [(GLOBAL, 900, 900), (THREAD_LOCAL, 900, 0), (RELAXED, 0, 0)])
def test_modes_say_who_may_allocate_meanwhile(device: Emulator, mode: int, own: int, others: int) -> None:
    on, buffer, found = stream(device, blocking=False), device.allocate(8), list[int]()

    def allocate() -> None:
        found.append(status(device, "hipMalloc", byref(c_void_p()), c_size_t(8)))

    begin(device, on, mode)
    allocate()
    freed = status(device, "hipFree", c_void_p(buffer.address))
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    assert (*found, freed) == (own, others, own)
    ended = list[int]()
    thread = threading.Thread(target=lambda: ended.append(status(device, "hipStreamEndCapture", on, byref(c_void_p()))))
    thread.start()
    thread.join()
    assert ended == [0 if mode == RELAXED else WRONG_THREAD]
    if mode != RELAXED:  # what was refused has spoilt the capture, too
        assert status(device, "hipStreamEndCapture", on, byref(c_void_p())) == INVALIDATED
    device.call("hipStreamDestroy", on)
    allocate()
    assert found[-1] == 0


def test_a_copy_to_the_host_arrives_with_each_launch(device: Emulator) -> None:
    buffer, on = device.upload(b"\x05" * 8), stream(device, blocking=False)
    host = ctypes.create_string_buffer(8)
    begin(device, on)
    device.call("hipMemcpyAsync", host, c_void_p(buffer.address), c_size_t(8), c_int(DEVICE_TO_HOST), on)
    executable = end(device, on)
    for value in (5, 6):
        fill(device, buffer, value, on)
        launched(device, executable, on)
        assert host.raw == bytes([value]) * 8


def test_a_stream_may_end_while_it_is_captured(device: Emulator) -> None:
    on = stream(device, blocking=False)
    begin(device, on, GLOBAL)
    device.call("hipStreamDestroy", on)
    device.free(device.allocate(8))
    assert status(device, "hipStreamEndCapture", on, byref(c_void_p())) == INVALID_HANDLE
