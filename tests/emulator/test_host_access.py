"""Device memory is out of the host's reach: an access is a fault that says where, and in which test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root
from emulator.machine import emulator_folder
from emulator.test_programs import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

SIGSEGV = -11
PRELUDE = """
import ctypes, threading
from codegen.device.hip import Device, Launch, compile_source
devices = [Device(0), Device(1)]
hip = devices[0].libraries.hip
buffer, later = devices[0].upload(bytes(range(64))), devices[1].upload(bytes(64))
rows = (ctypes.c_char * 64)()
source = 'extern "C" __global__ void twice(char* x) { x[threadIdx.x] *= 2; }'
code = compile_source(devices[0].libraries, "k.hip", source, {}, ["--offload-arch=gfx1100"])
def twice():
    hip.hipSetDevice(0)
    devices[0].module(code).launch(Launch("twice", (1, 1, 1), (64, 1, 1), (buffer.address.to_bytes(8, "little"),)))
    devices[0].synchronize()
"""


def run(program: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, on two devices."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    environment |= {
        "CANDLE_ROCM_HIP": str(emulator_folder()),
        "CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100,gfx90a",
        **variables,
    }
    command = [sys.executable, *options, "-c", PRELUDE + program]
    root = repository_root()
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("access", "found"),
    [
        (
            "ctypes.string_at(buffer.address + 3, 1)",
            r"reads .* at offset 3 of allocation 1 of 64 bytes at 0x[0-9a-f]+,",
        ),
        (
            "ctypes.memset(buffer.address + 8, 0, 4)",
            r"writes .* at offset 8 of allocation 1 of 64 bytes at 0x[0-9a-f]+,",
        ),
        ("ctypes.string_at(later.address, 1)", r"reads .* at offset 0 of allocation 2 of 64 bytes at 0x[0-9a-f]+,"),
        (
            "ctypes.string_at(buffer.address + 70, 1)",
            r"reads .* 6 bytes past the end of allocation 1 of 64 bytes at .*,",
        ),
        ("twice(); ctypes.string_at(buffer.address, 1)", r"reads .* at offset 0 of allocation 1 of 64 bytes at .*,"),
        ("devices[0].free(buffer); ctypes.string_at(buffer.address, 1)", r"reads .* allocation 1 .* which was freed,"),
    ],
    ids=["read", "write", "second device", "past the end", "after a kernel", "freed"],
)
def test_the_host_s_access_is_a_fault_with_its_place(access: str, found: str) -> None:
    done = run(access)
    assert done.returncode == SIGSEGV
    assert re.match(rf"candle-rocm emulator: the host {found} on thread \"python", done.stderr)
    assert done.stderr.count("\n") == 1


def test_a_callback_of_a_stream_is_the_host_too() -> None:
    done = run(
        "called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: print(ctypes.string_at(buffer.address, 1)))\n"
        "hip.hipLaunchHostFunc(None, called, None)\n"
        "twice()"
    )
    assert (done.returncode, done.stdout) == (SIGSEGV, "")
    assert "the host reads device memory" in done.stderr


def test_copies_and_kernels_reach_it_from_any_thread() -> None:
    program = """
thread = threading.Thread(target=twice)
thread.start()
thread.join()
twice()
print(list(devices[0].download(buffer)) == [4 * value % 256 for value in range(64)])
"""
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_who_handled_such_signals_before_still_does() -> None:
    done = run("ctypes.string_at(buffer.address, 1)", "-X", "faulthandler")
    report, rest = done.stderr.split("\n", 1)
    assert report.startswith("candle-rocm emulator: the host reads")
    assert rest.startswith("Fatal Python error: Segmentation fault")
    assert run("ctypes.string_at(0)", "-X", "faulthandler").stderr.startswith("Fatal Python error")


def test_pytest_s_test_is_named() -> None:
    done = run("ctypes.string_at(buffer.address, 1)", PYTEST_CURRENT_TEST="tests/test_x.py::test_y (call)")
    assert " in tests/test_x.py::test_y (call); " in done.stderr


def test_rust_s_test_is_named(tmp_path: Path) -> None:
    libraries, program = emulator_folder(), tmp_path / "host_access"
    command = ["rustc", "--edition=2024", "--test", "-L", str(libraries), "-C", f"link-arg=-Wl,-rpath,{libraries}"]
    subprocess.run([*command, str(PROGRAMS / "host_access.rs"), "-o", str(program)], check=True)
    done = subprocess.run([program, "--exact", "reads_directly"], capture_output=True, text=True, check=False)
    assert done.returncode == SIGSEGV
    assert "at offset 40 of allocation 1 of 64 bytes at 0x" in done.stderr
    assert ', on thread "reads_directly" of "' in done.stderr
    assert '/host_access --exact reads_directly"' in done.stderr
