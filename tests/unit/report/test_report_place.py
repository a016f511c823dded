"""`FILE:LINE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, UsageError
from codegen.report.place import Place

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = frozenset({"candle-core/src/storage.rs", "candle-nn/src/storage.rs", "candle-core/src/device.rs"})


@pytest.mark.parametrize("text", ["a/b.rs:7", "a/b.rs:7:3"])
def test_a_place_is_a_file_and_a_line(text: str) -> None:
    assert Place.parse(text) == Place("a/b.rs", 7)


def test_a_drive_letter_belongs_to_the_file() -> None:
    assert Place.parse("C:\\a.rs:7") == Place("C:\\a.rs", 7)


@pytest.mark.parametrize("text", ["a.rs", "a.rs:", "a.rs:x", "a.rs:0", ":3", ""])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        Place.parse(text)
    assert f"'{text}' is not FILE:LINE" in str(caught.value)
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_file_may_be_given_in_three_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "candle-core"
    inner.mkdir()
    monkeypatch.chdir(inner)
    for written in (
        "candle-core/src/device.rs",
        "./candle-core/src/device.rs",
        "src/device.rs",
        f"{inner}/src/device.rs",
    ):
        assert Place(written, 1).in_tree(tmp_path, KNOWN) == "candle-core/src/device.rs"


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("storage.rs", "did you mean candle-core/src/storage.rs, candle-nn/src/storage.rs?"),
        ("candle-core/src/devise.rs", "did you mean candle-core/src/device.rs"),
        ("zzz", "name a file by its path in the tree"),
    ],
)
def test_an_unknown_file_names_similar_ones(tmp_path: Path, written: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        Place(written, 1).in_tree(tmp_path, KNOWN)
    assert f"the tree has no file {written}" in str(caught.value)
    assert remedy in caught.value.remedy
