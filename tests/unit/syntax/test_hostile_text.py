"""Text that was made to take more time or memory than it has bytes, or to be read otherwise than by its language."""

from __future__ import annotations

from time import thread_time

import pytest

from codegen.errors import LISTED, InputOutputError, Problem, UnknownSite
from codegen.report.highlight import LONGEST, highlighted
from codegen.syntax import grammar
from codegen.syntax.python import LARGEST, PythonSource
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source


def scanned(text: str) -> None:
    find_sites(Source.parse("a.rs", text.encode()))


@pytest.mark.parametrize(
    "text",
    [
        ("r" + "#" * 200 + '"cuda ') * 8000,
        "fn f() { let x = " + "(" * 100_000 + "cuda" + ")" * 100_000 + "; }",
        "const A: i32 = " + "-" * 300_000 + "cuda;",
        "fn f() { x = " + "cuda + " * 100_000 + "1; }",
        "type A = " + "Vec<" * 50_000 + "CudaDevice" + ">" * 50_000 + ";",
    ],
    ids=["raw-strings-without-end", "parentheses", "minus", "sum", "generics"],
)
def test_what_would_take_the_square_of_its_size_is_refused_soon(text: str) -> None:
    started = thread_time()
    with pytest.raises(InputOutputError, match=r"a\.rs.*: the file (takes too long to parse|names backends too often)"):
        scanned(text)
    assert thread_time() - started < 8


def test_a_parse_is_given_up_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"fn f() { a(b, c); }\n" * 20_000
    whole = grammar.parse_rust(text).root_node.descendant_count
    with pytest.raises(grammar.TooSlow):
        grammar.parse_rust(text, seconds=0.0)
    # The parser begins anew: nothing of the text that was given up is left in it.
    assert grammar.parse_rust(b"fn g() {}\n").root_node.text == b"fn g() {}\n"
    assert grammar.parse_rust(text).root_node.descendant_count == whole


def test_nested_as_programs_are_is_no_trouble() -> None:
    scanned("fn f() { let x = " + "(" * 300 + "cuda()" + ")" * 300 + "; }")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-7", "rot13", "unicode_escape", "raw_unicode_escape", "cp037"])
def test_python_in_another_encoding_is_refused(encoding: str) -> None:
    """Behind `raw_unicode_escape`, a comment can end in the middle of its line."""
    text = f"# -*- coding: {encoding} -*-\n# \\u000acuda()\n".encode()
    with pytest.raises(InputOutputError, match=r"a\.py: its first lines say that it is "):
        PythonSource.parse("a.py", text)


def test_python_in_utf_8_by_any_name_and_in_none() -> None:
    for head in (b"# coding: utf-8\n", b"# coding: UTF8\n", b"\xef\xbb\xbf", b""):
        assert PythonSource.parse("a.py", head + b"cuda()\n").tree is not None
    assert PythonSource.parse("a.py", b"# coding: none-such\ncuda()\n").tree is None


def test_a_large_python_file_is_refused() -> None:
    PythonSource.parse("a.py", b"#" * LARGEST)
    with pytest.raises(InputOutputError, match=r"a\.py has more than 512 KiB"):
        PythonSource.parse("a.py", b"cuda=[" + b"a," * LARGEST + b"]")


def test_very_long_lines_are_not_highlighted() -> None:
    line = "<b>" + "x" * LONGEST
    assert highlighted("a.rs", ["fn f() {}", line]) == ["fn f() {}", line.replace("<", "&lt;").replace(">", "&gt;")]
    assert "<i" in highlighted("a.rs", ["fn f() {}"])[0]


def test_an_error_lists_so_many_findings_and_counts_the_others() -> None:
    problems = [Problem(f"finding {number}") for number in range(LISTED + 7)]
    text = str(UnknownSite(problems, remedy="see to them"))
    assert f"finding {LISTED - 1}\nand 7 more\n  = help: see to them" in text
    assert f"finding {LISTED}" not in text
    assert "more" not in str(UnknownSite(problems[:LISTED], remedy="see to them"))
