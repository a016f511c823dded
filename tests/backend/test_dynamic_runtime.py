"""The two runtimes: the same calls and results, and with the usual one a program for machines with and without ROCm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.wrappers import LIBRARIES, LOADER

if TYPE_CHECKING:
    from backend.conftest import Probe

pytestmark = [pytest.mark.cargo, pytest.mark.network]


def test_every_operation_makes_the_same_calls_with_either_runtime(probe: Probe, linked_probe: Probe) -> None:
    counts = linked_probe.counts()
    assert len(counts) == 40
    assert counts == probe.counts()


def test_a_network_learns_the_same_with_either_runtime(probe: Probe, linked_probe: Probe) -> None:
    losses = linked_probe.lines("training", 50)
    assert len(losses) == 50
    assert losses == probe.lines("training", 50)


def test_threads_and_devices_get_the_cpus_results_with_linked_libraries(linked_probe: Probe) -> None:
    (line,) = linked_probe.lines("stress", 8, 6, 1, CANDLE_ROCM_EMULATOR_DEVICES="gfx1100,gfx90a,gfx1100")
    assert line == "8 threads, 3 devices, 6 rounds each: all as on the CPU"


def test_one_program_runs_with_and_without_the_libraries(probe: Probe) -> None:
    assert probe.lines("device")[0] == "new_rocm: a device"

    first, second, third = probe.lines_without_libraries("device")
    assert "libamdhip64.so" in first
    assert second == "rocm_if_available: Cpu"
    assert third == "is_rocm_available: false"


def test_the_real_library_finds_no_device_on_a_machine_without_one(probe: Probe) -> None:
    """ROCm's own libamdhip64, from Debian's packages."""
    part = fetched(NEWEST, Part.COMPILER)
    if part is None:
        pytest.skip("missing toolchain: `make rocm-toolchain` was not run")
    first, second, third = probe.lines_with(part.root / LOADER, part.root / LIBRARIES, "device")
    if first == "new_rocm: a device":
        pytest.skip("this machine has an AMD GPU")
    assert "hipErrorNoDevice (100)" in first
    assert second == "rocm_if_available: Cpu"
    assert third == "is_rocm_available: false"
