"""Which devices a process sees, and what it is told when it sees none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from codegen.paths import repository_root
from emulator.machine import emulator_folder

LISTS = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
NOT_INITIALIZED, NO_DEVICE = 3, 100
PRELUDE = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_void_p
from codegen.device.libraries import find_libraries
libraries = find_libraries()
hip = libraries.hip
count = c_int(77)
status = hip.hipGetDeviceCount(byref(count))
"""
EACH = """
from codegen.device.hip import Device
for index in range(count.value):
    device = Device(index, libraries)
    bus, uuid = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
    assert hip.hipDeviceGetPCIBusId(bus, 16, index) == 0
    assert hip.hipDeviceGetUuid(uuid, index) == 0
    print(device.architecture, device.wave_size, bus.value.decode(), uuid.raw.decode())
"""
FIRST = "gfx1100 32 0000:01:00.0 emulated-0000000"
SECOND = "gfx90a 64 0000:02:00.0 emulated-0000001"
NONE = """
hip.hipGetErrorName.restype = ctypes.c_char_p
pointer = c_void_p()
print(status, count.value, hip.hipInit(0), hip.hipSetDevice(0), hip.hipGetDevice(byref(count)))
print(hip.hipMalloc(byref(pointer), c_size_t(16)), hip.hipFree(None))
print(hip.hipGetErrorName(hip.hipGetLastError()).decode())
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in LISTS}
    environment |= {
        "CANDLE_ROCM_HIP": str(emulator_folder()),
        "CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100,gfx90a",
        **variables,
    }
    command = [sys.executable, "-c", PRELUDE + program]
    root = repository_root()
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [FIRST, SECOND]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [SECOND]),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, [SECOND, FIRST]),
        ({"HIP_VISIBLE_DEVICES": "0,2,1"}, [FIRST]),
        ({"HIP_VISIBLE_DEVICES": ""}, [FIRST, SECOND]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [SECOND]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [FIRST]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [SECOND]),
        ({"HIP_VISIBLE_DEVICES": "GPU-emulated-0000001"}, [SECOND]),
    ],
    ids=str,
)
def test_a_process_sees_what_is_listed_and_each_card_keeps_its_identity(
    variables: dict[str, str], expected: list[str]
) -> None:
    assert run(EACH, **variables).stdout.splitlines() == expected


@pytest.mark.parametrize(
    "variables",
    [{"HIP_VISIBLE_DEVICES": "-1"}, {"ROCR_VISIBLE_DEVICES": ""}, {"HIP_VISIBLE_DEVICES": "2,0"}],
    ids=str,
)
def test_without_a_device_everything_says_so(variables: dict[str, str]) -> None:
    done = run(NONE, **variables)
    none = str(NO_DEVICE)
    assert done.stdout.splitlines() == [f"{none} 0 0 {none} {none}", f"{none} {none}", "hipErrorNoDevice"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICES", ""),
        ("DEVICES", "gfx1100,"),
        ("DEVICES", "gfx9"),
        ("CHECK", "no"),
        ("SEED", "x"),
        ("RCCL_TIMEOUT", "0"),
        ("RCCL_HANGS", "no"),
    ],
)
def test_a_wrong_setting_is_said_once_and_nothing_works(name: str, value: str) -> None:
    done = run(NONE, **{f"CANDLE_ROCM_EMULATOR_{name}": value})
    wrong = str(NOT_INITIALIZED)
    assert done.stdout.splitlines() == [
        f"{wrong} 77 {wrong} {wrong} {wrong}",
        f"{wrong} {wrong}",
        "hipErrorNotInitialized",
    ]
    assert done.stderr.startswith(f"candle-rocm emulator: CANDLE_ROCM_EMULATOR_{name}={value}: expected ")
    assert done.stderr.count("\n") == 1


def test_without_a_device_hiprtc_wants_to_know_for_which() -> None:
    program = """
rtc, program, size = libraries.hiprtc, c_void_p(), c_size_t()
for options in ([], [b"--offload-arch=gfx1100"]):
    assert rtc.hiprtcCreateProgram(byref(program), b"", b"k.hip", 0, None, None) == 0
    array = (ctypes.c_char_p * 1)(*options)
    print(rtc.hiprtcCompileProgram(program, len(options), array))
    assert rtc.hiprtcGetProgramLogSize(program, byref(size)) == 0
    log = ctypes.create_string_buffer(size.value)
    assert rtc.hiprtcGetProgramLog(program, log) == 0
    print(log.value.decode())
"""
    printed = run(program, HIP_VISIBLE_DEVICES="-1").stdout.split("\n")
    assert printed == ["6", "error: there is no device; name one with --offload-arch", "", "0", "", ""]


def test_code_for_a_card_that_is_second_now_runs_on_it() -> None:
    """A device's number in the process decides what it is, not its number in the machine."""
    program = """
from codegen.device.hip import Device, Launch, compile_source
source = 'extern "C" __global__ void lanes(int* x) { x[0] = warpSize; }'
for index in range(2):
    device = Device(index, libraries)
    code = compile_source(libraries, "k.hip", source, {}, [])
    module, buffer = device.module(code), device.upload(bytes(4))
    module.launch(Launch("lanes", (1, 1, 1), (1, 1, 1), (buffer.address.to_bytes(8, "little"),)))
    print(int.from_bytes(device.download(buffer), "little"))
"""
    assert run(program, HIP_VISIBLE_DEVICES="1,0").stdout.split() == ["64", "32"]
