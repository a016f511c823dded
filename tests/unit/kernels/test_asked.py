"""Which kernels a run has to have asked for: all of specs/kernels, less those that are listed with a reason."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from codegen.kernels.asked import asked_though_listed, missing_kernels
from codegen.kernels.loader import load_families
from codegen.kernels.model import Op

FAMILIES = load_families()
ALL = {kernel.symbol for family in FAMILIES for kernel in family.kernels}
OF_CONVOLUTIONS = tuple(f"conv2d_tiled_{{}}_{form}" for form in ("16", "32", "64")) + tuple(
    f"conv2d_tiled_packed_{{}}_{form}" for form in ("32", "64")
)
LISTED = {"rand_uniform_from_f8e4m3", *(name.format(kind) for kind in ("bf16", "f16") for name in OF_CONVOLUTIONS)}
"""Written out, so that no entry hides a kernel unseen."""

OP = {"name": "fold", "about": "Folds", "types": {"dtype": ["b8", "b16"]}, "cpu": "all"}


def test_a_run_that_asked_for_nothing_misses_all_that_are_not_listed() -> None:
    assert len(ALL) > 700
    assert missing_kernels(set()) == ALL - LISTED


def test_nothing_is_missing_where_all_were_asked_for() -> None:
    assert missing_kernels(ALL - LISTED) == set()
    assert missing_kernels(ALL | {"kernel_of_a_program"}) == set()


@pytest.mark.parametrize("name", ["sum_f32_finish", "scatter_add_u8_lds", "im2col_b16", "argsort_b64_merge"])
def test_a_kernel_that_was_not_asked_for_is_named(name: str) -> None:
    assert missing_kernels(ALL - LISTED - {name}) == {name}


def test_a_listed_kernel_that_was_asked_for_is_named() -> None:
    assert asked_though_listed(ALL - LISTED) == set()
    assert asked_though_listed({*LISTED, "im2col_b16", "sum_f32_rows"}) == LISTED


def test_families_may_be_given() -> None:
    fill = [family for family in FAMILIES if family.name == "fill"]
    assert missing_kernels({"fill_b8"}, fill) == {"fill_b16", "fill_b32", "fill_b64", "fill_b128"}


def test_only_types_of_the_op_are_listed() -> None:
    unasked = {"types": ["b8"], "reason": "nothing folds bytes in this test"}
    assert Op.model_validate({**OP, "unasked": [unasked]}).unasked[0].types == ("b8",)
    with pytest.raises(ValidationError, match="fold has no b32 that could be left unasked"):
        Op.model_validate({**OP, "unasked": [{**unasked, "types": ["b32"]}]})
