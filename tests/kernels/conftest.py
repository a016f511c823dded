"""Kernel tests run once on every device: the GPUs of the machine, or an emulated card of each wave size."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from codegen.device.hip import Device
from codegen.device.kernels import Kernels
from codegen.device.libraries import Libraries, find_libraries
from codegen.errors import ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ.setdefault("CANDLE_ROCM_EMULATOR_DEVICES", "gfx1100,gfx90a")  # waves of 32 and of 64 lanes


@cache
def _libraries() -> Libraries | None:
    try:
        return find_libraries()
    except ToolchainMissing:
        return None


@cache
def _kernels(index: int) -> Kernels:
    return Kernels(Device(index, _libraries()))


def _devices() -> list[int | None]:
    libraries, count = _libraries(), ctypes.c_int(0)
    if libraries is None:
        return [None]
    libraries.hip.hipGetDeviceCount(ctypes.byref(count))
    return list(range(count.value))


def _id(index: int | None) -> str:
    if index is None:
        return "no-device"
    device = _kernels(index).device
    return f"{device.target}-{device.architecture}-wave{device.wave_size}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernels" in metafunc.fixturenames:
        metafunc.parametrize("kernels", _devices(), indirect=True, ids=_id, scope="session")


@pytest.fixture(scope="session")
def kernels(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """The kernels on one device."""
    if request.param is None:
        pytest.skip("no AMD GPU answers, and the emulated device is not built (make emulator)")
    yield _kernels(request.param)
    _kernels(request.param).device.synchronize()
