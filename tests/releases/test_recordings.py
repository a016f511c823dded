"""`publish` as a person sees it: at 80 columns, interrupted, gone on with, and through a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from recorder import on_a_terminal, through_a_pipe

TEXTS = Path(__file__).with_name("recordings")
RELEASES = ("0.11.0", "0.11.1")

pytestmark = [pytest.mark.network]


def test_publish_interrupted_and_gone_on_with(
    tmp_path: Path,
    update_goldens: bool,  # noqa: FBT001 - a fixture
) -> None:
    """The first run publishes one of two releases and is interrupted; the next one leaves that as it is."""
    words = ("publish", str(tmp_path / "candle.git"), *RELEASES)
    variables = {**os.environ, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    hidden = ((str(tmp_path), "DIR"),)

    first = on_a_terminal(words, variables, interrupt=lambda frame: "step 2 of 2" in frame)
    first.compare(TEXTS / "interrupted.txt", *hidden, update=update_goldens)
    assert first.code == 130

    second = on_a_terminal(words, variables)
    second.compare(TEXTS / "gone-on-with.txt", *hidden, update=update_goldens)
    assert "step 1 of 2, Candle 0.11.0: as before" in second.lines[0]
    assert [line.split()[-1] for line in second.lines[-2:]] == ["before", "new"]

    third = through_a_pipe((words[0], str(tmp_path / "again.git"), *RELEASES), variables)
    third.compare(TEXTS / "through-a-pipe.txt", *hidden, update=update_goldens)
