"""Time and memory grow with a file's size, and what would take too long is refused with its place."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from codegen.errors import QUOTED, InputOutputError, Location
from codegen.syntax.matches import MOST_COMPARISONS
from codegen.syntax.python import PythonSource, find_python_sites
from codegen.syntax.site import MOST_STEPS
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_SECONDS = 10.0
"""Of the processor, for some hundred kilobytes; before, most of these took minutes."""


def fn(body: str) -> str:
    return f"fn f() {{\n{body}\n}}\n"


FLAT: dict[str, Callable[[int], str]] = {
    "arms": lambda n: fn("match d {\n" + "".join(f"Device::Cuda({i}) => {i},\n" for i in range(n)) + "}"),
    "pairs": lambda n: fn(
        "match d {\n" + "".join(f"(D::Cuda({i}), {i}) => {i},\n" for i in range(n)) + "(_, 0) => 1 }"
    ),
    "strings": lambda n: fn("match d {\n" + "".join(f'"cuda" => {i},\n' for i in range(n)) + "_ => 1 }"),
    "functions": lambda n: "".join(
        f"fn cuda_{i}() {{ match d {{ D::Cuda(_) => 1, D::Cpu => 2 }} }}\n" for i in range(n)
    ),
    "matches": lambda n: fn("".join(f"matches!(d, Device::Cuda({i}));\n" for i in range(n))),
    "calls on one line": lambda n: fn("cuda(); " * n),
    "attributes": lambda n: "#[cfg(a)]\n" * n + fn("cuda();" * n),
    "bindings": lambda n: fn(f"let [{'a, ' * n}] = [{'cuda(), ' * n}];"),
    "imports": lambda n: "".join(f"use a::cuda_{i};\n" for i in range(n)),
    "letters": lambda n: fn("let é = cuda(); " * n),
}
NESTED: dict[str, Callable[[int], str]] = {
    "else if": lambda n: fn("".join(f"if d.is_cuda({i}) {{ a() }} else " for i in range(n)) + "{ }"),
    "else if of Metal": lambda n: fn("".join(f"if d.is_metal({i}) {{ a() }} else " for i in range(n)) + "{ }"),
    "else if let": lambda n: fn("".join(f"if let D::Cuda({i}) = d {{ a() }} else " for i in range(n)) + "{ }"),
    "matches": lambda n: fn("match d { D::Cuda(_) => " * n + "1" + ", _ => 2 }" * n),
    "or": lambda n: fn("let a = " + " || ".join(["d.is_metal()"] * n) + ";"),
    "or in a pattern": lambda n: fn("match d {\n" + " | ".join(f"D::Cuda({i})" for i in range(n)) + " => 1, _ => 2 }"),
    "parentheses": lambda n: fn("let x = " + "(" * n + "cuda()" + ")" * n + ";"),
    "parentheses in a pattern": lambda n: fn("match d { " + "(" * n + "D::Cuda(_)" + ", 1)" * n + " => 1 }"),
    "modules": lambda n: "mod a {" * n + "use x::cuda;" + "}" * n,
}


def sites_of(text: str) -> tuple[int, float]:
    """The number of sites, and seconds of the processor."""
    started = time.process_time()
    found = find_sites(Source.parse("a.rs", text.encode()))
    return len(found), time.process_time() - started


@pytest.mark.parametrize("name", FLAT)
def test_many_sites_side_by_side(name: str) -> None:
    sites, seconds = sites_of(FLAT[name](4000))

    assert sites >= 1
    assert seconds < LIMIT_SECONDS


@pytest.mark.parametrize("name", NESTED)
def test_sites_in_one_another(name: str) -> None:
    """Ten times what anyone writes is looked into; of a hundred times, either that or the place is said."""
    sites, _ = sites_of(NESTED[name](100))
    assert sites >= 1

    started = time.process_time()
    with contextlib.suppress(InputOutputError):
        sites_of(NESTED[name](3000))
    assert time.process_time() - started < LIMIT_SECONDS


@pytest.mark.parametrize("name", ["else if", "parentheses in a pattern"])
def test_what_is_nested_too_deeply_is_named(name: str) -> None:
    with pytest.raises(InputOutputError, match=r"a\.rs(:2:\d+)?: .*too deeply"):
        sites_of(NESTED[name](5000))


def test_as_many_tokens_as_a_file_may_hold() -> None:
    with pytest.raises(InputOutputError, match=r"a\.rs:2:\d+: the file names backends too often") as caught:
        sites_of(FLAT["calls on one line"](MOST_STEPS // 50))
    assert len(str(caught.value)) < 1000


def test_patterns_that_each_have_to_be_compared() -> None:
    count = int(MOST_COMPARISONS**0.5) + 1
    arms = "".join(f"(D::Cuda(_), {i}) => {i},\n(_, {i}, _) => 2,\n" for i in range(count))

    with pytest.raises(InputOutputError, match=r"a\.rs:2:1: \d+ patterns for Cuda beside \d+ that leave"):
        sites_of(fn(f"match d {{\n{arms}}}"))


# What is quoted


def test_a_long_line_is_quoted_around_the_place() -> None:
    text = "é" * 1_000_000 + " cuda " + "y" * 1_000_000
    where = Source.parse("a.rs", text.encode()).location(text.encode().index(b"cuda"))

    assert (where.line, where.column) == (1, 1_000_002)
    quoted, caret = where.caret().splitlines()
    assert len(quoted) <= QUOTED + 10
    assert quoted[caret.index("^") :].startswith("cuda y")


@pytest.mark.parametrize("column", [1, 2, 80, 81, 500, 919, 920, 999, 1000])
def test_a_window_anywhere(column: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(1000))
    where = Location("a.rs", 1, column, line)

    quoted, caret = where.caret().splitlines()
    assert len(where.source_line or "") == QUOTED
    assert quoted[caret.index("^")] == line[column - 1]


def test_a_short_line_is_quoted_whole() -> None:
    assert Location("a.rs", 7, 3, "x" * QUOTED).source_line == "x" * QUOTED


def test_lines_and_columns_with_letters_of_several_bytes() -> None:
    text = "é\n日本 cuda\n\n" + "ü" * 5000 + "cuda\n"
    source = Source.parse("a.rs", text.encode())
    lines = text.split("\n")

    for character, letter in enumerate(text):
        if letter == "c":
            offset = len(text[:character].encode())
            line = text[:character].count("\n")
            assert (source.line_of(offset), source.column_of(offset)) == (line + 1, lines[line].index("cuda") + 1)


# Python


def test_python_that_is_nested_too_deeply_or_names_backends_too_often() -> None:
    assert PythonSource.parse("a.py", b"x = " + b"(" * 5000 + b"cuda").tree is None
    assert PythonSource.parse("a.py", b"-" * 100_000 + b"cuda").tree is None
    with pytest.raises(InputOutputError, match=r"a\.py:\d+:1: the file names backends too often"):
        find_python_sites(PythonSource.parse("a.py", b"cuda()\n" * 3000))


def test_python_warns_about_nothing(recwarn: pytest.WarningsRecorder) -> None:
    PythonSource.parse("a.py", b"x = '\\\x1b'\n")
    assert not recwarn.list


def test_errors_in_one_another() -> None:
    source = Source.parse("a.rs", ("fn f() { " + "{ " * 3000 + "let = ; " + "} " * 3000 + "}").encode())
    assert source.error_ranges()
