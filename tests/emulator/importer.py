"""A process that opens a handle of another one's memory; `test_ipc.py` runs this module and reads what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from ctypes import Structure, byref, c_char, c_uint, c_void_p
from typing import Any

import numpy as np

from codegen.device.hip import Buffer, Device, HipError, Launch, compile_source
from codegen.device.libraries import find_libraries
from codegen.paths import repository_root

LAZY_PEER_ACCESS = 1
DOUBLE = 'extern "C" __global__ void twice(int* x) { x[threadIdx.x] *= 2; }'


class MemHandle(Structure):
    """hipIpcMemHandle_t"""

    _fields_ = (("reserved", c_char * 64),)


class Importer:
    """The handle, and the device of this process that opens it."""

    def __init__(self, index: int, handle: bytes) -> None:
        self.device = Device(index, find_libraries())
        self.handle = MemHandle.from_buffer_copy(handle)

    def status(self, function: str, *arguments: object) -> int:
        """What a function of HIP returns."""
        try:
            self.device.call(function, *arguments)
        except HipError as error:
            return error.code
        return 0

    def open(self, flags: int = LAZY_PEER_ACCESS) -> tuple[int, c_void_p]:
        """What hipIpcOpenMemHandle returns, and the address."""
        place = c_void_p()
        return self.status("hipIpcOpenMemHandle", byref(place), self.handle, c_uint(flags)), place

    def numbers(self, place: c_void_p, count: int) -> list[int]:
        """What the memory holds."""
        found: list[int] = np.frombuffer(self.device.download(Buffer(place.value or 0, count * 4)), np.int32).tolist()
        return found

    def double(self, place: c_void_p, count: int) -> None:
        """Has a kernel double the first numbers. Raises HipError if it fails."""
        target = [f"--offload-arch={self.device.architecture}"]
        module = self.device.module(compile_source(self.device.libraries, "twice.hip", DOUBLE, {}, target))
        module.launch(Launch("twice", (1, 1, 1), (count, 1, 1), (bytes(place),)))
        self.device.synchronize()


def doubled(importer: Importer) -> dict[str, Any]:
    """Reads, writes, closes."""
    code, place = importer.open()
    found = importer.numbers(place, 4)
    importer.double(place, 3)
    return {"open": code, "found": found, "close": importer.status("hipIpcCloseMemHandle", place)}


def opened(importer: Importer) -> int:
    """Opens and closes."""
    code, place = importer.open()
    if code == 0:
        importer.device.call("hipIpcCloseMemHandle", place)
    return code


def twice(importer: Importer) -> dict[str, Any]:
    """Opens twice, and closes once more than that."""
    places = [importer.open()[1] for _ in range(2)]
    free = importer.status("hipFree", places[0])
    closed = [importer.status("hipIpcCloseMemHandle", places[0]) for _ in range(3)]
    return {"same": places[0].value == places[1].value, "free": free, "closed": closed}


def wrong_arguments(importer: Importer) -> dict[str, Any]:
    """Calls that are refused."""
    own = importer.device.allocate(16)
    return {
        "flags": importer.open(flags=0)[0],
        "nowhere": importer.status("hipIpcOpenMemHandle", None, importer.handle, c_uint(LAZY_PEER_ACCESS)),
        "own": importer.status("hipIpcCloseMemHandle", c_void_p(own.address)),
        "null": importer.status("hipIpcCloseMemHandle", None),
    }


def beyond(importer: Importer) -> list[Any]:
    """A kernel past the end of the memory, which has 1250 numbers."""
    _, place = importer.open()
    try:
        importer.double(c_void_p((place.value or 0) + 1249 * 4), 2)
    except HipError as error:
        return [error.code, importer.device.report()]
    return []


def in_another_process(scenario: str, index: int, handle: bytes, **variables: str) -> Any:
    """What a scenario returns in a process of its own, where the device of that number opens the handle."""
    path = os.pathsep.join(path for path in sys.path if path)
    devices = {"CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100,gfx90a"}
    done = subprocess.run(
        [sys.executable, "-m", "emulator.importer", scenario, str(index), handle.hex()],
        cwd=repository_root(),
        env={**os.environ, **devices, **variables, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main() -> None:
    """Prints what the scenario of the command line returns."""
    scenario, index, handle = sys.argv[1:]
    print(json.dumps(globals()[scenario](Importer(int(index), bytes.fromhex(handle)))))


if __name__ == "__main__":
    main()
