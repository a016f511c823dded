"""Lints of the newest release that no other has, beside the others': they share what lints are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.spec.kinds import Runtime
from releases.command_line import verified
from releases.cover import FULL

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]


def test_optional_libraries_compile(newest: str, work: Path) -> None:
    """MIOpen, RCCL and rocRAND, with tests and examples; their own tests run with all others (newest/)."""
    verified(newest, ("clippy-providers-on",), work)


@FULL
def test_optional_libraries_compile_with_the_linked_runtime(newest: str, work: Path) -> None:
    verified(newest, ("clippy-providers-on",), work, "--runtime", Runtime.ROCM_RS.value)


@FULL
def test_every_target_builds(newest: str, work: Path) -> None:
    """clippy of tests, examples and benches with `rocm`."""
    verified(newest, ("all-targets-on",), work)
