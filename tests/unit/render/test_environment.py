"""Rendering, and errors of templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, TemplateInvalid
from codegen.render.environment import render, undeclared

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Greeting:
    name: str
    times: int = 1


def written(root: Path, text: str, name: str = "a.j2") -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return name


def test_fields_of_a_dataclass_are_variables(tmp_path: Path) -> None:
    name = written(tmp_path, "hello «name» «times»\n")
    assert render(name, Greeting("Ada"), root=tmp_path) == "hello Ada 1\n"


def test_a_dict_is_a_context_too(tmp_path: Path) -> None:
    assert render(written(tmp_path, "«x»"), {"x": 3}, root=tmp_path) == "3"


def test_anything_else_is_a_bug_of_ours(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not str"):
        render(written(tmp_path, ""), "text", root=tmp_path)


@pytest.mark.parametrize(
    "rust",
    [
        '#[cfg(feature = "x")]\nlet a = [[0u8; 4]; 2];\n',
        'println!("{x} {{}} {:>3}", a << 2 >> 1);\n',
        "fn f<'a, T: Into<Vec<Vec<u8>>>>(x: &'a T) {} // {# comment #}\n",
        "#define A(x) {{x}}\n#if B\n",
    ],
)
def test_rust_and_cpp_pass_unchanged(tmp_path: Path, rust: str) -> None:
    assert render(written(tmp_path, rust), {}, root=tmp_path) == rust


def test_blocks_and_comments_leave_no_blank_lines(tmp_path: Path) -> None:
    text = "a\n  {% for x in xs %}\n  «x»\n  {% endfor %}\n«# comment #»\nb\n"
    assert render(written(tmp_path, text), {"xs": [1, 2]}, root=tmp_path) == "a\n  1\n  2\nb\n"


def test_text_is_not_escaped(tmp_path: Path) -> None:
    assert render(written(tmp_path, "«x»"), {"x": "Vec<&'a T>"}, root=tmp_path) == "Vec<&'a T>"


def test_an_undefined_name_is_reported_with_its_line(tmp_path: Path) -> None:
    name = written(tmp_path, "one\ntwo «nmae»\n", "rust/x.j2")
    with pytest.raises(TemplateInvalid) as caught:
        render(name, Greeting("Ada"), root=tmp_path)
    assert caught.value.exit_code == ExitCode.SPEC_INVALID
    assert "templates/rust/x.j2:2:1: 'nmae' is undefined" in str(caught.value)
    assert "two «nmae»" in str(caught.value)


def test_an_undefined_attribute_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TemplateInvalid, match=r"templates/a\.j2:1:1: .*has no attribute 'title'"):
        render(written(tmp_path, "«who.title»"), {"who": Greeting("Ada")}, root=tmp_path)


def test_an_error_in_a_macro_is_reported_where_it_is(tmp_path: Path) -> None:
    written(tmp_path, "{% macro m() %}\n\n«nothing»\n{% endmacro %}\n", "macros.j2")
    name = written(tmp_path, '{% from "macros.j2" import m %}\n«m()»\n')
    with pytest.raises(TemplateInvalid, match=r"templates/macros\.j2:3:1: 'nothing' is undefined"):
        render(name, {}, root=tmp_path)


def test_a_syntax_error_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(TemplateInvalid, match=r"templates/a\.j2:2:1: .*unknown tag 'fi'"):
        render(written(tmp_path, "a\n{% fi %}\n"), {}, root=tmp_path)


def test_a_missing_template_is_reported_with_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path, "", "rust/here.j2")
    with pytest.raises(TemplateInvalid) as caught:
        render("rust/gone.j2", {}, root=tmp_path)
    assert "there is no template templates/rust/gone.j2" in str(caught.value)
    assert "That folder has: here.j2." in str(caught.value)


def test_a_missing_import_names_both_templates(tmp_path: Path) -> None:
    name = written(tmp_path, '{% from "no/gone.j2" import m %}')
    with pytest.raises(TemplateInvalid, match=r"templates/no/gone\.j2 \(used by templates/a\.j2\)"):
        render(name, {}, root=tmp_path)


def test_undeclared_names(tmp_path: Path) -> None:
    text = "«a» {% for x in b %}«x»{% endfor %}{% set c = 1 %}«c»"
    assert undeclared(written(tmp_path, text), root=tmp_path) == {"a", "b"}


def test_undeclared_names_of_a_broken_template(tmp_path: Path) -> None:
    with pytest.raises(TemplateInvalid, match=r"templates/a\.j2:1:1"):
        undeclared(written(tmp_path, "{% if %}"), root=tmp_path)


def test_undeclared_names_of_a_missing_template(tmp_path: Path) -> None:
    with pytest.raises(TemplateInvalid, match="there is no template"):
        undeclared("gone.j2", root=tmp_path)
