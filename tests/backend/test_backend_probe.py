"""Costs, faults, threads, training and missing devices of the ROCm backend, on the emulated HIP device."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest
from some import some

if TYPE_CHECKING:
    from pathlib import Path

    from backend.conftest import Probe

pytestmark = [pytest.mark.cargo, pytest.mark.network]

WAITS = ("hipStreamSynchronize", "hipDeviceSynchronize", "hipEventSynchronize")
COPIES = ("hipMemcpy", "hipMemcpyAsync", "hipMemcpy2DAsync")
TO_THE_HOST = frozenset({"to_vec", "to_scalar of one element"})

LAUNCHES = {
    "sum_all": 2,
    "argmin": 2,
    "where": 2,  # with the comparison that makes its condition
    "cat": 2,  # one for each tensor
    "cat of the last dimension": 2,
    "gather": 2,  # with the cast that makes its indices
    "index_add": 2,
}
"""The most launches of an operation; of all others one."""

PRODUCTS = frozenset(
    f"matmul{of}"
    for of in (
        "",
        " of transposed lhs",
        " of transposed rhs",
        " of both transposed",
        " of narrow lhs",
        " of broadcast lhs",
        " of attention heads",
    )
)
SWALLOWED = frozenset({"hipMalloc", "hipFree", "hipHostFree", "hipEventQuery", "hipStreamWaitEvent"})
"""Calls whose failure may be made up for: memory is asked for again, or kept, and an event is waited for."""


@pytest.fixture(scope="module")
def counts(probe: Probe) -> dict[str, dict[str, int]]:
    """Calls by function of each operation."""
    return probe.counts()


def test_operations_neither_wait_nor_copy_nor_allocate(counts: dict[str, dict[str, int]]) -> None:
    assert len(counts) == 40
    for name, calls in counts.items():
        assert calls.get("hipMalloc", 0) == calls.get("hipFree", 0) == calls.get("hipHostMalloc", 0) == 0, name
        assert calls.get("hipModuleGetFunction", 0) == calls.get("hipGetDeviceCount", 0) == 0, name
        if name not in TO_THE_HOST:
            assert {function for function in (*WAITS, *COPIES) if calls.get(function)} == set(), name


def test_operations_launch_as_few_kernels_as_they_can(counts: dict[str, dict[str, int]]) -> None:
    for name, calls in some(counts.items()):
        launches = calls.get("hipModuleLaunchKernel", 0)
        if name in PRODUCTS:
            # The heads of two sequences lie at no common distance: a product for each sequence.
            products = 2 if name == "matmul of attention heads" else 1
            assert (launches, calls["rocblas_gemm_strided_batched_ex"]) == (0, products), name
        elif name not in TO_THE_HOST and name != "zeros":
            assert 1 <= launches <= LAUNCHES.get(name, 1), name


def test_reading_a_tensor_waits_once(counts: dict[str, dict[str, int]]) -> None:
    for name in some(TO_THE_HOST):
        assert sum(counts[name].get(function, 0) for function in WAITS) == 1, name
        assert sum(counts[name].get(function, 0) for function in COPIES) == 1, name


def test_a_network_learns_as_on_the_cpu(probe: Probe) -> None:
    losses = [tuple(map(float, line.split())) for line in probe.lines("training", 200)]
    assert len(losses) == 200
    for step, (ours, cpu) in enumerate(losses):
        # f32 on both sides; each step adds the order of its sums to what the parameters differ by.
        assert math.isclose(ours, cpu, rel_tol=1e-5 * (step + 1)), step
    assert losses[-1][0] < 0.02 < losses[0][0]


def test_every_failing_call_is_an_error_that_names_it(probe: Probe) -> None:
    lines = probe.lines("faults")
    failed, loading = set(), set()
    for line in lines:
        match = re.fullmatch(r"(\w+) (\w+) (\d+): (.*)", line)
        assert match, line
        work, function, _nth, outcome = match.groups()
        if outcome.startswith("ok"):
            assert function in SWALLOWED, line
        else:
            assert re.match(rf"error .*\b{function}\b", outcome), line
            failed.add(function)
            loading |= {function} if work == "loading" else set()
    assert {"hipMemcpyAsync", "hipEventRecord", "hipEventSynchronize"} <= loading
    assert {"hipModuleLaunchKernel", "hipStreamSynchronize", "rocblas_gemm_strided_batched_ex"} <= failed
    assert len(lines) > 50


def test_every_failing_call_on_the_way_to_a_device_is_an_error_that_names_it(probe: Probe, tmp_path: Path) -> None:
    fresh = {"CANDLE_ROCM_CACHE_DIR": str(tmp_path)}
    calls = dict(line.split() for line in probe.lines("cold-calls", **fresh))
    assert int(calls["hiprtcCompileProgram"]) > 3
    for function, number in calls.items():
        last = int(number)
        for nth in {1, last} if last else ():
            (line,) = probe.lines("cold-fault", function, nth, CANDLE_ROCM_FORCE_RECOMPILE="1", **fresh)
            outcome = line.partition(": ")[2]
            if outcome.startswith("ok"):
                # The last wait is that of a queue that nobody has any more.
                assert function in SWALLOWED or (function, nth) == ("hipStreamSynchronize", last), line
            else:
                assert re.match(rf"error .*\b{function}\b", outcome), line


def test_memory_that_runs_out_is_an_error_with_figures(probe: Probe) -> None:
    first, second = probe.lines("fill", CANDLE_ROCM_EMULATOR_MEMORY="64M")
    assert re.search(r"out of memory on ROCm: \d+ bytes requested, \d+ of \d+ free", first), first
    assert second == "then 1048576"


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("threads", "devices"), [(2, "gfx1100"), (8, "gfx90a"), (8, "gfx1100,gfx90a,gfx1100")])
def test_threads_and_devices_get_the_cpus_results(probe: Probe, threads: int, devices: str, seed: int) -> None:
    (line,) = probe.lines(
        "stress", threads, 6, seed, CANDLE_ROCM_EMULATOR_DEVICES=devices, CANDLE_ROCM_EMULATOR_SEED=str(seed)
    )
    count = devices.count(",") + 1
    assert line == f"{threads} threads, {count} devices, 6 rounds each: all as on the CPU"


def test_without_a_device_new_rocm_says_so_and_the_cpu_serves(probe: Probe) -> None:
    first, second, third = probe.lines("no-device")
    assert "hipErrorNoDevice" in first
    assert second == "rocm_if_available: Cpu"
    assert third == "is_rocm_available: false"


def test_with_a_device_all_three_have_it(probe: Probe) -> None:
    assert probe.lines("device") == [
        "new_rocm: a device",
        "rocm_if_available: Rocm { gpu_id: 0 }",
        "is_rocm_available: true",
    ]
