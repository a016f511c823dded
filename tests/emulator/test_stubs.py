"""Functions that the emulator lacks are there, and say so."""

from __future__ import annotations

import ctypes
import subprocess
from typing import TYPE_CHECKING

import pytest
from some import some

from codegen.paths import repository_root
from codegen.rocm.symbols import exported_functions
from codegen.spec.hip_api import CURRENT_RELEASE, HIP_API, parse_hip_api
from emulator.library import Library, fail, path

if TYPE_CHECKING:
    from emulator.machine import Emulator

NOT_SUPPORTED = {"amdhip64": 801, "hiprtc": 11, "rocblas": 2, "rocrand": 103, "MIOpen": 6, "rccl": 5}
OWN = "candle_rocm_emulator_"


def unsupported(library: str) -> list[str]:
    return (repository_root() / "emulator/unsupported" / f"{library}.txt").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("library", NOT_SUPPORTED)
def test_every_function_is_exported(device: Emulator, library: str) -> None:
    api = parse_hip_api((repository_root() / HIP_API).read_bytes()).api
    listed = next(entry for entry in api.libraries if entry.name == library)
    implemented = {function.name for function in api.functions_of(listed, CURRENT_RELEASE)}
    lacking = set(unsupported(library))
    assert implemented
    assert lacking
    assert not implemented & lacking
    exported = exported_functions(path(device, library), library)
    assert exported is not None
    assert {name for name in exported if not name.startswith(OWN)} == implemented | lacking


@pytest.mark.parametrize("library", NOT_SUPPORTED)
def test_it_says_so(device: Emulator, library: str) -> None:
    functions = Library(device, library)
    for name in some(unsupported(library)[:3]):
        assert functions.status(name, None, None) == NOT_SUPPORTED[library]
        assert device.report().strip() == f"{name}: not supported by the emulated device"


def test_it_says_so_on_standard_error_once(device: Emulator, capfd: pytest.CaptureFixture[str]) -> None:
    functions = Library(device, "rocblas")
    capfd.readouterr()
    functions.status("rocblas_zherkx")
    functions.status("rocblas_zherkx")
    said = capfd.readouterr().err
    # Another parameter of this test may have said it before.
    assert said.count("rocblas_zherkx") == (1 if device.index == 0 else 0)


def test_it_is_counted_and_can_be_made_to_fail(device: Emulator) -> None:
    hip = device.libraries.hip
    hip.candle_rocm_emulator_trace_start()
    fail(device, "hipGraphCreate", 2, 999)
    assert [hip.hipGraphCreate(None, 0) for _ in range(3)] == [801, 999, 801]
    hip.candle_rocm_emulator_trace_count.restype = ctypes.c_int64
    assert hip.candle_rocm_emulator_trace_count(b"hipGraphCreate") == 3
    hip.candle_rocm_emulator_trace_stop()


def test_the_libraries_have_their_names(device: Emulator) -> None:
    for library in NOT_SUPPORTED:
        command = ["readelf", "--dynamic", str(path(device, library))]
        dynamic = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert f"Library soname: [lib{library}.so]" in dynamic
