"""Function heads, laid out as rustfmt does, and `use` declarations."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from codegen.render.function_head import MAX_WIDTH, function_head
from codegen.render.imports import use_declarations

RUSTFMT = shutil.which("rustfmt")


def rustfmt(text: str) -> str:
    if RUSTFMT is None:
        pytest.skip("SKIPPED: rustfmt is not installed")
    done = subprocess.run([RUSTFMT, "--edition", "2021"], input=text, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_short_head_is_one_line() -> None:
    assert function_head("pub fn f", ["&self", "_: u8"], returns="Result<Self>") == (
        "pub fn f(&self, _: u8) -> Result<Self> {"
    )


def test_no_return_type() -> None:
    assert function_head("fn f", [], returns=None) == "fn f() {"


def test_a_long_head_has_a_line_for_each_parameter() -> None:
    params = ["&self", "_: " + "A" * 50, "_: " + "B" * 30]
    assert function_head("fn f", params, returns="R", indent=4) == (
        f"fn f(\n        &self,\n        _: {'A' * 50},\n        _: {'B' * 30},\n    ) -> R {{"
    )


def test_a_where_clause_has_its_own_lines() -> None:
    assert function_head("fn f<T>", ["_: T"], returns=None, where=["T: Clone"], indent=4) == (
        "fn f<T>(_: T)\n    where\n        T: Clone,\n    {"
    )


@pytest.mark.parametrize("where", [[], ["u8: Sized"]])
def test_rustfmt_changes_nothing_at_any_width(where: list[str]) -> None:
    functions = []
    for width in range(MAX_WIDTH - 12, MAX_WIDTH + 4):
        name = "f" * (width - len("    fn (_: u8, _: u16) -> u8 {"))
        head = function_head(f"fn {name}", ["_: u8", "_: u16"], returns="u8", where=where, indent=4)
        functions.append(f"    {head}\n        0\n    }}\n")
    text = "impl A {\n" + "\n".join(functions) + "}\n"
    assert rustfmt(text) == text


def test_imports_are_grouped_by_parent() -> None:
    paths = ["crate::DType", "crate::op::CmpOp", "crate::Shape", "super::x", "a::self", "a::B", "a::b::C as D"]
    assert use_declarations(paths) == (
        "use a::{B, self};",
        "use a::b::C as D;",
        "use crate::{DType, Shape};",
        "use crate::op::CmpOp;",
        "use super::x;",
    )


def test_imports_are_public_where_asked() -> None:
    assert use_declarations(["a::b", "a::c", "d::e"], visibility="pub ") == ("pub use a::{b, c};", "pub use d::e;")


def test_no_imports() -> None:
    assert use_declarations([]) == ()
