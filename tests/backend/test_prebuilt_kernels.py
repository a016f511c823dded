"""Kernels that were built ahead of time, from `kernels build` to a patched Candle that loads them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.device.libraries import FOLDER_VARIABLE
from codegen.kernels.compile import compile_kernels
from codegen.kernels.render import Sources, render_sources
from codegen.rocm.toolchain import Toolchain

if TYPE_CHECKING:
    from collections.abc import Callable

    from backend.conftest import Probe

    Build = Callable[[Sources, str], Path]

pytestmark = [pytest.mark.cargo, pytest.mark.network]

DEVICES = {"CANDLE_ROCM_EMULATOR_DEVICES": "gfx90a"}
"""Its runtime names it with features: gfx90a:sramecc+:xnack-."""
NO_COMPILER = {"CANDLE_ROCM_COMPILE": "0"}
BUILD = "candle-rocm kernels build --arch"


@pytest.fixture(scope="module")
def sources() -> Sources:
    """The one family that the probe uses."""
    rendered = render_sources()
    return replace(rendered, families=(rendered.family("fill"),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kernels"


@pytest.fixture
def fresh(folder: Path, tmp_path: Path) -> dict[str, str]:
    """Variables of a program that has compiled nothing yet, and is told of the folder."""
    return {"CANDLE_ROCM_KERNELS_DIR": str(folder), "CANDLE_ROCM_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def build(folder: Path, emulator: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Build:
    """Makes the code object of the one family for an emulated device, as `kernels build` does for a real one."""
    monkeypatch.setenv(FOLDER_VARIABLE, f"{emulator['ROCM_PATH']}/lib")
    toolchain = Toolchain(
        compiler=Path(sys.executable),
        flags=(str(Path(__file__).with_name("emulated_compiler.py")),),
        origin="the emulated device",
        hip="",
        version="",
        identity="emulator",
        precompiles_headers=False,
        hiprtc=None,
    )

    def build(sources: Sources, architecture: str) -> Path:
        (made,) = compile_kernels(sources, [architecture], toolchain, folder)
        return made.path

    return build


@pytest.mark.parametrize("architecture", ["gfx1100", "gfx90a"])
def test_a_code_object_is_loaded_and_nothing_compiled(
    probe: Probe,
    sources: Sources,
    folder: Path,
    fresh: dict[str, str],
    build: Build,
    architecture: str,
) -> None:
    build(sources, architecture)
    device = {"CANDLE_ROCM_EMULATOR_DEVICES": architecture}
    expected = ["[1.0, 1.0, 1.0]: 0 compiled, 1 loaded"]
    assert probe.lines("kernels", **fresh, **device, **NO_COMPILER) == expected
    assert probe.lines("kernels-without", "hiprtcVersion", **fresh, **device) == expected
    assert probe.lines("kernels", **fresh, **device) == expected, "not compiled although it could be"


def test_what_the_folder_lacks_is_compiled(
    probe: Probe,
    sources: Sources,
    folder: Path,
    fresh: dict[str, str],
    build: Build,
) -> None:
    build(sources, "gfx1100")
    assert probe.lines("kernels", **fresh, **DEVICES) == ["[1.0, 1.0, 1.0]: 1 compiled, 1 loaded"]


def test_without_hiprtc_the_error_names_card_builds_and_ways_out(
    probe: Probe,
    sources: Sources,
    folder: Path,
    fresh: dict[str, str],
    build: Build,
) -> None:
    build(sources, "gfx90a")
    (folder / "gfx1101").mkdir()
    (folder / "gfx1101/fill.hsaco").write_bytes(b"")

    ways = (
        f"and {folder} has those for gfx1101, gfx90a; set HSA_OVERRIDE_GFX_VERSION=11.0.1 to use those for gfx1101, "
        f"or run `{BUILD} gfx1100 --to {folder}`, or let hipRTC compile them"
    )
    (forbidden,) = probe.lines("kernels", **fresh, **NO_COMPILER)
    assert forbidden == f"error no kernels of fill.hip for gfx1100: CANDLE_ROCM_COMPILE=0 forbids to compile, {ways}"
    (absent,) = probe.lines("kernels-without", "hiprtcVersion", **fresh)
    assert absent.startswith("error no kernels of fill.hip for gfx1100: hiprtcVersion failed with ")
    assert absent.endswith(ways)


def test_without_hiprtc_and_without_a_folder_the_error_tells_how_to_make_one(probe: Probe, tmp_path: Path) -> None:
    (line,) = probe.lines("kernels", **NO_COMPILER, **DEVICES, CANDLE_ROCM_CACHE_DIR=str(tmp_path))
    assert f"CANDLE_ROCM_KERNELS_DIR is not set; run `{BUILD} gfx90a --to DIR`" in line


def test_a_code_object_of_other_sources_is_refused(
    probe: Probe,
    sources: Sources,
    folder: Path,
    fresh: dict[str, str],
    build: Build,
) -> None:
    first, *others = sources.headers
    changed = (replace(first, text=f"{first.text}// newer\n"), *others)
    path = build(replace(sources, headers=changed), "gfx1100")
    (line,) = probe.lines("kernels", **fresh)
    assert line == (
        f"error {path} cannot be used: it was made of other kernel sources than this program's; "
        f"run `{BUILD} gfx1100 --to {folder}`, or unset CANDLE_ROCM_KERNELS_DIR"
    )


def test_a_code_object_that_broke_off_is_refused(
    probe: Probe,
    sources: Sources,
    folder: Path,
    fresh: dict[str, str],
    build: Build,
) -> None:
    path = build(sources, "gfx1100")
    path.write_bytes(path.read_bytes()[:-1])
    (line,) = probe.lines("kernels", **fresh)
    assert line.startswith(f"error {path} cannot be used: it is not complete; run `{BUILD}")


def test_an_architecture_that_the_card_does_not_take_is_named(probe: Probe, tmp_path: Path) -> None:
    (line,) = probe.lines("kernels", CANDLE_ROCM_ARCH="gfx90a", CANDLE_ROCM_CACHE_DIR=str(tmp_path))
    assert line.startswith(
        "error kernels for gfx90a, as CANDLE_ROCM_ARCH says, do not run on gfx1100: hipModuleLoadData failed with "
        "hipErrorNoBinaryForGpu (209)"
    )
