"""What HIP's functions of modules ask of CUDA's driver, which a library stands in for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from hip_on_nvidia.fake_driver import FakeDriver

LOADS = [("hipModuleLoadData", "cuModuleLoadData"), ("hipModuleLoad", "cuModuleLoad")]
NO_SUCH_KERNEL = 500
INVALID_IMAGE = "200"


def loading(function: str) -> str:
    """A program that prints the status, and what it has in the module's place afterwards."""
    return f"module = c_void_p(77)\nprint(lib.{function}(byref(module), b'code'), module.value)"


@pytest.mark.parametrize(("function", "asked"), LOADS)
def test_a_module_is_the_callers_once_its_edition_is_known(driver: FakeDriver, function: str, asked: str) -> None:
    calls, printed = driver.calls_of(loading(function))
    assert [call[0] for call in calls] == [asked, "cuModuleGetFunction"]
    assert printed == ["0", "None"], "the stand-in's module is null"


@pytest.mark.parametrize(("function", "asked"), LOADS)
def test_a_module_of_another_edition_is_refused(driver: FakeDriver, function: str, asked: str) -> None:
    calls, printed = driver.calls_of(loading(function), fails="cuModuleGetFunction", code=NO_SUCH_KERNEL)
    assert [call[0] for call in calls] == [asked, "cuModuleGetFunction", "cuModuleUnload"]
    assert printed == [INVALID_IMAGE, "77"]


@pytest.mark.parametrize(("function", "asked"), LOADS)
def test_the_drivers_refusal_is_handed_on(driver: FakeDriver, function: str, asked: str) -> None:
    calls, printed = driver.calls_of(loading(function), fails=asked, code=209)
    assert [call[0] for call in calls] == [asked]
    assert printed == ["209", "77"]
