"""The HIP compiler, and its disassembler, for tests that need a real one; what of the kernels is to be compiled.

ARCH="gfx906,gfx1100" in the environment narrows the architectures of clang, FAMILIES="cast softmax" what ROCm's oldest
compiler and hipRTC are given.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

from codegen.errors import ToolchainMissing
from codegen.kernels.architectures import parse_architectures
from codegen.kernels.loader import LoadedFamily, load_families
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


ARCH = os.environ.get("ARCH") or "all"


def architectures() -> list[str]:
    """The names that ARCH leaves: all, or CI's share."""
    return [each.name for each in parse_architectures(ARCH)]


def families_for_other_compilers() -> tuple[LoadedFamily, ...]:
    """What FAMILIES leaves: all, or CI's share. ROCm's newest clang compiles all of them in any case."""
    families = load_families()
    names = os.environ.get("FAMILIES", "").split() or [loaded.name for loaded in families]
    found = tuple(loaded for loaded in families if loaded.name in names)
    assert len(found) == len(names), f"FAMILIES names what there is not: {' '.join(names)}"
    return found
