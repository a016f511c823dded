"""Code objects that a patched Candle has compiled, and finds again in the user's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from backend.conftest import Probe

pytestmark = [pytest.mark.cargo, pytest.mark.network]

VALUES = "[1.0, 1.0, 1.0]"
COMPILED = [f"{VALUES}: 1 compiled, 1 loaded"]
FOUND = [f"{VALUES}: 0 compiled, 1 loaded"]
REFUSED = [f"{VALUES}: 1 compiled, 2 loaded"]
"""By the runtime, which then takes what is compiled instead."""


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """A cache of the test's own."""
    return {"CANDLE_ROCM_CACHE_DIR": str(tmp_path)}


def test_kernels_are_compiled_once(probe: Probe, cache: dict[str, str]) -> None:
    assert probe.lines("kernels", **cache) == COMPILED
    assert probe.lines("kernels", **cache) == FOUND


def test_a_file_that_broke_off_is_compiled_again(probe: Probe, cache: dict[str, str], tmp_path: Path) -> None:
    assert probe.lines("kernels", **cache) == COMPILED
    (kept,) = tmp_path.rglob("*.hsaco")
    kept.write_bytes(kept.read_bytes()[:-100])
    assert probe.lines("kernels", **cache) == COMPILED
    assert probe.lines("kernels", **cache) == FOUND


def test_what_the_runtime_does_not_take_is_compiled_again(probe: Probe, cache: dict[str, str]) -> None:
    """Both have one version of HIP, as two builds of one ROCm release have; here one has compiled without checks."""
    assert probe.lines("kernels", **cache, CANDLE_ROCM_EMULATOR_CHECK="0") == COMPILED
    assert probe.lines("kernels", **cache) == REFUSED
    assert probe.lines("kernels", **cache) == FOUND
