"""Several phases in one transaction: as one by one, but together or not at all."""

from __future__ import annotations

import errno
import os
import shutil
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
    Faulty,
    Killed,
    apply_01,
    apply_phase,
    backups,
    but_backups,
    candle,
    phase,
    refused,
    revert_phase,
    snapshot,
    steps_of,
    unsynced,
)

from codegen.errors import Conflict, ExitCode, HandEdited, InputOutputError, PhaseOrder
from codegen.patch.changes import FileChange
from codegen.record.disk import Disk
from codegen.record.home import Home
from codegen.record.record import RecordHeader, load_record, sha256
from codegen.record.transaction import apply_phases, recover, revert_phases

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with unsynced():
        yield


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return candle(tmp_path)


# Together


def test_the_tree_is_as_after_the_last_phase(tree: Path) -> None:
    record = apply_phases(tree, BOTH, HEADER)

    assert [applied.phase for applied in record.phases] == [0, 1]
    assert record == load_record(tree)
    assert record.hand_edited(tree) == ()
    assert (tree / LIB).read_bytes() == PHASE_0[0].after
    assert (tree / NEW).read_bytes() == PHASE_1[1].after
    assert (tree / DEVICE).read_bytes() == PHASE_1[0].after
    assert not Home(tree).transaction.exists()


def test_each_phase_is_kept_and_can_be_taken_back_alone(tree: Path) -> None:
    twin = shutil.copytree(tree, tree.parent / "twin")
    pristine = snapshot(tree, with_record=True)
    apply_phase(twin, 0, PHASE_0, HEADER)
    apply_phases(tree, BOTH, HEADER)

    assert Home(tree).original(sha256(PRISTINE[SCRIPT])).read_bytes() == PRISTINE[SCRIPT]
    assert Home(tree).original(sha256(PHASE_0[2].after)).read_bytes() == PHASE_0[2].after
    assert Home(tree).original(sha256(PHASE_0[1].after)).read_bytes() == PHASE_0[1].after
    assert len(list(Home(tree).originals.iterdir())) == 5
    left = revert_phases(tree, down_to=1)
    assert left is not None
    assert [applied.phase for applied in left.phases] == [0]
    assert snapshot(tree, with_record=True) == snapshot(twin, with_record=True)
    assert revert_phases(tree) is None
    assert snapshot(tree, with_record=True) == pristine


def test_all_phases_are_taken_back_at_once(tree: Path) -> None:
    before = snapshot(tree, with_record=True)
    apply_phases(tree, BOTH, HEADER)

    assert revert_phases(tree) is None
    assert snapshot(tree, with_record=True) == before


def test_phases_before_the_wanted_one_stay(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    after_0 = snapshot(tree, with_record=True)
    apply_phases(tree, [phase(1, PHASE_1), phase(3, [FileChange(LIB, PHASE_0[0].after, b"3")]), phase(4, ())], HEADER)

    left = revert_phases(tree, down_to=1)

    assert left == load_record(tree)
    assert snapshot(tree, with_record=True) == after_0


def test_a_number_between_phases_counts(tree: Path) -> None:
    apply_phases(tree, [phase(0, PHASE_0), phase(3, PHASE_1)], HEADER)

    left = revert_phases(tree, down_to=2)

    assert left is not None
    assert left.last.phase == 0


def test_a_folder_belongs_to_the_first_phase_that_needs_it(tree: Path) -> None:
    first = phase(0, [FileChange("a/b/x.rs", None, b"x")])
    second = phase(1, [FileChange("a/b/c/y.rs", None, b"y"), FileChange("a/z.rs", None, b"z")])

    record = apply_phases(tree, [first, second], HEADER)

    assert [applied.folders for applied in record.phases] == [("a", "a/b"), ("a/b/c",)]
    revert_phase(tree)
    assert (tree / "a/b").is_dir()
    assert not (tree / "a/b/c").exists()


def test_a_file_of_both_phases_is_replaced_once(tree: Path) -> None:
    steps = steps_of(apply_01, tree, tree.parent)

    performed = steps[steps.index("write journal.json") : steps.index("write committed.json")]
    assert performed.count("write run.sh") == 1
    assert performed.count("write mod.rs") == 1


def test_a_file_that_the_second_phase_changes_back_is_not_touched(tree: Path) -> None:
    def untouched() -> tuple[int, ...]:
        """All but the time of the last reading, which may change."""
        found = (tree / LIB).stat()
        return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    there = FileChange(LIB, PRISTINE[LIB], b"x")
    before = untouched()
    pristine = snapshot(tree, with_record=True)

    record = apply_phases(tree, [phase(0, [there]), phase(1, [FileChange(LIB, b"x", PRISTINE[LIB])])], HEADER)

    assert untouched() == before
    assert record.hand_edited(tree) == ()
    revert_phases(tree, down_to=1)
    assert (tree / LIB).read_bytes() == b"x"
    revert_phases(tree)
    assert snapshot(tree, with_record=True) == pristine


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_the_record_knows_the_bits_of_a_file_made_between(tree: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        record = apply_phases(tree, BOTH, HEADER)
        assert os.umask(umask) == umask
    finally:
        os.umask(previous)

    assert {file.path: file.mode for file in record.phases[1].files}[NEW] == 0o666 & ~umask
    assert (tree / NEW).stat().st_mode & 0o777 == 0o666 & ~umask
    revert_phase(tree)
    assert (tree / NEW).stat().st_mode & 0o777 == 0o666 & ~umask


def test_two_names_of_one_file_in_two_phases(tree: Path) -> None:
    (tree / "lib.rs").symlink_to(LIB)
    before = snapshot(tree, with_record=True)
    phases = [phase(0, [FileChange("lib.rs", PRISTINE[LIB], b"0")]), phase(1, [FileChange(LIB, b"0", b"1")])]

    apply_phases(tree, phases, HEADER)

    assert (tree / LIB).read_bytes() == b"1"
    assert (tree / "lib.rs").is_symlink()
    revert_phases(tree)
    assert snapshot(tree, with_record=True) == before


# Or not at all


def test_edited_files_of_all_phases_are_listed(tree: Path) -> None:
    (tree / LIB).write_bytes(b"mine")
    (tree / DEVICE).unlink()

    with refused(
        tree, HandEdited, ExitCode.CONFLICT, f"{LIB} is not what the plan was made from", f"{DEVICE} is missing"
    ):
        apply_phases(tree, BOTH, HEADER)


def test_an_edited_file_of_both_phases_is_listed_once(tree: Path) -> None:
    (tree / SCRIPT).write_bytes(b"mine")

    with pytest.raises(HandEdited) as caught:
        apply_phases(tree, BOTH, HEADER)

    assert [problem.message for problem in caught.value.problems] == [f"{SCRIPT} is not what the plan was made from"]


def test_a_phase_that_was_not_planned_on_the_one_before_is_refused(tree: Path) -> None:
    other = phase(1, [FileChange(SCRIPT, b"something else", b"x")])

    with refused(tree, HandEdited, ExitCode.CONFLICT, f"{SCRIPT} is not what the plan was made from"):
        apply_phases(tree, [phase(0, PHASE_0), other], HEADER)


def test_an_edit_in_the_earlier_phase_stops_both_reverts(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)
    (tree / LIB).write_bytes(b"mine")

    with refused(tree, HandEdited, ExitCode.CONFLICT, f"{LIB} was changed since phase 0 was applied"):
        revert_phases(tree)


def test_an_edit_forced_over_between_phases_stops_both_reverts(tree: Path) -> None:
    # Taking phase 1 back gives the edit back, and that is not what phase 0 left.
    before = snapshot(tree, with_record=True)
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / SCRIPT).write_bytes(b"mine")
    apply_phase(tree, 1, PHASE_1, HEADER, force=True)

    with refused(tree, HandEdited, ExitCode.CONFLICT, f"{SCRIPT} was changed since phase 0 was applied"):
        revert_phases(tree)
    assert revert_phases(tree, force=True) is None
    assert but_backups(snapshot(tree, with_record=True)) == before
    assert backups(tree) == {f"1/{SCRIPT}": b"mine", f"2/{SCRIPT}": b"mine"}


def test_damaged_originals_are_not_believed(tree: Path) -> None:
    before = snapshot(tree, with_record=True)
    apply_phases(tree, BOTH, HEADER)
    Home(tree).original(sha256(PRISTINE[LIB])).write_bytes(b"rot")
    Home(tree).original(sha256(PRISTINE[DEVICE])).unlink()

    assert revert_phases(tree) is None
    assert snapshot(tree, with_record=True) == before


def test_the_second_phase_may_be_applied_already(tree: Path) -> None:
    apply_phase(tree, 1, (), HEADER)

    with refused(tree, PhaseOrder, ExitCode.CONFLICT, "phase 0 comes before phase 1", "revert phase 1 first"):
        apply_phases(tree, [phase(0, ()), phase(1, ()), phase(2, ())], HEADER)
    with refused(tree, PhaseOrder, ExitCode.CONFLICT, "phase 1 is already applied", "revert it first"):
        apply_phases(tree, [phase(1, ()), phase(2, ())], HEADER)


def test_nothing_is_applied_from_that_phase_on(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)

    with refused(
        tree,
        PhaseOrder,
        ExitCode.CONFLICT,
        "the last phase that is applied",
        "is 1",
        "revert from phase 2 on",
    ):
        revert_phases(tree, down_to=2)


@pytest.mark.parametrize("numbers", [[], [1, 0], [0, 0]])
def test_phases_that_do_not_ascend_are_our_own_bug(tree: Path, numbers: list[int]) -> None:
    with pytest.raises(AssertionError, match=r"no phase to apply|are not ascending"):
        apply_phases(tree, [phase(number, ()) for number in numbers], HEADER)

    assert not Home(tree).folder.exists()


def test_taking_back_needs_no_space(tree: Path) -> None:
    """A disk fills up while files are renamed: from then on nothing can be made, and still both phases are undone."""

    class Full(Disk):
        full = False

        def step(self, verb: str, path: Path) -> None:
            self.full = self.full or path == tree / SCRIPT
            pristine = path == tree / SCRIPT and path.read_bytes() == PRISTINE[SCRIPT]
            if self.full and (verb == "create" or pristine):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    disk = Full()
    with refused(
        tree, InputOutputError, ExitCode.IO, "No space left on device", "the tree is as it was", "free some space"
    ):
        apply_phases(tree, BOTH, HEADER, disk=disk)
    assert disk.full


def test_after_the_journal_nothing_is_made_but_folders_of_the_tree(tree: Path) -> None:
    steps = steps_of(apply_01, tree, tree.parent)

    made = [step for step in steps[steps.index("write journal.json") :] if step.startswith("create ")]
    assert made == ["create rocm", "create backend", "create tests"]


def test_killed_between_the_files_of_two_phases_the_next_apply_starts_anew(tree: Path) -> None:
    before = snapshot(tree, with_record=True)
    steps = steps_of(apply_01, tree, tree.parent)
    at = steps.index("write device.rs", steps.index("write journal.json"))
    with pytest.raises(Killed):
        apply_01(tree, Faulty(at, Killed, forever=True))
    assert (tree / LIB).read_bytes() == PHASE_0[0].after
    assert (tree / DEVICE).read_bytes() == PRISTINE[DEVICE]

    apply_phases(tree, BOTH, HEADER)
    revert_phases(tree)

    assert snapshot(tree, with_record=True) == before


# Again


def test_edited_phases_are_written_anew(tree: Path) -> None:
    pristine = snapshot(tree, with_record=True)
    apply_phases(tree, BOTH, HEADER)
    applied = snapshot(tree, with_record=True)
    (tree / LIB).write_bytes(b"mine")
    shutil.rmtree(tree / "candle-core/src/rocm")

    record = apply_phases(tree, BOTH, HEADER, again=True, force=True)

    assert record == load_record(tree)
    assert but_backups(snapshot(tree, with_record=True)) == applied
    assert backups(tree) == {f"1/{LIB}": b"mine"}
    revert_phases(tree)
    assert but_backups(snapshot(tree, with_record=True)) == pristine


def test_only_phases_from_the_first_given_one_on_are_written_anew(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)
    applied = snapshot(tree, with_record=True)
    (tree / DEVICE).write_bytes(b"mine")

    apply_phases(tree, BOTH[1:], HEADER, again=True, force=True)

    assert but_backups(snapshot(tree, with_record=True)) == applied
    assert backups(tree) == {f"1/{DEVICE}": b"mine"}


def test_a_phase_may_follow_those_written_anew(tree: Path) -> None:
    pristine = snapshot(tree, with_record=True)
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / SCRIPT).write_bytes(b"mine")

    record = apply_phases(tree, BOTH, HEADER, again=True, force=True)

    assert [applied.phase for applied in record.phases] == [0, 1]
    assert (tree / SCRIPT).read_bytes() == PHASE_1[3].after
    revert_phases(tree)
    assert but_backups(snapshot(tree, with_record=True)) == pristine


def test_what_a_phase_written_anew_no_longer_makes_is_gone(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)

    record = apply_phases(tree, [phase(0, PHASE_0[:1])], HEADER, again=True)

    assert record.left().keys() == {LIB}
    assert not (tree / "candle-core/src/rocm").exists()
    assert snapshot(tree)[SCRIPT] == ("file", 0o755, PRISTINE[SCRIPT])
    assert [entry.name for entry in Home(tree).originals.iterdir()] == [sha256(PRISTINE[LIB])]


def test_written_anew_on_their_own_phases_may_change_their_choices(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)
    other = RecordHeader("0.2.0", "0.11.1", "cfg", "rocm-rs")

    assert apply_phases(tree, BOTH, other, again=True).header == other
    with refused(tree, Conflict, ExitCode.CONFLICT, "phase 0 was applied with gating cfg, phase 1 is planned with"):
        apply_phases(tree, BOTH[1:], HEADER, again=True)


def test_without_force_edits_are_not_overwritten_anew(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)
    (tree / LIB).write_bytes(b"mine")

    with refused(tree, HandEdited, ExitCode.CONFLICT, f"{LIB} was changed since phase 0 was applied"):
        apply_phases(tree, BOTH, HEADER, again=True)


def test_an_error_while_writing_anew_gives_the_edits_back(tree: Path) -> None:
    apply_phases(tree, BOTH, HEADER)
    (tree / LIB).write_bytes(b"mine")
    (tree / SCRIPT).chmod(0o700)

    class Broken(Disk):
        def step(self, verb: str, path: Path) -> None:
            if path.name == "committed.json" and verb == "write":
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    with refused(tree, InputOutputError, ExitCode.IO, "Input/output error", "the tree is as it was"):
        apply_phases(tree, BOTH, HEADER, again=True, force=True, disk=Broken())
    assert recover(tree) is False


def test_again_where_nothing_is_applied_is_applying(tree: Path) -> None:
    record = apply_phases(tree, BOTH, HEADER, again=True)

    assert [applied.phase for applied in record.phases] == [0, 1]
