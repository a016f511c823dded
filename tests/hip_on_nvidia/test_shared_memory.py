"""What HIP's functions of memory that processes share ask of CUDA's driver, which a library stands in for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hip_on_nvidia.fake_driver import FakeDriver

HANDLE = """
from ctypes import Structure, c_char
class MemHandle(Structure):
    _fields_ = (("reserved", c_char * 64),)
handle, place = MemHandle(b"x" * 63), c_void_p(77)
"""


def test_a_handle_is_asked_for_the_address(driver: FakeDriver) -> None:
    program = f"{HANDLE}print(lib.hipIpcGetMemHandle(byref(handle), c_void_p(1000)), bytes(handle) == bytes(64))"
    calls, printed = driver.calls_of(program)
    assert [[call[0], call[2]] for call in calls] == [["cuIpcGetMemHandle", "1000"]]
    assert printed == ["0", "True"]


def test_a_handle_is_opened_with_its_flags(driver: FakeDriver) -> None:
    calls, printed = driver.calls_of(f"{HANDLE}print(lib.hipIpcOpenMemHandle(byref(place), handle, 1), place.value)")
    assert [[call[0], call[2]] for call in calls] == [["cuIpcOpenMemHandle_v2", "1"]]
    assert printed == ["0", "None"]


def test_an_address_is_closed(driver: FakeDriver) -> None:
    assert driver.calls_of("print(lib.hipIpcCloseMemHandle(c_void_p(1000)))")[0][0][:2] == [
        "cuIpcCloseMemHandle",
        "1000",
    ]


def test_the_drivers_error_is_told(driver: FakeDriver) -> None:
    program = f"{HANDLE}print(lib.hipIpcOpenMemHandle(byref(place), handle, 1), place.value)"
    assert driver.calls_of(program, fails="cuIpcOpenMemHandle_v2", code=201)[1] == ["201", "77"]
