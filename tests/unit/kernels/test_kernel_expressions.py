"""Which expression of an op a kernel gets, and the numbers that its launches give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.errors import SpecInvalid
from codegen.kernels.loader import load_families
from codegen.kernels.render import render_sources

if TYPE_CHECKING:
    from pathlib import Path

FAMILY = """\
family: parametric
about: A family for this test.
source: nowhere
launch: {{block: 64}}
budget: {{vgprs: 64, lds: 256}}
contract: {{ulps: 0}}
ops:
  - name: scale
    about: x times a number.
    types: {{dtype: [u8, f32, f8e4m3]}}
    parameters: [factor, offset]
    cpu: all
    expressions: {expressions}
"""


def write(root: Path, expressions: str) -> Path:
    path = root / "kernels" / "parametric.yaml"
    path.parent.mkdir()
    path.write_text(FAMILY.format(expressions=expressions), encoding="utf-8")
    return root


def test_the_narrowest_case_decides(tmp_path: Path) -> None:
    root = write(tmp_path, "{any: x * factor, float: factor * x, f8e4m3: x}")
    kernels = {kernel.symbol: kernel for loaded in load_families(root) for kernel in loaded.kernels}
    cases = {symbol: (kernel.case, kernel.expression) for symbol, kernel in kernels.items()}
    assert cases == {
        "scale_u8": ("any", "x * factor"),
        "scale_f32": ("float", "factor * x"),
        "scale_f8e4m3": ("f8e4m3", "x"),
    }


def test_a_type_without_an_expression_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecInvalid, match="scale takes u8 but has no expression for integer"):
        load_families(write(tmp_path, "{float: x, f8e4m3: x}"))


def test_parameters_are_arguments_of_the_wide_type(tmp_path: Path) -> None:
    text = render_sources(load_families(write(tmp_path, "{any: x * factor + offset}"))).family("parametric").text
    assert "scale_u8(u8 *y, const u8 *x, u8 factor, u8 offset, Packs packs, Layout<1> layout)" in text
    assert (
        "scale_f8e4m3(f8e4m3 *y, const f8e4m3 *x, f32 factor, f32 offset, Packs packs, Layout<1> layout)"
        in " ".join(text.split())
    )
