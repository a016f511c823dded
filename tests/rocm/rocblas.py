"""Some of rocBLAS's code objects, as its package has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.amdgpu.libraries import rocblas_folders

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("SS", "DD", "HH_HPA")
"""Types of products: f32, f64, and f16 with sums in f32."""


def fallback(kind: str, architecture: str) -> Path:
    """The object whose kernels a card takes where it has no better one; skips where the package was not fetched."""
    if not rocblas_folders():
        pytest.skip("missing toolchain: `make rocm-toolchain` was not run")
    pattern = f"rocblas/*/library/*_{kind}_Contraction_l_Ailk_Bljk_*_fallback_{architecture}.hsaco"
    (code,) = rocblas_folders()[0].glob(pattern)
    return code
