"""Its own cargo target folder, so that these tests need not wait for those of the other releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from work_folder import work_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def work() -> Path:
    """Scratch trees, logs and cargo's target folder, kept between runs; tests/backend has the same."""
    return work_folder("newest")
