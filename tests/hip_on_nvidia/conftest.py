"""What the tests of these libraries share."""

from __future__ import annotations

import pytest

from hip_on_nvidia.fake_driver import FakeDriver


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    """Compiled once."""
    return FakeDriver.build(tmp_path_factory.mktemp("driver"))
