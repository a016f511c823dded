"""Diffs as rows, their origins, and their colours."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st
from report_samples import ORIGIN, change

from codegen.patch.changes import Origin, Region
from codegen.report.file_diff import file_diff, without_whitespace
from codegen.report.highlight import highlighted

LINES = st.lists(st.sampled_from(["", "}", "    }", "a", "  a", "b {", "a  "]), max_size=12)


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def test_rows_have_the_numbers_of_both_sides() -> None:
    diff = file_diff(change("a\nb\nc\n", "a\nx\nc\n"))
    (hunk,) = diff.hunks
    assert hunk.header == "@@ -1,3 +1,3 @@"
    assert [(row.mark, row.old, row.new, row.text) for row in hunk.rows] == [
        (" ", 1, 1, "a"),
        ("-", 2, None, "b"),
        ("+", None, 2, "x"),
        (" ", 3, 3, "c"),
    ]
    assert (diff.added, diff.removed, diff.new) == (1, 1, False)


def test_a_new_file_is_one_hunk_of_added_lines() -> None:
    diff = file_diff(change(None, "a\nb\n"))
    assert diff.new
    assert [(row.mark, row.new) for row in diff.hunks[0].rows] == [("+", 1), ("+", 2)]


def test_lines_that_look_like_headers_stay_rows() -> None:
    diff = file_diff(change("-- a\n", "-- a\n++ b\n@@ -1 +1 @@\n"))
    assert [row.text for hunk in diff.hunks for row in hunk.rows] == ["-- a", "++ b", "@@ -1 +1 @@"]


def test_a_missing_newline_at_the_end_is_no_row() -> None:
    (hunk,) = file_diff(change("a", "a\nb")).hunks
    assert [(row.mark, row.text) for row in hunk.rows] == [("-", "a"), ("+", "a"), ("+", "b")]


def test_a_hunk_is_labelled_with_the_regions_whose_lines_it_adds() -> None:
    far = "\n".join(f"line {n}" for n in range(30)) + "\n"
    other = Origin("core.other", "specs/phases/1-core.yaml:20", 1, "rust/a.rs.j2")
    after = far.replace("line 3\n", "line 3\nfirst\n").replace("line 25\n", "line 25\nsecond\n")
    diff = file_diff(change(far, after, Region(5, 5, ORIGIN), Region(28, 28, other)))
    assert [[(label.first, label.origin) for label in hunk.labels] for hunk in diff.hunks] == [
        [(5, ORIGIN)],
        [(28, other)],
    ]


def test_generated_text_that_is_only_context_labels_nothing() -> None:
    (hunk,) = file_diff(change("a\nb\n", "a\nb\nc\n", Region(1, 1, ORIGIN))).hunks
    assert hunk.labels == ()


def test_a_hunk_that_only_removes_is_labelled_with_what_touches_it() -> None:
    (hunk,) = file_diff(change("a\nb\nc\n", "a\nc\n", Region(2, 2, ORIGIN))).hunks
    assert [label.origin for label in hunk.labels] == [ORIGIN]


@given(LINES, LINES)
def test_rows_rebuild_both_sides(old: list[str], new: list[str]) -> None:
    diff = file_diff(change(text(old), text(new)))
    rows = [row for hunk in diff.hunks for row in hunk.rows]
    assert all(row.text == old[row.old - 1] for row in rows if row.old is not None)
    assert all(row.text == new[row.new - 1] for row in rows if row.new is not None)
    assert len(new) - len(old) == diff.added - diff.removed


@given(LINES, LINES)
def test_without_whitespace_no_line_differs_by_whitespace_only(old: list[str], new: list[str]) -> None:
    full = change(text(old), text(new))
    quiet = without_whitespace(full)
    assert quiet.after == full.after
    assert quiet.before is not None
    assert len(quiet.before.splitlines()) == len(old)
    squeezed = ["".join(line.split()) for line in quiet.before.decode().splitlines()]
    assert squeezed == ["".join(line.split()) for line in old]
    if [*squeezed] == ["".join(line.split()) for line in new]:
        assert file_diff(quiet).hunks == ()


def test_reindented_lines_vanish_and_real_changes_stay() -> None:
    full = change("if a {\nb();\n}\n", "if a {\n    b();\n    c();\n}\n")
    assert [row.text for row in file_diff(full).hunks[0].rows if row.mark == "+"] == ["    b();", "    c();"]
    quiet = file_diff(without_whitespace(full))
    assert [row.text for row in quiet.hunks[0].rows if row.mark != " "] == ["    c();"]


def test_new_and_binary_files_have_no_quieter_form() -> None:
    new = change(None, "a\n")
    assert without_whitespace(new) is new
    binary = change("a\n", "b\n")
    odd = type(binary)(binary.path, b"\xff\x00", b"\xfe", ())
    assert without_whitespace(odd) is odd
    assert file_diff(odd).hunks == ()


# highlighting


def plain(html: str) -> str:
    return unescape(re.sub(r"</?i\b[^>]*>", "", html))


def test_rust_has_colours() -> None:
    (line,) = highlighted("a.rs", ["let x = 1; // <b>"])
    assert '<i class="k">let</i>' in line
    assert '<i class="c">// &lt;b&gt;</i>' in line


def test_blank_lines_at_the_end_do_not_cost_the_colours() -> None:
    first, second = highlighted("a.rs", ["let x = 1;", ""])
    assert '<i class="k">let</i>' in first
    assert second == ""


def test_an_attribute_and_a_documentation_comment_have_their_own() -> None:
    attribute, comment = highlighted("a.rs", ["#[inline]", "/// Adds."])
    assert attribute.startswith('<i class="a">')
    assert comment.startswith('<i class="c">')


def test_other_languages_are_escaped() -> None:
    assert highlighted("a.txt", ["<script>&"]) == ["&lt;script&gt;&amp;"]
    assert highlighted("a.rs", []) == []


@given(
    st.sampled_from(["a.rs", "a.toml", "a.txt"]),
    st.lists(st.text(st.characters(exclude_characters="\n"), max_size=20), max_size=6),
)
def test_highlighting_keeps_every_character(path: str, lines: list[str]) -> None:
    found = highlighted(path, lines)
    assert [plain(line) for line in found] == lines
    assert all("<" not in re.sub(r'<i class="\w">|</i>', "", line) for line in found)
