"""How a tree on disk relates to the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.patch.changes import FileChange, Origin, PhaseChanges, Region
from codegen.plan.model import Plan
from codegen.verify.patched_tree import OnDisk, Subject

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = Origin("r.x", "specs/phases/0-setup.yaml:1", 0)
REGIONS = (Region(1, 1, ORIGIN),)
PLAN = Plan(
    "1.2.3",
    "dummy",
    "rocm-rs",
    (
        PhaseChanges(0, "setup", "s", (FileChange("a.rs", b"a0", b"a1", REGIONS),)),
        PhaseChanges(
            1,
            "core",
            "c",
            (FileChange("a.rs", b"a1", b"a2", REGIONS), FileChange("sub/new.rs", None, b"new", REGIONS)),
        ),
    ),
)
PRISTINE = {"a.rs": b"a0", "sub/new.rs": None}
AFTER = {"a.rs": b"a2", "sub/new.rs": b"new"}


def on_disk(root: Path, files: dict[str, bytes]) -> Subject:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return Subject.of_plan(root, PLAN)


@pytest.mark.parametrize(
    ("files", "state", "patched"),
    [
        ({"a.rs": b"a0"}, OnDisk.UNPATCHED, AFTER),
        ({"a.rs": b"a1"}, OnDisk.PARTLY, AFTER),
        ({"a.rs": b"a2", "sub/new.rs": b"new"}, OnDisk.APPLIED, {}),
        ({"a.rs": b"mine", "sub/new.rs": b"new"}, OnDisk.OTHER, {}),
    ],
)
def test_states(tmp_path: Path, files: dict[str, bytes], state: OnDisk, patched: dict[str, bytes]) -> None:
    subject = on_disk(tmp_path, files)
    assert subject.on_disk is state
    assert subject.patched == patched
    assert subject.pristine == PRISTINE


def test_lines_of_hand_edited_files_are_not_traced(tmp_path: Path) -> None:
    subject = on_disk(tmp_path, {"a.rs": b"mine", "sub/new.rs": b"new"})
    assert subject.differing == ("a.rs",)
    assert set(subject.regions) == {"sub/new.rs"}


def test_an_edited_new_file_is_traced_as_a_whole(tmp_path: Path) -> None:
    subject = on_disk(tmp_path, {"a.rs": b"a2", "sub/new.rs": b"new\nand\nmore\n"})
    assert subject.on_disk is OnDisk.OTHER
    assert subject.regions == {"a.rs": REGIONS, "sub/new.rs": (Region(1, 4, ORIGIN),)}


def test_lines_of_planned_files_are(tmp_path: Path) -> None:
    assert on_disk(tmp_path, {"a.rs": b"a0"}).regions == {"a.rs": REGIONS, "sub/new.rs": REGIONS}


def test_an_empty_plan_counts_as_applied(tmp_path: Path) -> None:
    assert Subject.of_plan(tmp_path, Plan("1.2.3", "dummy", "rocm-rs", ())).on_disk is OnDisk.APPLIED
