"""Which warnings are Candle's own although nobody asked the unpatched tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codegen.patch.changes import Origin, Region
from codegen.verify.candles_own import is_candles_own
from codegen.verify.diagnostics import Diagnostic, Span
from codegen.verify.patched_tree import OnDisk, Subject

if TYPE_CHECKING:
    from pathlib import Path

LIFETIMES = "mismatched_lifetime_syntaxes"
SOURCE = "enum Kind { Absolute }\npub(crate) struct Shared;\n    fn of_an_impl() {}\n    field: u32,\n"


def warning(code: str, file: str, line: int = 1, *, related: tuple[Span, ...] = ()) -> Diagnostic:
    return Diagnostic("warning", code, "m", place(file, line), related=related)


def place(file: str, line: int) -> Span:
    return Span(file, line, 1, line, 9)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """core/a.rs is patched in its lines 10 to 20, and so are tests/shared.rs, deep/mod.rs and flat/inner/new.rs."""
    for file in (
        "core/a.rs",
        "core/b.rs",
        "tests/shared.rs",
        "tests/own.rs",
        "deep/leaf.rs",
        "deep/mod.rs",
        "flat/inner.rs",
    ):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(SOURCE, encoding="utf-8")
    changed = ("core/a.rs", "tests/shared.rs", "deep/mod.rs", "flat/inner/new.rs")
    region = Region(10, 20, Origin("core.dispatch", "specs/phases/1-core.yaml:42", 1))
    return Subject(
        tmp_path,
        OnDisk.UNPATCHED,
        patched=dict.fromkeys(changed, b"after"),
        pristine=dict.fromkeys(changed, b"before"),
        regions={"core/a.rs": (region,)},
    )


@pytest.mark.parametrize(("line", "expected"), [(9, True), (10, False), (20, False), (21, True)])
def test_a_lint_of_its_text_is_ours_where_we_wrote_it(subject: Subject, line: int, *, expected: bool) -> None:
    assert is_candles_own(warning(LIFETIMES, "core/a.rs", line), subject) is expected
    assert is_candles_own(warning(LIFETIMES, "core/b.rs", line), subject)


def test_a_lint_that_points_at_our_lines_too_is_compared(subject: Subject) -> None:
    assert not is_candles_own(warning(LIFETIMES, "core/b.rs", related=(place("core/a.rs", 12),)), subject)


def test_what_a_macro_wrote_is_compared(subject: Subject) -> None:
    from_a_macro = replace(warning(LIFETIMES, "core/b.rs"), expanded_from=place("core/c.rs", 1))
    assert not is_candles_own(from_a_macro, subject)
    assert not is_candles_own(replace(from_a_macro, expanded_from=None, span=None), subject)


def test_in_a_file_that_was_edited_nobody_knows(subject: Subject) -> None:
    edited = replace(subject, differing=("core/a.rs",))
    assert not is_candles_own(warning(LIFETIMES, "core/a.rs", 9), edited)


@pytest.mark.parametrize("code", ["unused_imports", "dead_code_2", "unused_variables"])
def test_other_lints_are_compared(subject: Subject, code: str) -> None:
    assert not is_candles_own(warning(code, "core/b.rs"), subject)


@pytest.mark.parametrize(("line", "expected"), [(1, True), (2, False), (3, True), (4, False), (5, False)])
def test_what_nothing_uses_is_candles_if_only_its_module_can(subject: Subject, line: int, *, expected: bool) -> None:
    assert is_candles_own(warning("dead_code", "core/b.rs", line), subject) is expected


def test_lines_are_counted_as_rustc_counts_them(subject: Subject) -> None:
    (subject.root / "core/b.rs").write_text("//\f \u2028\npub struct Open;\nenum Kind {}\n", encoding="utf-8")
    found = [is_candles_own(warning("dead_code", "core/b.rs", line), subject) for line in (1, 2, 3, 4, 5)]
    assert found == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("core/a.rs", False),  # changed
        ("tests/own.rs", False),  # beside it is a changed file, which may be a module of it
        ("deep/leaf.rs", True),  # its parent is changed, which cannot use what is private in it
        ("deep/mod.rs", False),
        ("flat/inner.rs", False),  # a module in it is new
    ],
)
def test_what_nothing_uses_is_compared_where_its_module_is_changed(
    subject: Subject, file: str, *, expected: bool
) -> None:
    assert is_candles_own(warning("dead_code", file), subject) is expected
