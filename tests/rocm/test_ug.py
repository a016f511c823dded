"""What kernels of the crate ug are made of, for every architecture: each helper with each of ug's types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rocm_toolchain import architectures

from codegen.kernels.compile import compile_kernels
from codegen.kernels.loader import load_families
from codegen.kernels.render import Source, render_sources
from codegen.paths import repository_root
from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.toolchain import fetched_toolchain

if TYPE_CHECKING:
    from pathlib import Path

HELPERS = repository_root() / "templates/candle/4-custom-ops/candle-core/src/rocm_ug/ug.hip"
TYPES = ("bf16", "f16", "f32", "i32", "i64")
FLOAT_ONLY = ("exp", "sin", "cos", "sqrt")
BINARY = ("add", "sub", "mul", "div", "mod", "min", "max")


def _kernel(dtype: str) -> str:
    """A kernel as the backend's generator writes them, that calls all there is for a type."""
    lines = [f"{dtype} v0 = x[threadIdx.x];", f"{dtype} v1 = ug_neg(v0);"]
    unary = FLOAT_ONLY if dtype not in ("i32", "i64") else ()
    calls = [f"ug_{name}(v1)" for name in unary] + [f"ug_{name}(v0, v1)" for name in BINARY]
    calls += [f"ug_reduce<Ug{name}>(v1)" for name in ("Sum", "Min", "Max")]
    lines += [f"v1 = {call};" for call in calls]
    lines += [f"v1 = ug_cast<{dtype}>(ug_cast<{other}>(v1));" for other in TYPES if other != dtype]
    body = "\n".join(f"    {line}" for line in (*lines, "x[threadIdx.x] = v1;"))
    return f"CANDLE_KERNEL(1024) ug_{dtype}({dtype} *x) {{\n{body}\n}}\n"


def test_every_helper_compiles_for_every_architecture(tmp_path: Path) -> None:
    part = fetched(NEWEST, Part.COMPILER)
    if part is None:
        pytest.skip("missing toolchain: `make rocm-toolchain` was not run")
    text = HELPERS.read_text(encoding="utf-8") + "".join(_kernel(dtype) for dtype in TYPES)
    sources = replace(render_sources(load_families()), families=(Source("ug.hip", text, None, ()),))

    objects = compile_kernels(sources, architectures(), fetched_toolchain(part), tmp_path)

    assert [each.architecture for each in objects] == architectures()
