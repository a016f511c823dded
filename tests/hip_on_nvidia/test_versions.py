"""Which release of HIP the library is of: the backend refuses one that is too old."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.paths import repository_root

if TYPE_CHECKING:
    from hip_on_nvidia.fake_driver import FakeDriver

BACKEND = "templates/candle/1-core/candle-core/src/rocm_backend/hip.rs"
VERSION = "version = c_int(5)\nprint(lib.hipRuntimeGetVersion(byref(version)), version.value)"


def test_the_backend_takes_the_release(driver: FakeDriver) -> None:
    text = (repository_root() / BACKEND).read_text(encoding="utf-8")
    oldest = re.search(r"const OLDEST: c_int = ([\d_]+);", text)
    assert oldest

    calls, (status, version) = driver.calls_of(VERSION)

    assert [call[0] for call in calls] == ["cuDriverGetVersion"]
    assert status == "0"
    assert int(oldest[1]) <= int(version) < 80_000_000


def test_the_drivers_refusal_is_handed_on(driver: FakeDriver) -> None:
    _, printed = driver.calls_of(VERSION, fails="cuDriverGetVersion", code=100)
    assert printed == ["100", "5"]
