"""`pytest tests/golden --update-goldens` writes the goldens again."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers the option; known when pytest is started on this folder."""
    parser.addoption("--update-goldens", action="store_true", help="write what is made over the goldens")


@pytest.fixture
def update_goldens(pytestconfig: pytest.Config) -> bool:
    """True if the goldens are to be written instead of compared."""
    return bool(pytestconfig.getoption("--update-goldens", default=False))
