"""Kernel specs: what they may say, and what is said about those that may not."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from some import some

from codegen.errors import SpecInvalid
from codegen.kernels.coverage import covered, holes, table
from codegen.kernels.dtypes import DTYPES, WIDTHS, dtype, expand, moved_as
from codegen.kernels.loader import load_families
from codegen.kernels.model import Need

if TYPE_CHECKING:
    from pathlib import Path

SPEC = """\
    family: double
    about: Twice the number.
    source: nowhere
    launch: {block: 64}
    variants:
      - {name: "", about: Plain.}
      - {name: wide, about: Wider., constants: {lanes: 4}}
    budget: {vgprs: 32, lds: 0}
    contract: {ulps: 0}
    ops:
      - name: twice
        about: x + x
        types: {dtype: [f32, i32]}
        cpu: [f32, i32]
        expressions: {float: "x + x", integer: "x << 1"}
    """


def write(folder: Path, text: str, name: str = "double") -> Path:
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / "kernels" / f"{name}.yaml").write_text(dedent(text))
    return folder


def test_kernels_are_the_product_of_types_and_variants(tmp_path: Path) -> None:
    (loaded,) = load_families(write(tmp_path, SPEC))

    assert [k.symbol for k in loaded.kernels] == ["twice_f32", "twice_f32_wide", "twice_i32", "twice_i32_wide"]
    assert [k.expression for k in loaded.kernels] == ["x + x", "x + x", "x << 1", "x << 1"]
    assert loaded.kernels[1].constant("lanes") == 4
    assert {k.line for k in loaded.kernels} == {11}


@pytest.mark.parametrize(
    ("right", "wrong", "place", "message"),
    [
        ("[f32, i32]}", "[f32, i33]}", "13:", "'i33' is neither an element type nor one of the groups all, integer"),
        ("block: 64", "block: many", "4:17", "expected a whole number"),
        ('integer: "x << 1"', 'wrong: "x"', "11:", "twice takes i32 but has no expression for integer"),
        ("family: double", "family: triple", "1:", "family 'triple' belongs in triple.yaml"),
        ("about: x + x", "abuot: x + x", "12:", "unknown key 'abuot'"),
        ("vgprs: 32", "vgprs: 0", "8:", "expected 1 or more"),
        ("cpu: [f32, i32]", "cpu: f32\n        needs: dot5", "15:12", "the text 'dot5' is not one of dot4, matrix"),
    ],
)
def test_findings_have_their_place(tmp_path: Path, right: str, wrong: str, place: str, message: str) -> None:
    assert right in SPEC

    with pytest.raises(SpecInvalid) as caught:
        load_families(write(tmp_path, SPEC.replace(right, wrong)))

    assert f"specs/kernels/double.yaml:{place}" in str(caught.value)
    assert message in str(caught.value)


def test_a_symbol_belongs_to_one_family(tmp_path: Path) -> None:
    write(tmp_path, SPEC)
    write(tmp_path, SPEC.replace("family: double", "family: two"), "two")

    with pytest.raises(SpecInvalid, match=r"specs/kernels/double.yaml makes twice_f32 too"):
        load_families(tmp_path)


def test_groups_and_widths() -> None:
    assert [t.name for t in expand(("index", "u8", "f32"))] == ["u8", "u32", "i64", "f32"]
    assert {moved_as(t) for t in DTYPES} == set(WIDTHS)
    assert dtype("bf16").wide == "f32"
    assert dtype("i16").wide == "i16"


def test_a_width_covers_its_types_and_what_lacks_is_a_hole(tmp_path: Path) -> None:
    text = SPEC.replace("[f32, i32]}", "[b32]}").replace("cpu: [f32, i32]", "cpu: [f32, f64]")
    (loaded,) = load_families(write(tmp_path, text))
    (op,) = loaded.family.ops

    assert {t.name for t in covered(op)} == {"u32", "i32", "f32"}
    assert {t.name for t in holes(op)} == {"f64"}
    (row,) = table([loaded])
    cells = dict(zip((t.name for t in DTYPES), row.cells, strict=True))
    assert (cells["f32"], cells["u32"], cells["f64"], cells["u8"]) == ("yes", "more", "hole", "")


def test_no_family_of_ours_has_a_hole_without_a_reason() -> None:
    for loaded in some(load_families()):
        for op in loaded.family.ops:
            excused = {t for hole in op.holes for t in expand(hole.types)}
            assert holes(op) == excused, f"{loaded.name}: {op.name}"


def test_what_multiplies_blocks_needs_instructions_for_it() -> None:
    ops = {op.name: op.needs for loaded in load_families() if loaded.family.blocks for op in loaded.family.ops}
    assert {name for name, needs in ops.items() if needs is None} == {"dequantize", "dequantize_rows"}
    assert {name for name, needs in ops.items() if needs is Need.MATRIX} == {
        "multiply_pair_tiles",
        "multiply_tile_few",
        "multiply_tile_many",
    }
