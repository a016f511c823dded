"""What HIP's functions of graphs ask of CUDA's driver, which a library stands in for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hip_on_nvidia.fake_driver import FakeDriver

if TYPE_CHECKING:
    from pathlib import Path

INSTANTIATE = "lib.hipGraphInstantiate(c_void_p(1000), c_void_p(2000), {}, {}, c_size_t({}))"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("hipStreamBeginCapture(c_void_p(1000), 0)", ["cuStreamBeginCapture_v2", "1000", "0"]),
        ("hipStreamBeginCapture(c_void_p(1000), 1)", ["cuStreamBeginCapture_v2", "1000", "1"]),
        ("hipStreamBeginCapture(c_void_p(1000), 2)", ["cuStreamBeginCapture_v2", "1000", "2"]),
        ("hipStreamEndCapture(c_void_p(1000), c_void_p(2000))", ["cuStreamEndCapture", "1000", "2000"]),
        ("hipGraphLaunch(c_void_p(1000), c_void_p(2000))", ["cuGraphLaunch", "1000", "2000"]),
        ("hipGraphExecDestroy(c_void_p(1000))", ["cuGraphExecDestroy", "1000"]),
        ("hipGraphDestroy(c_void_p(1000))", ["cuGraphDestroy", "1000"]),
    ],
)
def test_a_function_hands_its_arguments_on(driver: FakeDriver, call: str, expected: list[str]) -> None:
    calls, printed = driver.calls_of(f"print(lib.{call})")
    assert [made[: len(expected)] for made in calls] == [expected]
    assert printed == ["0"]


def test_a_graph_is_made_ready_without_flags_and_without_details(driver: FakeDriver) -> None:
    calls, printed = driver.calls_of(f"print({INSTANTIATE.format(None, None, 0)})")
    assert calls == [["cuGraphInstantiateWithFlags", "1000", "2000", "0"]]
    assert printed == ["0"]


@pytest.mark.parametrize(("size", "log"), [(9, "b''"), (0, "b'stale'")])
def test_no_node_and_no_log_are_left_from_before_where_it_fails(driver: FakeDriver, size: int, log: str) -> None:
    program = "node, log = c_void_p(77), create_string_buffer(b'stale')\n"
    program += f"print({INSTANTIATE.format('byref(node)', 'log', size)}, node.value, log.value)"
    calls, printed = driver.calls_of(program, fails="cuGraphInstantiateWithFlags", code=1)
    assert len(calls) == 1
    assert printed == ["1", "None", log]


def test_a_mode_that_hip_does_not_have_does_not_reach_the_driver(driver: FakeDriver) -> None:
    assert driver.calls_of("print(lib.hipStreamBeginCapture(c_void_p(1000), 3))") == ([], ["1"])


@pytest.mark.parametrize(("code", "expected"), [(901, "901"), (4711, "999")])
def test_the_drivers_error_is_hips_where_hip_has_it(driver: FakeDriver, code: int, expected: str) -> None:
    program = "print(lib.hipStreamEndCapture(None, None), lib.hipGetLastError())"
    assert driver.calls_of(program, fails="cuStreamEndCapture", code=code)[1] == [expected] * 2


def test_without_a_driver_there_is_no_device(tmp_path: Path) -> None:
    program = "print(lib.hipGraphDestroy(None), lib.hipGetDeviceCount(byref(c_int())))"
    for name in ("libcuda.so.1", "libcuda.so"):
        (tmp_path / name).write_text("not a library", encoding="ascii")
    calls, printed = FakeDriver(tmp_path).calls_of(program)
    assert (calls, printed) == ([], ["100", "100"])
