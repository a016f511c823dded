"""The emulated device as its own tests use it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from surroundings import SWITCHES

from codegen.device import libraries
from codegen.device.hip import Device, HipError, Launch, Module, compile_source
from codegen.device.libraries import FOLDER_VARIABLE

if TYPE_CHECKING:
    from codegen.device.libraries import Libraries

KERNELS = Path(__file__).parent / "kernels"


class Emulator(Device):
    """A device with the kernels of this folder's sources, compiled when first used."""

    def __init__(self, index: int, libraries: Libraries) -> None:
        super().__init__(index, libraries)
        self._modules: dict[str, Module] = {}

    def compile(self, source: str, name: str = "test.hip", options: tuple[str, ...] = ()) -> bytes:
        """The code object of a source for this device."""
        return compile_source(self.libraries, name, source, {}, [f"--offload-arch={self.architecture}", *options])

    def source(self, name: str) -> Module:
        """The module of a file in kernels/."""
        if name not in self._modules:
            self._modules[name] = self.module(self.compile((KERNELS / name).read_text(encoding="utf-8"), name))
        return self._modules[name]

    def fault(self, module: Module, launch: Launch) -> tuple[int, str]:
        """Code and report with which a launch fails; 0 and nothing if it does not."""
        try:
            module.launch(launch)
            self.synchronize()
        except HipError as error:
            return error.code, self.report().strip()
        finally:
            self.libraries.hip.candle_rocm_emulator_reset()
        return 0, ""


def emulator_folder() -> Path:
    """Where the emulator's libraries are, with mutants if one is tried; skips the test if they are not built."""
    folder = Path(os.environ[FOLDER_VARIABLE]) if SWITCHES & os.environ.keys() else libraries.emulator_folder()
    if not (folder / "libamdhip64.so").exists():
        pytest.skip("the emulated device is not built (make emulator)")
    return folder
