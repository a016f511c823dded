"""Every kernel source through the oldest compiler that programs may bring; what both compilers' objects are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rocm_toolchain import ARCH, families_for_other_compilers
from some import some

from codegen.kernels.compile import compile_kernels
from codegen.kernels.loader import load_families
from codegen.kernels.render import render_sources
from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, OLDEST, Part
from codegen.rocm.toolchain import fetched_toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.kernels.loader import LoadedFamily
    from codegen.rocm.packages import RocmRelease

ARCHITECTURES = ("gfx90a", "gfx1100") if ARCH == "all" else ("gfx90a",)
"""Waves of 64 and of 32 lanes; where ARCH narrows the architectures, as in CI, only the first."""
ABI_VERSION = 8
"""Where an ELF file has the version of the code object: 3 is version 5, 4 is version 6."""


@pytest.mark.parametrize(
    ("release", "loaded"),
    # A test for each family: some take the oldest compiler minutes. `make code-objects` compiles all with the newest.
    [
        *((OLDEST, loaded) for loaded in families_for_other_compilers()),
        *((NEWEST, loaded) for loaded in load_families() if loaded.name in ("fill", "softmax")),
    ],
    ids=lambda value: getattr(value, "version", None) or value.name,
)
def test_code_objects_are_of_a_kind_that_every_rocm_takes(
    release: RocmRelease, loaded: LoadedFamily, tmp_path: Path
) -> None:
    part = fetched(release, Part.COMPILER)
    if part is None:
        pytest.skip("missing toolchain: `make rocm-toolchain` was not run")

    # clang 17 says of some loops that it has not unrolled them, which is no error of a kernel.
    toolchain = fetched_toolchain(part)
    if release is OLDEST:
        toolchain = replace(toolchain, flags=(*toolchain.flags, "-Wno-error=pass-failed"))

    objects = compile_kernels(render_sources([loaded]), ARCHITECTURES, toolchain, tmp_path)

    assert len(objects) == len(ARCHITECTURES)
    for code in some(objects):
        assert code.path.read_bytes()[ABI_VERSION] == 3, code.path.name
