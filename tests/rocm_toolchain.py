"""The HIP compiler, and its disassembler, for tests that need a real one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from codegen.errors import ToolchainMissing
from codegen.rocm.disassembler import find_disassembler
from codegen.rocm.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:
    from pathlib import Path


@cache
def _found() -> Toolchain | str:
    try:
        return find_toolchain()
    except ToolchainMissing as missing:
        return str(missing)


def real_toolchain() -> Toolchain:
    """What this machine compiles kernels with; the test is skipped, saying how to get one, if it has nothing."""
    found = _found()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def real_disassembler() -> Path:
    """llvm-objdump; the test is skipped, saying how to get it, if this machine has none."""
    try:
        return find_disassembler(real_toolchain())
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
