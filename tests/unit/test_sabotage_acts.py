"""Every act of sabotage can be done to the repository as it is; CI does only those that need no build of Candle."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from sabotage.act import Act, read_acts

from codegen.paths import repository_root

if TYPE_CHECKING:
    from pathlib import Path

ACTS = read_acts(repository_root())


def copied(act: Act, folder: Path) -> Path:
    """A folder with the act's file, if there is one."""
    path = repository_root() / act.file
    if path.exists():
        (folder / act.file).parent.mkdir(parents=True)
        shutil.copy(path, folder / act.file)
    return folder / act.file


@pytest.mark.parametrize("act", [act for _, act in ACTS], ids=[f"{group}: {act.about}" for group, act in ACTS])
def test_an_act_changes_its_file_and_is_undone(act: Act, tmp_path: Path) -> None:
    file = copied(act, tmp_path)
    before = file.read_bytes() if file.exists() else None

    with act.done(tmp_path):
        assert (file.read_bytes() if file.exists() else None) != before

    assert (file.read_bytes() if file.exists() else None) == before


def test_there_are_as_many_as_the_page_says() -> None:
    """docs/proof.md says how many were seen to be caught; a new one is to be run before it is counted there."""
    page = (repository_root() / "docs" / "proof.md").read_text(encoding="utf-8")

    assert f"does {len(ACTS)} small acts" in page


def test_an_act_that_cannot_be_done_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one one", encoding="utf-8")
    act = Act(about="twice there", file="a.txt", find="one", replace="two", caught_by="pytest x", says="x")

    with pytest.raises(ValueError, match="2 times, not once"), act.done(tmp_path):
        pass
