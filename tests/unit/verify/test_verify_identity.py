"""An AMD GPU in the machine, and a stand-in for its library in the loader's path."""

from __future__ import annotations

import os
import sys

import pytest

from codegen.errors import ToolchainMissing
from codegen.verify.identity import loaded_library, refuse_stand_in
from codegen.verify.target import Device

GPU = Device("ROCm (gfx1100)")


@pytest.mark.parametrize("found", ["emulator", "nvidia"])
def test_a_stand_in_is_not_called_rocm(found: str) -> None:
    with pytest.raises(ToolchainMissing, match=rf"ROCm \(gfx1100\) was chosen, but .* is the {found}'s"):
        refuse_stand_in(GPU, {}, lambda _variables: found)


@pytest.mark.parametrize("found", ["amd", None])
def test_amds_own_library_and_none_are_not_refused(found: str | None) -> None:
    refuse_stand_in(GPU, {}, lambda _variables: found)


def test_only_an_amd_gpu_is_asked_about() -> None:
    refuse_stand_in(Device("emulator"), {}, lambda _variables: pytest.fail("asked"))


def test_a_program_of_its_own_asks_with_the_variables_of_the_tests() -> None:
    command = (sys.executable, "-c", "import os; print(os.environ['WHO'])")
    assert loaded_library({**os.environ, "WHO": "emulator"}, command) == "emulator"
    assert loaded_library(dict(os.environ), (sys.executable, "-c", "")) is None
    assert loaded_library(dict(os.environ), ("/nonexistent/python",)) is None
