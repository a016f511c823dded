"""Replacements turn one text into the other, in few lines and little time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.patch.replacements import replacements

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "}", "  x", "fn f() {"]), max_size=25)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES)
def test_replacements_turn_one_text_into_the_other(before: list[str], after: list[str]) -> None:
    result: list[str] = []
    at = 0
    for edit in replacements(before, after):
        assert edit.start >= at
        assert edit.start < edit.end or edit.new_start < edit.new_end
        result += before[at : edit.start]
        assert len(result) == edit.new_start
        result += after[edit.new_start : edit.new_end]
        at = edit.end
    assert result + before[at:] == after


def test_many_small_edits_are_fast_too() -> None:
    lines = [f"line {number}" for number in range(3000)]
    changed = [f"{line}!" if number % 3 == 0 else line for number, line in enumerate(lines)]

    start = time.process_time()
    found = [replacements(lines, changed) for _ in range(5)][-1]

    assert time.process_time() - start < 1.5, "of the processor; difflib takes 4 s"
    assert [(edit.start, edit.end) for edit in found] == [(at, at + 1) for at in range(0, 3000, 3)]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("", "", []),
        ("abc", "abc", []),
        ("", "ab", [(0, 0, 0, 2)]),
        ("ab", "", [(0, 2, 0, 0)]),
        ("abc", "axbc", [(1, 1, 1, 2)]),
        ("abc", "ac", [(1, 2, 1, 1)]),
        ("abc", "axc", [(1, 2, 1, 2)]),
        ("abc", "xabcx", [(0, 0, 0, 1), (3, 3, 4, 5)]),
        ("aa", "aaa", [(2, 2, 2, 3)]),
        ("abcdef", "dabcef", [(0, 0, 0, 1), (3, 4, 4, 4)]),
        ("a}b}c}", "a}x}b}c}", [(2, 2, 2, 4)]),
    ],
)
def test_replacements_are_what_a_reader_expects(before: str, after: str, found: list[tuple[int, ...]]) -> None:
    assert [
        (edit.start, edit.end, edit.new_start, edit.new_end) for edit in replacements(list(before), list(after))
    ] == found


def test_a_large_gap_without_anchors_is_replaced_as_a_whole() -> None:
    before, after = ["a", "b"] * 300, ["b", "c"] * 300

    found = replacements(before, after)

    assert [(edit.start, edit.end, edit.new_start, edit.new_end) for edit in found] == [(0, 600, 0, 600)]
