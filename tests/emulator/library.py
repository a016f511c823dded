"""ROCm's other libraries as the emulator stands in for them, called through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_longlong, c_size_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from emulator.machine import emulator_folder

if TYPE_CHECKING:
    from codegen.device.hip import Buffer
    from emulator.machine import Emulator

Array = npt.NDArray[Any]


class StatusError(Exception):
    """A function did not return success."""

    def __init__(self, function: str, status: int) -> None:
        self.status = status
        super().__init__(f"{function} returned {status}")


class Library:
    """One library, on one device."""

    def __init__(self, device: Emulator, name: str) -> None:
        self.device = device
        self.functions = ctypes.CDLL(str(path(device, name)))

    def call(self, function: str, *arguments: object) -> None:
        """Raises StatusError for any status but success."""
        self.device.call("hipSetDevice", c_int(self.device.index))
        if status := self.status(function, *arguments):
            raise StatusError(function, status)

    def status(self, function: str, *arguments: object) -> int:
        """What a function returns."""
        return int(getattr(self.functions, function)(*arguments))

    def handle(self, function: str, *arguments: object) -> c_void_p:
        """What a function makes: the handle that it writes through its first argument."""
        handle = c_void_p()
        self.call(function, byref(handle), *arguments)
        return handle


def path(device: Emulator, name: str) -> Path:
    """A library's file. A process that has loaded the emulator finds it again without a folder."""
    return Path(device.libraries.folder or emulator_folder()) / f"lib{name}.so"


def fail(device: Emulator, function: str, nth: int, code: int) -> None:
    """Makes the nth call from now of a function fail."""
    device.libraries.hip.candle_rocm_emulator_fail(function.encode(), c_longlong(nth), c_int(code))


def upload(device: Emulator, array: Array) -> Buffer:
    """The array's elements in the order in which they lie in memory."""
    return device.upload(array.tobytes("A"))


def download(device: Emulator, buffer: Buffer, like: Array) -> Array:
    """The memory as an array of the same type, shape and order."""
    elements: Array = np.frombuffer(device.download(buffer), like.dtype)
    by_columns = like.flags.f_contiguous and not like.flags.c_contiguous
    return elements.reshape(like.shape[::-1]).T if by_columns else elements.reshape(like.shape)


def peek(device: Emulator, address: int, size: int) -> bytes:
    """Device memory as it is now, while work may still wait on streams."""
    content = ctypes.create_string_buffer(size)
    peeked = device.libraries.hip.candle_rocm_emulator_peek(content, c_size_t(address), c_size_t(size))
    assert peeked, "this is no live memory of a device"
    return content.raw


def address(buffer: Buffer) -> c_void_p:
    """Its address as an argument."""
    return c_void_p(buffer.address)


def fault_of(device: Emulator) -> str:
    """The report with which the next synchronisation fails; empty if it does not."""
    hip = device.libraries.hip
    failed = hip.hipDeviceSynchronize()
    text = device.report().strip() if failed else ""
    hip.candle_rocm_emulator_reset()
    return text
