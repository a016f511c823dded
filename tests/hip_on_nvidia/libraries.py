"""The built libraries, and programs that call them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES = ("amdhip64", "hiprtc", "rocblas", "rccl")


def library(name: str) -> Path:
    """The file of a library; the test is skipped, saying how to get it, if it was not built."""
    file = repository_root() / "build/nvidia/release" / f"lib{name}.so"
    if not file.exists():
        pytest.skip(f"{file.name} of HIP on NVIDIA is not built: `make nvidia` builds it")
    return file


def run_with(name: str, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code that has the library as `lib` and everything of ctypes.

    It is a process of its own: what a library has opened or said stays with its process.
    """
    code = f"from ctypes import *\nlib = CDLL({str(library(name))!r})\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stderr
    return done
