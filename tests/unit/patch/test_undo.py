"""Undo edits lead back to the byte, are small, and never reach outside of a file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.patch.undo import MOST_TEXT, undo_edits, undone
from codegen.record.fields import checked_undo

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"b\r\n", b"\n", "é\n".encode(), b"\xff\n", b"end"]), max_size=12)
TEXTS = LINES.map(b"".join)


@settings(max_examples=200)
@given(TEXTS, TEXTS)
def test_they_lead_back(before: bytes, after: bytes) -> None:
    undo = undo_edits(before, after)

    if undo is None:
        assert b"\xff" in before
        return
    assert undone(after, undo) == before
    assert checked_undo([list(edit) for edit in undo]) == undo


def test_an_insertion_is_undone_by_a_deletion() -> None:
    assert undo_edits(b"a\nc\n", b"a\nbbb\nc\n") == ((2, 4, ""),)
    assert undo_edits(b"a\n", b"a\n") == ()


def test_a_file_written_anew_has_none() -> None:
    assert undo_edits(b"x\n" * MOST_TEXT, b"y\n") is None
    assert undo_edits(b"\xff\n", b"y\n") is None


@pytest.mark.parametrize("undo", [((5, 1, ""),), ((0, 5, ""),), ((3, 0, "x"), (4, 1, ""))])
def test_edits_outside_of_the_file(undo: tuple[tuple[int, int, str], ...]) -> None:
    assert undone(b"four", undo) is None


def test_edits_at_the_ends() -> None:
    assert undone(b"four", ((0, 0, "x"), (4, 0, "y"))) == b"xfoury"
