"""Kernel tests run once on every device: the GPUs of the machine, or an emulated card of each wave size."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from codegen.device.hip import Device
from codegen.device.kernels import Kernels
from codegen.device.libraries import Libraries, find_libraries
from codegen.errors import ToolchainMissing
from codegen.kernels.render import HEADERS, Source, Sources
from kernels.machine_code import CompiledKernels, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.device.hip import Launch

os.environ["CANDLE_ROCM_EMULATOR_DEVICES"] = "gfx1100,gfx90a"  # waves of 32 and of 64 lanes
os.environ["CANDLE_ROCM_EMULATOR_MEMORY"] = "128G"  # addresses for huge tensors; memory only where touched


@cache
def _libraries() -> Libraries | None:
    try:
        return find_libraries()
    except ToolchainMissing:
        return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kernel-sources", type=Path, help="Folder with sources to test in place of the rendered ones.")
    parser.addoption("--machine-code", help="Execute the machine code of AMD's compiler for this card, gfx942 say.")


EXECUTED = pytest.StashKey[list[dict[str, Any]]]()
"""What machine code was executed, by process."""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # Of a worker, which has no terminal.
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["machine code"] = session.config.stash.get(EXECUTED, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash.setdefault(EXECUTED, []).extend(getattr(node, "workeroutput", {}).get("machine code", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    executed: list[dict[str, Any]] = config.stash.get(EXECUTED, [])
    for line in summary(executed):
        terminalreporter.write_line(line)


def _sources(folder: Path) -> Sources:
    headers = [Source(f"{HEADERS}/{path.name}", path.read_text(), None, ()) for path in (folder / HEADERS).iterdir()]
    families = [Source(path.name, path.read_text(), None, ()) for path in folder.glob("*.hip")]
    return Sources(tuple(headers), tuple(families))


@cache
def _kernels(index: int, folder: Path | None = None) -> Kernels:
    return Kernels(Device(index, _libraries()), _sources(folder) if folder else None)


def _devices() -> list[int | None]:
    libraries, count = _libraries(), ctypes.c_int(0)
    if libraries is None:
        return [None]
    libraries.hip.hipGetDeviceCount(ctypes.byref(count))
    return list(range(count.value))


def _id(index: int | None) -> str:
    if index is None:
        return "no-device"
    device = _kernels(index).device
    return f"{device.target}-{device.architecture}-wave{device.wave_size}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    card = metafunc.config.getoption("--machine-code")
    if "kernels" in metafunc.fixturenames and card:
        metafunc.parametrize("kernels", [card], indirect=True, ids=f"machine-code-{card}".format, scope="session")
    elif "kernels" in metafunc.fixturenames:
        metafunc.parametrize("kernels", _devices(), indirect=True, ids=_id, scope="session")


@pytest.fixture(scope="session")
def kernels(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    """The kernels on one device."""
    if request.param is None:
        pytest.skip("no AMD GPU answers, and the emulated device is not built (make emulator)")
    folder = request.config.getoption("--kernel-sources")
    if isinstance(request.param, str):
        kernels: Kernels = CompiledKernels(request.param, _sources(folder) if folder else None)
    else:
        kernels = _kernels(request.param, folder)
    yield kernels
    kernels.device.synchronize()
    if isinstance(kernels, CompiledKernels):
        request.config.stash.setdefault(EXECUTED, []).append(kernels.executed())


@pytest.fixture
def sparse(kernels: Kernels) -> Iterator[Kernels]:
    """The kernels on a device that can run some blocks of a grid, in memory that is not there; all of it is freed."""
    if kernels.device.target != "emulator":
        pytest.skip("runs some blocks of a grid, in memory that is not there: only the emulated device can")
    yield kernels
    kernels.device.libraries.hip.candle_rocm_emulator_reset()
    kernels.device.call("hipDeviceReset")


@pytest.fixture
def one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch gets a single block, so that the loops over the grid do all of the work."""
    launch = Kernels.launch

    def launch_one_block(kernels: Kernels, family: str, launches: Iterable[Launch]) -> None:
        launch(kernels, family, (replace(given, grid=(1, 1, 1)) for given in launches))

    monkeypatch.setattr(Kernels, "launch", launch_one_block)
