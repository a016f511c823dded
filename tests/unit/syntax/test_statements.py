"""Statements in functions that name no backend: where they go, and what has no place for them."""

from __future__ import annotations

import pytest
from check import parsed

from codegen.syntax.statements import insert_statement, statement_at, tail_digest
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


def inserted(function: str, before: str, text: str = SOURCE, tails: tuple[str, ...] = ()) -> str | None:
    source = parsed(text)
    edit = insert_statement(source, function, before, '#[cfg(feature = "rocm")]\ncheck(\n    self,\n)?;\n', tails)
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


MODEL = """\
impl Attention {
    fn forward(&self, x: f64) -> f64 {
        if self.plain {
            // Scores.
            let y = x * self.scale("a  b");
            y + 1.
        } else {
            x
        }
    }
}
"""


def tail(text: str) -> str:
    place = statement_at(parsed(text), "Attention::forward", "let y")
    assert place is not None
    return tail_digest(place)


def test_a_statement_stands_in_a_block() -> None:
    indent = " " * 12
    statement = f'{indent}#[cfg(feature = "rocm")]\n{indent}check(\n{indent}    self,\n{indent})?;\n'
    wanted = MODEL.replace(f"{indent}let y", f"{statement}{indent}let y")
    assert inserted("Attention::forward", "let y", MODEL) == wanted


def test_what_does_the_work_of_others_stands_before_their_text_alone() -> None:
    """To the end of the block, with other blanks and comments, and nothing else."""
    known = (tail(MODEL),)
    for same in (
        MODEL,
        MODEL.replace("// Scores.", "// Other words."),
        MODEL.replace("y + 1.", "y\n  + /* one */ 1."),
        MODEL.replace("            x\n", "            2. * x\n"),
    ):
        assert inserted("Attention::forward", "let y", same, known) is not None
    for other in (
        MODEL.replace("y + 1.", "y - 1."),
        MODEL.replace("y + 1.", "drop(y); y + 1."),
        MODEL.replace("x * self", "self"),
        MODEL.replace("a  b", "a b"),
    ):
        assert inserted("Attention::forward", "let y", other) is not None
        assert inserted("Attention::forward", "let y", other, known) is None


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
