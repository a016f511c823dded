"""Optional libraries, compiled into the newest release: candle-core, which uses them, and programs of candle-nn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.spec.kinds import Runtime
from releases.command_line import verified
from releases.cover import FULL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]


def test_optional_providers_compile(newest: str, work: Path) -> None:
    """MIOpen, RCCL and rocRAND; their tests run with all others (test_newest_release.py)."""
    verified(newest, ("clippy-providers-on",), work)


@FULL
def test_optional_providers_compile_with_the_linked_runtime(newest: str, work: Path) -> None:
    verified(newest, ("clippy-providers-on",), work, "--runtime", Runtime.ROCM_RS.value)
