"""What files were is derived from whatever has it, in order, and only with the hash that the record gives."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from phased import (
    BOTH,
    DEVICE,
    HEADER,
    LIB,
    MEMORY,
    NEW,
    PHASE_0,
    PHASE_1,
    PRISTINE,
    SCRIPT,
    candle,
    phase,
    revert_phase,
    snapshot,
    start_01,
    unsynced,
)

from codegen.errors import Conflict, ExitCode, HandEdited
from codegen.patch.changes import FileChange
from codegen.record.home import Home
from codegen.record.record import Record, load_record, sha256
from codegen.record.texts import Texts, pristine_overlay
from codegen.record.transaction import apply_phases, declare_edits, recover, revert_phases
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT = PHASE_1[0].after


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with unsynced():
        yield


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Both phases applied, and no release in the cache."""
    monkeypatch.setenv("CANDLE_ROCM_FETCH_DIR", str(tmp_path / "cache"))
    root = candle(tmp_path)
    start_01(root)
    return root


def loaded(root: Path) -> Record:
    record = load_record(root)
    assert record is not None
    return record


def git(tree: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Maker", "-c", "user.email=maker@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", tree, *who, *arguments], check=True, capture_output=True)


def test_from_the_file_itself(tree: Path) -> None:
    shutil.rmtree(Home(tree).local)

    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) == PRISTINE[DEVICE]
    assert Texts(tree, loaded(tree)).get(NEW, sha256(PHASE_0[1].after)) == PHASE_0[1].after


def test_from_what_is_kept(tree: Path) -> None:
    (tree / DEVICE).write_bytes(b"mine")

    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) == PRISTINE[DEVICE]
    Home(tree).original(sha256(PRISTINE[DEVICE])).write_bytes(b"evil")
    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) is None


def test_from_texts_at_hand(tree: Path) -> None:
    (tree / DEVICE).write_bytes(b"mine")
    shutil.rmtree(Home(tree).local)

    texts = Texts(tree, loaded(tree), {sha256(LEFT): LEFT, sha256(PRISTINE[LIB]): b"evil"})

    assert texts.get(DEVICE, sha256(PRISTINE[DEVICE])) == PRISTINE[DEVICE], "the later text leads back to it"
    assert texts.get(DEVICE, sha256(LEFT)) == LEFT


@pytest.mark.parametrize("committed", ["pristine", "patched"])
def test_from_gits_objects(tree: Path, committed: str) -> None:
    if committed == "pristine":
        revert_phases(tree)
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", committed)
    if committed == "pristine":
        apply_phases(tree, BOTH, HEADER)
    (tree / DEVICE).write_bytes(b"mine")
    shutil.rmtree(Home(tree).local)

    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) == PRISTINE[DEVICE]


def test_objects_of_others_are_not_believed(tree: Path) -> None:
    """An object under a wrong name, or one that was replaced."""
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "patched")
    document = json.loads(Home(tree).record.read_text())
    for file in document["phases"][1]["files"]:
        if file["path"] == DEVICE:
            other = subprocess.run(
                ["git", "-C", tree, "hash-object", "-w", "--stdin"], input=b"evil", check=True, capture_output=True
            )
            file["before_blob"] = file["after_blob"] = other.stdout.decode().strip()
    Home(tree).record.write_text(json.dumps(document))
    (tree / DEVICE).write_bytes(b"mine")
    shutil.rmtree(Home(tree).local)

    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) is None


def test_from_the_release(tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    release = tmp_path / "release"
    (release / DEVICE).parent.mkdir(parents=True)
    (release / DEVICE).write_bytes(PRISTINE[DEVICE])
    monkeypatch.setattr("codegen.candle.fetch.fetch_release", lambda version, offline: release)
    (tree / DEVICE).write_bytes(b"mine")
    shutil.rmtree(Home(tree).local)

    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) == PRISTINE[DEVICE]
    (release / DEVICE).write_bytes(b"another release")
    assert Texts(tree, loaded(tree)).get(DEVICE, sha256(PRISTINE[DEVICE])) is None


def test_from_nowhere_is_an_error_with_names_and_a_remedy(tree: Path) -> None:
    for path in (DEVICE, LIB, SCRIPT):
        (tree / path).write_bytes(b"mine")
    shutil.rmtree(Home(tree).local)

    with pytest.raises(Conflict) as caught:
        pristine_overlay(tree, loaded(tree))

    assert caught.value.exit_code is ExitCode.CONFLICT
    assert [problem.message for problem in caught.value.problems] == [
        f"{path} is not as candle-rocm wrote it, and its text from before phase {phase} cannot be found"
        for path, phase in ((LIB, 0), (SCRIPT, 0), (DEVICE, 1))
    ]
    assert "candle-rocm fetch 0.11.1" in caught.value.remedy


# A record of schema 1


def as_schema_1(root: Path) -> None:
    """What candle-rocm 0.1.0 would have left."""
    home = Home(root)
    record = loaded(root)
    document = json.loads(home.record.read_text())
    document["schema_version"] = 1
    del document["declared"]
    for entry, written in zip(document["phases"], record.phases, strict=True):
        for file in entry["files"]:
            for key in ("before_blob", "after_blob", "undo"):
                del file[key]
        for applied in written.files:
            if applied.before is not None:
                kept = home.old_originals / str(written.phase) / applied.path
                kept.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(home.original(applied.before), kept)
    home.record.write_text(json.dumps(document, indent=2) + "\n")
    home.old_ignore.write_text("*\n")
    (home.folder / "lock").write_text("")
    shutil.rmtree(home.local)


def test_an_old_record_is_read(tree: Path) -> None:
    expected = pristine_overlay(tree, loaded(tree))
    as_schema_1(tree)
    (tree / DEVICE).write_bytes(b"mine")

    record = loaded(tree)

    assert record.is_old
    assert pristine_overlay(tree, record) == expected
    assert record.hand_edited(tree) == (DEVICE,)


@pytest.mark.parametrize("command", ["declare", "revert one", "apply again"])
def test_an_old_record_is_written_anew(tree: Path, command: str) -> None:
    new = snapshot(tree, with_record=True)
    after_one = snapshot(shutil.copytree(tree, tree.parent / "twin"), with_record=True)
    if command == "revert one":
        revert_phase(tree.parent / "twin")
        after_one = snapshot(tree.parent / "twin", with_record=True)
    as_schema_1(tree)

    if command == "declare":
        declare_edits(tree, [])
    elif command == "revert one":
        revert_phase(tree)
    else:
        apply_phases(tree, BOTH[1:], HEADER, again=True)

    expected = after_one if command == "revert one" else new
    found = snapshot(tree, with_record=True)
    found.pop(f"{FOLDER}/lock")
    assert {name: entry[2] for name, entry in found.items()} == {name: entry[2] for name, entry in expected.items()}
    assert not loaded(tree).is_old


def test_an_old_record_is_taken_back(tree: Path) -> None:
    as_schema_1(tree)

    assert revert_phases(tree) is None

    assert {path: (tree / path).read_bytes() for path in PRISTINE} == PRISTINE
    assert (tree / SCRIPT).stat().st_mode & 0o777 == 0o755
    assert [path.name for path in (tree / FOLDER).iterdir()] == ["lock"]


def test_what_an_old_tool_left_half_done_is_refused(tree: Path) -> None:
    as_schema_1(tree)
    (tree / FOLDER / "transaction").mkdir()

    with pytest.raises(Conflict, match="was left by an older candle-rocm that was interrupted") as caught:
        recover(tree)
    assert "finish it with the version of candle-rocm that began it" in caught.value.remedy


# Edits of one's own


def test_edits_that_conflict_stay(tree: Path) -> None:
    own = LEFT.replace(b"Rocm }", b"Rocm, Mine }")
    (tree / DEVICE).write_bytes(own)
    before = snapshot(tree, with_record=True)

    with pytest.raises(HandEdited, match=f"{DEVICE} was changed since phase 1"):
        revert_phase(tree)
    with pytest.raises(
        HandEdited, match=f"{DEVICE} was changed since phase 1 .*, and the text that was written there cannot"
    ):
        revert_phases(tree, keep_edits=True)
    with pytest.raises(HandEdited, match=rf"{DEVICE}: your own edits conflict .* \(line 1\)"):
        revert_phases(tree, keep_edits=True, given={sha256(LEFT): LEFT})
    assert snapshot(tree, with_record=True) == before


def test_edits_that_do_not_conflict_are_kept(tree: Path) -> None:
    (tree / DEVICE).write_bytes(b"// mine\n\n\n\n" + LEFT)
    given = {sha256(LEFT): LEFT}
    with pytest.raises(HandEdited):
        revert_phases(tree, keep_edits=True, given=given)

    long = b"".join(b"// %d\n" % number for number in range(20))
    change = FileChange("long.rs", long, long + b"// ROCm\n")
    (tree / DEVICE).write_bytes(LEFT)
    (tree / "long.rs").write_bytes(long)
    apply_phases(tree, [phase(2, [change])], HEADER)
    (tree / "long.rs").write_bytes(b"// mine\n" + change.after)
    assert revert_phases(tree, keep_edits=True, given={sha256(change.after): change.after}) is None
    assert (tree / "long.rs").read_bytes() == b"// mine\n" + long
