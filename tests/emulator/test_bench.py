"""The benchmark on the emulated device: it refuses, since its times would say nothing about a GPU."""

from __future__ import annotations

import pytest

from codegen.bench.run import Bench
from codegen.device.libraries import FOLDER_VARIABLE
from codegen.errors import ToolchainMissing
from emulator.machine import emulator_folder


def test_the_emulated_device_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(emulator_folder()))
    with pytest.raises(ToolchainMissing, match="no measure of speed"):
        Bench()
