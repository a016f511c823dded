"""Launch numbers that depend on the architecture: what specs may say, and how sources and the backend choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from some import some

from codegen.kernels.architectures import ARCHITECTURES
from codegen.kernels.loader import load_families
from codegen.kernels.model import Family
from codegen.kernels.rust_table import KernelTable
from codegen.kernels.tuning import macro, tunings

if TYPE_CHECKING:
    from collections.abc import Mapping

ALL = [each.name for each in ARCHITECTURES]


def family(tuned: Mapping[str, Mapping[str, int]]) -> Family:
    """A family whose usual numbers are a block of 256 and 8 elements held."""
    return Family.model_validate(
        {
            "family": "double",
            "about": "Twice the number.",
            "source": "nowhere",
            "launch": {"block": 256, "held": 8},
            "tuned": tuned,
            "budget": {"vgprs": 32, "lds": 0},
            "contract": {"ulps": 0},
            "ops": [{"name": "twice", "about": "x + x", "types": {"dtype": ["f32"]}, "cpu": ["f32"]}],
        }
    )


TUNED = family({"gfx9": {"block": 512}, "gfx90a": {"held": 16}, "sm": {"block": 128}})


@pytest.mark.parametrize(
    ("architecture", "block", "held"),
    [("gfx1100", 256, 8), ("gfx942", 512, 8), ("gfx90a:sramecc+:xnack-", 512, 16), ("sm_90", 128, 8)],
)
def test_the_longest_matching_name_decides(architecture: str, block: int, held: int) -> None:
    assert TUNED.numbers(architecture) == {"block": block, "held": held}


@pytest.mark.parametrize(
    ("tuned", "message"),
    [({"gfx9": {"blocks": 512}}, "gfx9 tunes 'blocks', which `launch` does not have"), ({"nvidia": {}}, "nvidia")],
)
def test_what_may_be_tuned(tuned: Mapping[str, Mapping[str, int]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        family(tuned)


def test_sources_choose_by_the_compilers_macros() -> None:
    """For each architecture, the first condition that names it has the numbers that the host uses."""
    choices = tunings(TUNED)
    for name in (*ALL, "sm_90"):
        defined = "defined(__CUDACC__)" if name == "sm_90" else f"defined(__{name}__)"
        chosen = next(each for each in choices if each.condition == "" or defined in each.condition.split(" || "))
        assert dict(chosen.numbers) == {macro(n): value for n, value in TUNED.numbers(name).items()}
    assert tunings(family({})) == ()


def test_the_backends_table_has_a_number_for_each_tuning() -> None:
    table = KernelTable.of(load_families(), ())
    for loaded, row in some(zip(load_families(), table.families, strict=True)):
        assert row.launch.keys() | row.tuned.keys() == loaded.family.launch.keys()
        for name, numbers in row.tuned.items():
            assert numbers[0] == loaded.family.launch[name]
            assert list(numbers[1:]) == [loaded.family.numbers(prefix)[name] for prefix in table.tunings]
