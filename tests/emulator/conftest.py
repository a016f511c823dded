"""The emulated device, one for waves of 32 lanes and one for waves of 64."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from codegen.device.libraries import find_libraries
from codegen.errors import ToolchainMissing
from emulator.machine import Emulator, emulator_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

os.environ["CANDLE_ROCM_EMULATOR_DEVICES"] = "gfx1100,gfx90a"  # waves of 32 and of 64 lanes


@cache
def _emulator(index: int) -> Emulator:
    return Emulator(index, find_libraries())


@pytest.fixture(params=[0, 1], ids=["wave32", "wave64"])
def device(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    """The emulated device."""
    emulator_folder()
    try:
        device = _emulator(request.param)
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    if device.target != "emulator":
        pytest.skip("an AMD GPU answers; these tests are about the emulated device")
    yield device
    device.libraries.hip.candle_rocm_emulator_reset()
