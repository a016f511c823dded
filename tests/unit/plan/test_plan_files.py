"""Methods of the backend traits that no template computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_up import replace_in

from codegen.candle.tree import open_tree
from codegen.plan.files import methods_without_template

if TYPE_CHECKING:
    from pathlib import Path

BACKEND = "candle-core/src/backend.rs"


def test_every_method_of_the_made_up_tree_has_a_template(candle: Path) -> None:
    assert methods_without_template(open_tree(candle)) == ()


def test_a_new_method_is_named_with_its_place(candle: Path) -> None:
    powf = "    fn powf("
    replace_in(candle / BACKEND, powf, f"    fn fft(&self, layout: &Layout) -> Result<Self>;\n{powf}")

    (problem,) = methods_without_template(open_tree(candle))

    assert problem.message == "no template for the method fft"
    assert problem.location is not None
    assert problem.location.file == BACKEND
    assert "fft" in (problem.location.source_line or "")


def test_a_new_method_that_cannot_fail_is_named_too(candle: Path) -> None:
    replace_in(candle / BACKEND, "    fn powf(", "    fn rank(&self) -> usize;\n    fn powf(")

    (problem,) = methods_without_template(open_tree(candle))

    assert "BackendStorage::rank" in problem.message


def test_a_tree_without_the_traits_has_no_methods(candle: Path) -> None:
    (candle / BACKEND).unlink()
    assert methods_without_template(open_tree(candle)) == ()
