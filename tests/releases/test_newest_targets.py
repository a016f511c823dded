"""Every target of the newest release, beside the other releases: they share what lints are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from releases.command_line import verified
from releases.cover import NAMED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]


def test_every_target_builds(newest: str, work: Path) -> None:
    """clippy of tests, examples and benches with `rocm`; in CI's share those of the crates whose targets we add."""
    crates = [word for crate in ("candle-core", "candle-nn") for word in ("--package", crate)] if NAMED else []
    verified(newest, ("all-targets-on",), work, *crates)
