"""Memory of the emulated device that processes share by hipIpc's handles."""

from __future__ import annotations

from ctypes import byref, c_uint, c_void_p
from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.hip import HipError
from emulator.importer import LAZY_PEER_ACCESS, MemHandle, in_another_process
from emulator.library import address

if TYPE_CHECKING:
    from emulator.machine import Emulator

INVALID_VALUE, INVALID_DEVICE_POINTER, INVALID_CONTEXT = 1, 17, 201
NUMBERS = np.arange(1250, dtype=np.int32)
"""5000 bytes: two pages, neither of them whole."""


def handle_of(device: Emulator, place: c_void_p) -> bytes:
    handle = MemHandle()
    device.call("hipIpcGetMemHandle", byref(handle), place)
    return bytes(handle)


def shared(device: Emulator) -> c_void_p:
    return address(device.upload(NUMBERS.tobytes()))


def test_another_process_works_with_the_memory_in_place(device: Emulator) -> None:
    before, memory, after = (device.upload(data) for data in (b"\1" * 5000, NUMBERS.tobytes(), b"\2" * 5000))
    found = in_another_process("doubled", device.index, handle_of(device, address(memory)))
    assert found == {"open": 0, "found": [0, 1, 2, 3], "close": 0}
    assert np.frombuffer(device.download(memory), np.int32).tolist() == [0, 2, 4, *range(3, 1250)]
    assert (device.download(before), device.download(after)) == (b"\1" * 5000, b"\2" * 5000)
    # Its neighbour on a page that is shared already, and the same memory once more.
    assert in_another_process("doubled", device.index, handle_of(device, address(after)))["found"] == [0x02020202] * 4
    assert in_another_process("doubled", device.index, handle_of(device, address(memory)))["found"] == [0, 2, 4, 3]
    for buffer in (before, memory, after):
        device.free(buffer)


def test_a_handle_of_a_byte_leads_to_that_byte(device: Emulator) -> None:
    memory = shared(device)
    handle = handle_of(device, c_void_p((memory.value or 0) + 4000))
    assert in_another_process("doubled", device.index, handle)["found"] == [1000, 1001, 1002, 1003]


def test_work_that_was_queued_before_is_seen(device: Emulator) -> None:
    memory = shared(device)
    device.call("hipMemsetAsync", memory, 1, 8, None)
    handle = handle_of(device, memory)
    device.synchronize()
    assert in_another_process("doubled", device.index, handle)["found"] == [0x01010101, 0x01010101, 2, 3]


def test_memory_is_the_other_process_s_until_it_is_closed_as_often_as_opened(device: Emulator) -> None:
    found = in_another_process("twice", device.index, handle_of(device, shared(device)))
    assert found == {"same": True, "free": INVALID_VALUE, "closed": [0, 0, INVALID_DEVICE_POINTER]}


def test_an_access_beyond_the_end_is_a_fault_there_too(device: Emulator) -> None:
    code, report = in_another_process("beyond", device.index, handle_of(device, shared(device)))
    assert code == 700
    assert "0 bytes past the end of allocation" in report


def test_wrong_arguments_are_refused(device: Emulator) -> None:
    found = in_another_process("wrong_arguments", device.index, handle_of(device, shared(device)))
    assert found == {
        "flags": INVALID_VALUE,
        "nowhere": INVALID_VALUE,
        "own": INVALID_DEVICE_POINTER,
        "null": INVALID_VALUE,
    }


def test_only_memory_of_a_device_has_a_handle(device: Emulator) -> None:
    pinned = c_void_p()
    device.call("hipHostMalloc", byref(pinned), 64, c_uint(0))
    host = np.zeros(4)
    for place, code in (
        (None, INVALID_VALUE),
        (pinned, INVALID_DEVICE_POINTER),
        (c_void_p(host.ctypes.data), INVALID_DEVICE_POINTER),
    ):
        with pytest.raises(HipError) as error:
            device.call("hipIpcGetMemHandle", byref(MemHandle()), place)
        assert error.value.code == code
    with pytest.raises(HipError):
        device.call("hipIpcGetMemHandle", None, shared(device))


def test_a_process_does_not_open_its_own_handle(device: Emulator) -> None:
    handle = MemHandle.from_buffer_copy(handle_of(device, shared(device)))
    with pytest.raises(HipError) as error:
        device.call("hipIpcOpenMemHandle", byref(c_void_p()), handle, c_uint(LAZY_PEER_ACCESS))
    assert error.value.code == INVALID_CONTEXT


def test_handles_that_lead_nowhere_are_refused(device: Emulator) -> None:
    handle = handle_of(device, shared(device))
    assert in_another_process("opened", device.index, bytes(64)) == INVALID_VALUE
    # Another file of the same process, and a process that is none.
    nonce = handle[:24] + bytes(8) + handle[32:]
    nobody = handle[:8] + (1 << 22).to_bytes(8, "little") + handle[16:]
    assert in_another_process("opened", device.index, nonce) == INVALID_DEVICE_POINTER
    assert in_another_process("opened", device.index, nobody) == INVALID_DEVICE_POINTER
    # A card that the other process does not see.
    other = {"HIP_VISIBLE_DEVICES": str(1 - device.index)}
    assert in_another_process("opened", 0, handle, **other) == INVALID_DEVICE_POINTER
    assert in_another_process("opened", device.index, handle) == 0
