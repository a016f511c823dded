"""The HIP compiler for tests that need a real one."""

from __future__ import annotations

from functools import cache

import pytest

from codegen.errors import ToolchainMissing
from codegen.rocm.toolchain import Toolchain, find_toolchain


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
