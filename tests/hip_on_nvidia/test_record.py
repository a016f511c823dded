"""The record that each process on HIP on NVIDIA leaves behind; a library stands in for CUDA's driver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from hip_on_nvidia.fake_driver import FakeDriver

LOOK_UP = """
function, stream = c_void_p(), c_void_p(5)
def launch(on=stream):
    lib.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on, None, None)
print(lib.hipModuleGetFunction(byref(function), c_void_p(1), b"twice"))
print(lib.hipModuleGetFunction(byref(function), c_void_p(1), b"twice"))
"""
NO_LAUNCH = 719


def recorded(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.iterdir()
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def record_of(
    driver: FakeDriver, program: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **fails: Any
) -> list[dict[str, Any]]:
    monkeypatch.setenv("CANDLE_ROCM_RECORD", str(folder))
    driver.calls_of(LOOK_UP + program, **fails)
    start, function, last = recorded(folder)
    assert start.pop("pid") > 0
    assert start.pop("program").startswith("python")
    assert start == {"event": "start", "library": "nvidia", "devices": [{"name": "", "arch": "sm_00", "wave": 0}]}
    assert function == {"event": "function", "name": "twice"}
    return [last]


def end(launches: int, **counts: int) -> list[dict[str, Any]]:
    none = {"copies": 0, "allocations": 0, "synchronisations": 0}
    return [
        {"event": "end", "launches": launches, **none, **counts, "kernels": {"twice": launches} if launches else {}}
    ]


def test_what_the_driver_takes_counts(driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
launch(); launch()
for size in (0, 16):
    lib.hipMalloc(byref(c_void_p()), c_size_t(size))
    lib.hipMemcpy(c_void_p(16), c_void_p(32), c_size_t(size), 3)
    lib.hipMemcpyAsync(c_void_p(16), c_void_p(32), c_size_t(size), 3, stream)
lib.hipDeviceSynchronize(); lib.hipStreamSynchronize(stream); lib.hipEventSynchronize(c_void_p(7))
"""
    last = record_of(driver, program, tmp_path, monkeypatch)
    assert last == end(2, copies=2, allocations=1, synchronisations=3)


def test_what_the_driver_refuses_does_not(driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert record_of(driver, "launch()", tmp_path, monkeypatch, fails="cuLaunchKernel", code=NO_LAUNCH) == end(0)


def test_what_a_graph_has_counts_with_each_of_its_launches(
    driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
graph, executable = c_void_p(8), c_void_p(9)
lib.hipStreamBeginCapture(stream, 0)
launch(); launch()
lib.hipMemcpyAsync(c_void_p(16), c_void_p(32), c_size_t(16), 3, stream)
lib.hipStreamEndCapture(stream, byref(graph))
launch(c_void_p(6))
lib.hipGraphInstantiate(byref(executable), graph, None, None, c_size_t(0))
for _ in range(3):
    lib.hipGraphLaunch(executable, stream)
"""
    assert record_of(driver, program, tmp_path, monkeypatch) == end(7, copies=3)


def test_without_the_variable_the_driver_is_asked_nothing_more(driver: FakeDriver) -> None:
    calls, _ = driver.calls_of("lib.hipDeviceSynchronize()")
    assert calls == [["cuCtxSynchronize", *calls[0][1:]]]
