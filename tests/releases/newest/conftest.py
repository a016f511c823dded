"""The newest release is tested beside the others, in a folder of its own, and with it programs outside of Candle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from work_folder import work_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def work() -> Path:
    """Scratch trees, logs and cargo's target folder, kept between runs."""
    return work_folder("newest")
