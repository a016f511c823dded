"""specs/backend.yaml: what is wrong with it is said with its place."""

from __future__ import annotations

import pytest

from codegen.errors import SpecInvalid
from codegen.paths import repository_root
from codegen.spec.backend_traits import BACKEND_TRAITS, parse_backend_traits

OWN = (repository_root() / BACKEND_TRAITS).read_text(encoding="utf-8")


def test_what_ships_is_valid() -> None:
    spec = parse_backend_traits(OWN.encode())
    assert set(spec.traits) == {"BackendStorage", "BackendDevice"}
    assert spec.traits["BackendStorage"].operations["affine"] == ("layout", "mul", "add")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("affine: [layout, mul, add]", "affine: [layout, mul, mul]", "two parameters of affine are called mul"),
        ("affine: [layout, mul, add]", "affine: [layout, m-l]", "m-l"),
        ("ops_phase: 3", "ops_phase: 9", "9"),
        ("    cuda: CudaStorage\n", "", "cuda"),
        ("    cuda: CudaStorage\n", "    cuda: CudaStorage\n    extra: 1\n", "unknown key 'extra'"),
    ],
)
def test_a_fault_is_located(old: str, new: str, message: str) -> None:
    assert old in OWN
    with pytest.raises(SpecInvalid, match=message) as caught:
        parse_backend_traits(OWN.replace(old, new, 1).encode())
    (problem,) = caught.value.problems
    assert problem.location is not None
    assert problem.location.file == BACKEND_TRAITS
    assert problem.location.line > 10
