"""Statements in functions that name no backend: where they go, and what has no place for them."""

from __future__ import annotations

import pytest
from check import parsed

from codegen.syntax.statements import insert_statement
from codegen.syntax.verbs import apply_edits

SOURCE = """\
impl<R: Read> Content<R> {
    pub fn read(&self) {
        let info = info();
        // What it reads.
        info.read(self)
    }

    fn write(&self);
}

mod inner {
    fn read() {
        once();
        twice();
        twice();
    }
}
"""


def inserted(function: str, before: str, text: str = SOURCE) -> str | None:
    source = parsed(text)
    edit = insert_statement(source, function, before, '#[cfg(feature = "rocm")]\ncheck(\n    self,\n)?;\n')
    return None if edit is None else apply_edits(source.text, [edit])


def test_a_statement_stands_before_the_one_that_is_named() -> None:
    """Below its comment, indented as it is."""
    assert inserted("Content::read", "info.read(") == SOURCE.replace(
        "        info.read(",
        '        #[cfg(feature = "rocm")]\n        check(\n            self,\n        )?;\n        info.read(',
    )


def test_a_function_of_a_module_is_found() -> None:
    text = inserted("inner::read", "once")
    assert text is not None
    assert text.index("check(") > text.index("mod inner")


@pytest.mark.parametrize(
    ("function", "before"),
    [
        pytest.param("Content::other", "info.read(", id="no such function"),
        pytest.param("Other::read", "info.read(", id="no such type"),
        pytest.param("read", "info.read(", id="in something else"),
        pytest.param("Content::read::read", "info.read(", id="not inside of a function"),
        pytest.param("Content::read", "info.write(", id="no such statement"),
        pytest.param("Content::write", "info.read(", id="no body"),
        pytest.param("inner::read", "twice", id="more than one"),
    ],
)
def test_a_tree_without_the_place_goes_without(function: str, before: str) -> None:
    assert inserted(function, before) is None


def test_lines_end_as_the_files_do() -> None:
    text = inserted("Content::read", "info.read(", SOURCE.replace("\n", "\r\n"))
    assert text is not None
    assert text.count("\n") == text.count("\r\n")
