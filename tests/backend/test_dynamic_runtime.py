"""The two runtimes: the same calls and results, and with the usual one a program for machines with and without ROCm."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.wrappers import LIBRARIES, LOADER

if TYPE_CHECKING:
    from pathlib import Path

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


def made_up(folder: Path, name: str, *needs: str, body: str = "") -> None:
    """A library of that name, which has nothing, and needs others of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "made_up.c"
    source.write_text(body)
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", f"-Wl,-rpath,{folder}"]
    subprocess.run([*command, "-o", folder / name, source, *(folder / need for need in needs)], check=True)


def test_rocm_path_comes_before_an_older_hip_in_the_loaders_path(
    probe: Probe, emulator: dict[str, str], tmp_path: Path
) -> None:
    made_up(tmp_path, "libamdhip64.so.5")
    made_up(tmp_path, "libamdhip64.so.7")
    path = f"{tmp_path}:{emulator['LD_LIBRARY_PATH']}"
    assert probe.lines("device", LD_LIBRARY_PATH=path)[0] == "new_rocm: a device"
    # Without it the loader's path is all there is.
    first, second, third = probe.lines("device", LD_LIBRARY_PATH=path, ROCM_PATH="")
    assert "libamdhip64.so.7 has no hip" in first
    assert "ROCm 6.0 or later is needed" in first
    assert (second, third) == ("rocm_if_available: Cpu", "is_rocm_available: false")


def test_a_rocm_that_is_too_old_is_named(probe: Probe, tmp_path: Path) -> None:
    made_up(tmp_path / "lib", "libamdhip64.so.5")
    first = probe.lines("device", ROCM_PATH=str(tmp_path))[0]
    assert f"{tmp_path}/lib/libamdhip64.so.5 has no hip" in first
    assert "ROCm 6.0 or later is needed" in first


def test_libraries_of_two_releases_are_an_error_that_names_both(
    probe: Probe, emulator: dict[str, str], tmp_path: Path
) -> None:
    """rocBLAS beside the HIP runtime was made for another one, which comes with it."""
    lib = tmp_path / "lib"
    made_up(lib, "libamdhip64.so.6")
    made_up(lib, "librocblas.so.5", "libamdhip64.so.6", body="int rocblas_is_another(void) { return 1; }")
    for name in ("libamdhip64.so", "libhiprtc.so"):
        (lib / name).symlink_to(f"{emulator['ROCM_PATH']}/lib/{name}")
    (lib / "libamdhip64.so.7").symlink_to("libamdhip64.so")
    done = probe("counts", ROCM_PATH=str(tmp_path), CANDLE_ROCM_CHECK_INDICES="0")
    assert done.returncode != 0
    assert "libraries of two releases of ROCm met in this process" in done.stderr
    assert f"{lib}/libamdhip64.so.6" in done.stderr
    assert "emulator/release/libamdhip64.so" in done.stderr
