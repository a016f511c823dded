"""Three texts become one, or the conflict is named; neither settings of git's nor of the tree's have a say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen import programs
from codegen.errors import ExitCode, InputOutputError, ToolchainMissing
from codegen.patch.merge import MergeConflict, merged

if TYPE_CHECKING:
    from pathlib import Path

BASE = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def test_both_sides_are_kept() -> None:
    assert merged(BASE, BASE + b"mine\n", b"theirs\n" + BASE) == b"theirs\n" + BASE + b"mine\n"


def test_one_side_alone() -> None:
    assert merged(BASE, b"mine\n", BASE) == b"mine\n"
    assert merged(BASE, BASE, b"theirs\n") == b"theirs\n"
    assert merged(BASE, b"same\n", b"same\n") == b"same\n"


def test_line_ends_stay() -> None:
    base = BASE.replace(b"\n", b"\r\n")

    assert merged(base, base + b"mine\r\n", b"x\r\n" + base) == b"x\r\n" + base + b"mine\r\n"


def test_conflicts_are_counted_in_lines_of_ours() -> None:
    ours = b"zero\n" + BASE.replace(b"two", b"mine").replace(b"seven", b"mine too")
    theirs = BASE.replace(b"two", b"theirs").replace(b"seven", b"theirs too")

    with pytest.raises(MergeConflict) as caught:
        merged(BASE, ours, theirs)
    assert caught.value.lines == (3, 8)


def test_marks_in_the_text_are_text() -> None:
    base = BASE + b"=======\n"

    assert merged(base, base + b"mine\n", b"x\n" + base) == b"x\n" + base + b"mine\n"


def test_what_is_no_text_is_not_merged() -> None:
    with pytest.raises(InputOutputError, match=r"git cannot merge a file: .*binary"):
        merged(b"\0a", b"\0b", b"\0c")


def test_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: None)

    assert merged(BASE, b"mine\n", BASE) == b"mine\n", "it takes no git where one side is as the base"
    with pytest.raises(ToolchainMissing, match="install git") as caught:
        merged(BASE, b"mine\n", b"theirs\n")
    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING


def test_the_users_settings_have_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".gitconfig").write_text("[merge]\n\tconflictStyle = diff3\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(MergeConflict) as caught:
        merged(BASE, b"x\n" + BASE.replace(b"two", b"mine"), BASE.replace(b"two", b"theirs"))
    assert caught.value.lines == (3,)
    assert merged(BASE, BASE + b"m\n", b"t\n" + BASE) == b"t\n" + BASE + b"m\n"
