"""rocBLAS's own products, by AMD's unmodified libraries on a modelled GPU, compared with numpy's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from rocm_toolchain import ARCH

from codegen.amdgpu.libraries import rocblas_folders
from codegen.amdgpu.topology import CARDS
from codegen.paths import build_folder, repository_root
from rocm.products import CASES

WHOLLY = ("gfx1100", "gfx942") if ARCH == "all" else ()
"""Cards for which all cases are tried; for the others, and where ARCH narrows the architectures, one transposition."""
SECONDS = 600


@pytest.mark.parametrize("card", CARDS)
def test_products_are_those_of_numpy(card: str) -> None:
    if not rocblas_folders():
        pytest.skip("missing toolchain: `make rocm-toolchain` was not run")
    if not (build_folder() / "amdgpu/release/libmodel.so").is_file():
        pytest.skip("the modelled GPU is not built (make amdgpu)")
    # Only gfx942 rounds factors.
    cases = [case for case in CASES if card == "gfx942" or not case.startswith("xf32")]
    cases = cases if card in WHOLLY else [case for case in cases if ":tn:" in case]
    command = (sys.executable, "-m", "codegen.amdgpu.runtime", card, "-m", "rocm.products", *cases)
    variables = {**os.environ, "PYTHONPATH": str(repository_root() / "tests")}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=SECONDS, check=False)
    found = dict(line.split() for line in done.stdout.splitlines())
    assert list(found) == cases, done.stderr[-2000:]
    assert {case: worst for case, worst in found.items() if float(worst) > 1} == {}
