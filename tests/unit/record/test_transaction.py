"""Phases are written as a whole or not at all, whatever happens, and reverting gives every byte back."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from phased import (
    DEVICE,
    HEADER,
    LIB,
    MEMORY,
    NEW,
    OPERATIONS,
    PHASE_0,
    PHASE_1,
    PRISTINE,
    REPOSITORY,
    SCRIPT,
    Faulty,
    Killed,
    apply_0,
    apply_phase,
    backups,
    but_backups,
    candle,
    files_of,
    grow,
    linked,
    locked,
    no_space,
    refused,
    revert,
    revert_phase,
    snapshot,
    steps_of,
    unsynced,
)

from codegen.errors import Conflict, ExitCode, HandEdited, InputOutputError, PhaseOrder
from codegen.patch.changes import FileChange
from codegen.record.disk import DISK, Disk
from codegen.record.home import Home
from codegen.record.record import RecordHeader, load_record, sha256
from codegen.record.transaction import recover
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


# Applying and reverting


def test_apply_writes_every_file_and_the_record(tree: Path) -> None:
    record = apply_phase(tree, 0, PHASE_0, HEADER)

    assert (tree / LIB).read_bytes() == PHASE_0[0].after
    assert (tree / NEW).read_bytes() == PHASE_0[1].after
    assert record == load_record(tree)
    assert [phase.phase for phase in record.phases] == [0]
    assert record.last.folders == ("candle-core/src/rocm", "candle-core/src/rocm/backend")
    assert (tree / FOLDER / "local/originals" / sha256(PRISTINE[LIB])).read_bytes() == PRISTINE[LIB]
    assert (tree / FOLDER / "local/.gitignore").read_text() == "*\n"
    assert sorted(path.name for path in (tree / FOLDER).iterdir()) == ["local", "record.json"]
    assert not Home(tree).transaction.exists()


def test_apply_keeps_permission_bits_and_untouched_files(tree: Path) -> None:
    before = snapshot(tree)

    apply_phase(tree, 0, PHASE_0, HEADER)
    apply_phase(tree, 1, PHASE_1, HEADER)

    after = snapshot(tree)
    assert after[SCRIPT][1] == 0o755
    assert after[DEVICE][1] == 0o640
    assert after["README.md"] == before["README.md"]


def test_a_new_file_has_the_bits_that_the_umask_allows(tree: Path) -> None:
    previous = os.umask(0o027)
    try:
        apply_phase(tree, 0, PHASE_0, HEADER)
    finally:
        os.umask(previous)

    assert snapshot(tree)[NEW][1] == 0o640


def test_revert_gives_back_every_byte_and_leaves_no_trace(tree: Path) -> None:
    before = snapshot(tree, with_record=True)

    apply_phase(tree, 0, PHASE_0, HEADER)

    assert revert_phase(tree) is None
    assert snapshot(tree, with_record=True) == before


def test_phases_revert_in_reverse(tree: Path) -> None:
    pristine = snapshot(tree, with_record=True)
    apply_phase(tree, 0, PHASE_0, HEADER)
    after_0 = snapshot(tree, with_record=True)
    apply_phase(tree, 1, PHASE_1, HEADER)

    record = revert_phase(tree)

    assert record == load_record(tree)
    assert record is not None
    assert record.last.phase == 0
    assert snapshot(tree, with_record=True) == after_0
    assert revert_phase(tree) is None
    assert snapshot(tree, with_record=True) == pristine


def test_revert_restores_permission_bits_changed_since(tree: Path) -> None:
    before = snapshot(tree)
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / SCRIPT).chmod(0o600)

    revert_phase(tree)

    assert snapshot(tree) == before


def test_revert_keeps_folders_that_somebody_else_uses(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / "candle-core/src/rocm/notes.txt").write_text("mine")

    revert_phase(tree)

    assert (tree / "candle-core/src/rocm/notes.txt").read_text() == "mine"
    assert not (tree / "candle-core/src/rocm/backend").exists()


def test_what_comes_back_is_new_to_cargo(tree: Path) -> None:
    os.utime(tree / LIB, (1_000_000_000, 1_000_000_000))
    apply_phase(tree, 0, PHASE_0, HEADER)
    built = (tree / LIB).stat().st_mtime_ns

    revert_phase(tree)

    assert (tree / LIB).stat().st_mtime_ns >= built


def test_a_phase_without_files_is_recorded(tree: Path) -> None:
    before = snapshot(tree, with_record=True)

    apply_phase(tree, 0, (), HEADER)

    assert load_record(tree) is not None
    assert revert_phase(tree) is None
    assert snapshot(tree, with_record=True) == before


def test_a_file_that_does_not_change_is_recorded_and_not_written(tree: Path) -> None:
    before = (tree / LIB).stat()

    record = apply_phase(tree, 0, [FileChange(LIB, PRISTINE[LIB], PRISTINE[LIB])], HEADER)

    assert [file.path for file in record.last.files] == [LIB]
    assert (tree / LIB).stat() == before


def test_a_file_that_is_already_as_planned_counts(tree: Path) -> None:
    (tree / LIB).write_bytes(PHASE_0[0].after)
    before = snapshot(tree)

    record = apply_phase(tree, 0, PHASE_0, HEADER)

    assert LIB in record.left()
    revert_phase(tree)
    assert snapshot(tree) == before


def test_a_later_tool_version_may_continue(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)

    record = apply_phase(tree, 1, PHASE_1, RecordHeader("0.2.0", "0.11.1", "dummy", "rocm-rs"))

    assert record.header.tool_version == "0.2.0"


def test_the_tree_may_be_given_through_a_link_and_relative(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree.parent / "alias").symlink_to(tree)
    monkeypatch.chdir(tree.parent)
    before = snapshot(tree, with_record=True)

    apply_phase(Path("alias"), 0, PHASE_0, HEADER)

    assert (tree / NEW).read_bytes() == PHASE_0[1].after
    revert_phase(Path("alias"))
    assert snapshot(tree, with_record=True) == before


# Refusals


def test_hand_edited_files_are_all_listed(tree: Path) -> None:
    (tree / LIB).write_bytes(b"mod mine;\n")
    (tree / SCRIPT).unlink()
    grow(tree, {NEW: b"mine"})

    with refused(
        tree,
        HandEdited,
        ExitCode.CONFLICT,
        f"{LIB} is not what the plan was made from",
        f"{SCRIPT} is missing",
        f"{NEW} exists already",
        "--force",
    ):
        apply_phase(tree, 0, PHASE_0, HEADER)


def test_force_overwrites_and_reverting_gives_the_edits_back(tree: Path) -> None:
    (tree / LIB).write_bytes(b"mod mine;\n")
    (tree / SCRIPT).unlink()
    grow(tree, {NEW: b"mine"})
    edited = snapshot(tree, with_record=True)

    record = apply_phase(tree, 0, PHASE_0, HEADER, force=True)

    assert (tree / LIB).read_bytes() == PHASE_0[0].after
    assert record.hand_edited(tree) == ()
    assert backups(tree) == {f"1/{LIB}": b"mod mine;\n", f"1/{NEW}": b"mine"}
    revert_phase(tree)
    assert but_backups(snapshot(tree, with_record=True)) == edited


def test_revert_refuses_hand_edited_files(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / LIB).write_bytes(b"mod mine;\n")
    (tree / SCRIPT).unlink()

    with refused(
        tree, HandEdited, ExitCode.CONFLICT, f"{LIB} was changed since phase 0 was applied", f"{SCRIPT} is missing"
    ):
        revert_phase(tree)


def test_a_forced_revert_gives_pristine_files(tree: Path) -> None:
    before = snapshot(tree, with_record=True)
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / LIB).write_bytes(b"mod mine;\n")
    shutil.rmtree(tree / "candle-core/src/rocm")
    shutil.rmtree(tree / "tools")

    assert revert_phase(tree, force=True) is None
    assert but_backups(snapshot(tree, with_record=True)) == before
    assert backups(tree) == {f"1/{LIB}": b"mod mine;\n"}


def test_revert_minds_only_its_own_files(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    apply_phase(tree, 1, PHASE_1, HEADER)
    (tree / LIB).write_bytes(b"mod mine;\n")

    revert_phase(tree)

    assert (tree / LIB).read_bytes() == b"mod mine;\n"


def test_phases_are_applied_once_and_upwards(tree: Path) -> None:
    apply_phase(tree, 1, (), HEADER)

    with refused(tree, PhaseOrder, ExitCode.CONFLICT, "phase 1 is already applied", "revert it first"):
        apply_phase(tree, 1, (), HEADER)
    with refused(tree, PhaseOrder, ExitCode.CONFLICT, "phase 0 comes before phase 1", "revert phase 1 first"):
        apply_phase(tree, 0, (), HEADER)


def test_nothing_to_revert(tree: Path) -> None:
    with refused(tree, PhaseOrder, ExitCode.CONFLICT, "no phase is applied", "nothing to revert"):
        revert_phase(tree)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (RecordHeader("0.1.0", "0.9.1", "dummy", "rocm-rs"), "Candle release 0.11.1, phase 1 is planned with 0.9.1"),
        (RecordHeader("0.1.0", "0.11.1", "cfg", "rocm-rs"), "gating dummy, phase 1 is planned with cfg"),
        (RecordHeader("0.1.0", "0.11.1", "dummy", "dynamic"), "runtime rocm-rs, phase 1 is planned with dynamic"),
    ],
)
def test_phases_of_different_plans_do_not_mix(tree: Path, header: RecordHeader, name: str) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)

    with refused(tree, Conflict, ExitCode.CONFLICT, f"phase 0 was applied with {name}", "revert all phases first"):
        apply_phase(tree, 1, PHASE_1, header)


def test_a_missing_tree_is_said_so(tmp_path: Path) -> None:
    with refused(tmp_path, InputOutputError, ExitCode.IO, "nowhere is not a folder", "root of a Candle tree"):
        apply_phase(tmp_path / "nowhere", 0, (), HEADER)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "", f"{FOLDER}/record.json", ".git/x"])
def test_a_path_outside_of_the_tree_is_our_own_bug(tree: Path, path: str) -> None:
    with pytest.raises(ValueError, match="is not a path in the tree"):
        apply_phase(tree, 0, [FileChange(path, None, b"")], HEADER)


# Links


def test_a_link_inside_the_tree_is_followed(tree: Path) -> None:
    (tree / "core").symlink_to("candle-core")
    (tree / "lib.rs").symlink_to(LIB)
    before = snapshot(tree, with_record=True)

    apply_phase(
        tree, 0, [FileChange("core/x.rs", None, b"x"), FileChange("lib.rs", PRISTINE[LIB], b"mod link;\n")], HEADER
    )

    assert (tree / "lib.rs").is_symlink()
    assert (tree / LIB).read_bytes() == b"mod link;\n"
    assert (tree / "candle-core/x.rs").read_bytes() == b"x"
    revert_phase(tree)
    assert snapshot(tree, with_record=True) == before


@pytest.mark.parametrize("path", ["out/x.rs", "out.rs", "dangling.rs", "loop/x.rs", "record/x.rs"])
def test_a_link_that_leaves_the_tree_is_refused(tree: Path, path: str) -> None:
    outside = tree.parent / "outside"
    outside.mkdir()
    (outside / "out.rs").write_bytes(b"theirs")
    (tree / "out").symlink_to(outside)
    (tree / "out.rs").symlink_to("../outside/out.rs")
    (tree / "dangling.rs").symlink_to(outside / "nothing.rs")
    (tree / "loop").symlink_to("loop")
    (tree / "record").symlink_to(FOLDER)
    change = FileChange(path, b"theirs" if path == "out.rs" else None, b"ours")

    with refused(tree, Conflict, ExitCode.CONFLICT, f"{path} points outside the tree", "symbolic link"):
        apply_phase(tree, 0, [PHASE_0[0], change], HEADER, force=True)

    assert [entry.name for entry in outside.iterdir()] == ["out.rs"]
    assert (outside / "out.rs").read_bytes() == b"theirs"


def test_a_link_put_in_place_after_applying_is_refused_by_revert(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    outside = tree.parent / "outside"
    shutil.move(tree / "candle-core", outside)
    (tree / "candle-core").symlink_to(outside)

    with refused(tree, Conflict, ExitCode.CONFLICT, "points outside the tree"):
        revert_phase(tree, force=True)


def test_the_record_is_never_written_through_a_link(tree: Path) -> None:
    outside = grow(tree.parent, {"outside": b"theirs"}) / "outside"
    Home(tree).local.mkdir(parents=True)
    for name in (".gitignore", "lock"):
        link = Home(tree).local / name
        link.symlink_to(outside if name == "lock" else tree.parent / "nothing")

        with pytest.raises(InputOutputError, match=r"is a symbolic link|Too many levels of symbolic links"):
            apply_phase(tree, 0, PHASE_0, HEADER)

        assert outside.read_bytes() == b"theirs"
        assert not (tree.parent / "nothing").exists()
        link.unlink(missing_ok=True)
        Home(tree).local.mkdir(parents=True, exist_ok=True)


def test_two_names_of_one_file_are_refused(tree: Path) -> None:
    (tree / "lib.rs").symlink_to(LIB)

    with refused(tree, Conflict, ExitCode.CONFLICT, f"{LIB} and lib.rs are the same file", "by a copy"):
        apply_phase(tree, 0, [PHASE_0[0], FileChange("lib.rs", PRISTINE[LIB], b"")], HEADER)


def test_a_folder_of_the_record_that_is_a_link_is_refused(tree: Path) -> None:
    (tree.parent / "elsewhere").mkdir()
    (tree / FOLDER).symlink_to(tree.parent / "elsewhere")

    with refused(tree, Conflict, ExitCode.CONFLICT, "not a folder of candle-rocm's own", "move it away"):
        apply_phase(tree, 0, PHASE_0, HEADER)

    assert list((tree.parent / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_something_else_than_a_file_is_refused(tree: Path, make: Callable[[Path], None]) -> None:
    make(tree / "x.rs")

    with pytest.raises(Conflict, match=r"x\.rs is not a regular file"):
        apply_phase(tree, 0, [FileChange("x.rs", None, b"")], HEADER, force=True)


def test_a_file_where_a_folder_must_be(tree: Path) -> None:
    grow(tree, {"a": b"mine"})

    with refused(tree, InputOutputError, ExitCode.IO, "a/b.rs: Not a directory", "the tree is as it was"):
        apply_phase(tree, 0, [PHASE_0[0], FileChange("a/b.rs", None, b"")], HEADER)


# Two processes at once


def test_a_second_process_is_refused(tree: Path) -> None:
    with locked(tree):
        for operation in (apply_0, revert):
            with refused(tree, Conflict, ExitCode.CONFLICT, "another candle-rocm is changing", "wait until it is done"):
                operation(tree, DISK)


def test_a_tree_in_the_midst_of_another_process_is_not_recovered(tree: Path) -> None:
    with locked(tree):
        Home(tree).transaction.mkdir()
        with refused(tree, Conflict, ExitCode.CONFLICT, "another candle-rocm is changing"):
            recover(tree)


def test_the_lock_dies_with_its_process(tree: Path) -> None:
    code = (
        "import fcntl, os, signal, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    Home(tree).local.mkdir(parents=True)
    done = subprocess.run([sys.executable, "-c", code, str(Home(tree).lock)], check=False)

    assert done.returncode == -9
    apply_phase(tree, 0, PHASE_0, HEADER)


def test_a_lock_removed_by_its_last_owner_is_taken_anew(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(tree, with_record=True)
    flock = fcntl.flock
    calls = []

    def owner_leaves_first(descriptor: int, operation: int) -> None:
        calls.append(operation)
        if len(calls) == 1:
            shutil.rmtree(Home(tree).folder)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", owner_leaves_first)
    apply_phase(tree, 0, PHASE_0, HEADER)

    assert len(calls) == 2
    monkeypatch.undo()
    revert_phase(tree)
    assert snapshot(tree, with_record=True) == before


def test_a_folder_removed_by_its_last_owner_is_made_anew(tree: Path) -> None:
    class Overtaken(Disk):
        made = 0

        def make_folder(self, path: Path) -> None:
            super().make_folder(path)
            if path == Home(tree).folder:
                self.made += 1
                if self.made == 1:
                    path.rmdir()

    disk = Overtaken()

    apply_phase(tree, 0, PHASE_0, HEADER, disk=disk)

    assert disk.made == 2
    assert load_record(tree) is not None


def test_a_disk_without_locks(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(InputOutputError) as caught:
        apply_phase(tree, 0, PHASE_0, HEADER)

    assert caught.value.exit_code == ExitCode.IO
    assert f"cannot lock {Home(tree).lock}: No locks available" in str(caught.value)
    assert "work on a disk that has file locks" in str(caught.value)
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]


# Errors of the disk


@OPERATIONS
def test_an_error_at_any_step_changes_nothing(
    tree: Path, tmp_path: Path, prepare: Callable[[Path], None], operation: Callable[[Path, Disk], object]
) -> None:
    prepare(tree)
    before = snapshot(tree, with_record=True)
    done = shutil.copytree(tree, tmp_path / "done")
    operation(done, DISK)
    after = snapshot(done, with_record=True)
    steps = steps_of(operation, tree, tmp_path)
    for at in range(len(steps)):
        root = linked(tree, tmp_path / str(at))
        disk = Faulty(at, no_space)
        try:
            operation(root, disk)
        except InputOutputError as error:
            message = str(error)
            assert "No space left on device" in message, steps[at]
            assert str(root) in message, steps[at]
            if "not yet the record of it" in message:
                assert files_of(snapshot(root)) == files_of(snapshot(done)), steps[at]
                assert recover(root)
                assert snapshot(root, with_record=True) == after, steps[at]
            else:
                assert snapshot(root, with_record=True) == before, steps[at]
        else:
            # Only removing what is left of an empty record may fail unnoticed; `recover` removes it.
            recover(root)
            assert snapshot(root, with_record=True) == after, steps[at]
        assert disk.struck
    assert snapshot(tree, with_record=True) == before


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space on that disk"),
        (errno.EDQUOT, "free some of your disk quota"),
        (errno.EROFS, "mounted read-only"),
        (errno.EACCES, "give yourself write permission"),
        (errno.EPERM, "give yourself write permission"),
        (errno.EIO, "check that file or folder"),
    ],
)
def test_an_error_names_path_and_remedy(tree: Path, code: int, remedy: str) -> None:
    class Broken(Disk):
        def step(self, verb: str, path: Path) -> None:
            if path == tree / LIB:
                raise OSError(code, os.strerror(code))

    with refused(
        tree,
        InputOutputError,
        ExitCode.IO,
        f"cannot write {tree / LIB}: {os.strerror(code)}",
        "the tree is as it was",
        remedy,
    ):
        apply_phase(tree, 0, PHASE_0, HEADER, disk=Broken())


def test_when_even_rolling_back_fails_the_message_says_so(tree: Path, tmp_path: Path) -> None:
    before = snapshot(tree, with_record=True)
    steps = steps_of(apply_0, tree, tmp_path)
    at = steps.index("write run.sh", steps.index("write journal.json"))

    with pytest.raises(InputOutputError) as caught:
        apply_0(tree, Faulty(at, no_space, forever=True))

    assert caught.value.exit_code == ExitCode.IO
    assert "could not be taken back" in str(caught.value)
    assert "next apply or revert of the tree then restores every file" in str(caught.value)
    assert recover(tree)
    assert snapshot(tree, with_record=True) == before


def test_ctrl_c_takes_back_what_was_written(tree: Path, tmp_path: Path) -> None:
    before = snapshot(tree, with_record=True)
    steps = steps_of(apply_0, tree, tmp_path)
    at = steps.index("write run.sh", steps.index("write journal.json"))

    with pytest.raises(KeyboardInterrupt):
        apply_0(tree, Faulty(at, KeyboardInterrupt))

    assert snapshot(tree, with_record=True) == before


class Editor(Disk):
    """Somebody edits a file in the very moment in which it is replaced: after every look, right before the rename."""

    def __init__(self, verb: str, path: Path, edit: Callable[[], object]) -> None:
        self.verb = verb
        self.path = path
        self.edit: Callable[[], object] | None = edit

    def step(self, verb: str, path: Path) -> None:
        if (verb, path) == (self.verb, self.path) and self.edit is not None:
            edit, self.edit = self.edit, None
            edit()


@pytest.fixture
def renaming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "rename":
        monkeypatch.setattr("codegen.record.renames._renameat2", lambda: None)


RENAMING = pytest.mark.parametrize("renaming", ["exchange", "rename"], indirect=True)
"""With files that change places in one step, and on a file system that has none of that."""


def in_place(path: Path) -> Callable[[], object]:
    """An edit of the same length, with the file's old time: nothing but its bytes tells."""
    status, content = path.stat(), path.read_bytes()

    def edit() -> None:
        path.write_bytes(content.swapcase())
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert content.swapcase() != content
    return edit


def anew(path: Path) -> Callable[[], object]:
    """As editors save: a new file in the place of the old one."""

    def edit() -> None:
        (path.parent / "saved").write_bytes(b"mine")
        (path.parent / "saved").replace(path)

    return edit


@RENAMING
@pytest.mark.usefixtures("renaming")
@pytest.mark.parametrize("kind", [in_place, anew, lambda path: path.unlink], ids=["in-place", "anew", "deleted"])
def test_an_edit_right_before_the_rename_is_kept(tree: Path, kind: Callable[[Path], Callable[[], object]]) -> None:
    twin = shutil.copytree(tree, tree.parent / "twin")
    kind(twin / SCRIPT)()
    edited = snapshot(twin, with_record=True)

    with pytest.raises(HandEdited, match=f"{SCRIPT} was changed while it was about to be replaced"):
        apply_phase(tree, 0, PHASE_0, HEADER, disk=Editor("write", tree / SCRIPT, kind(tree / SCRIPT)))

    assert snapshot(tree, with_record=True) == edited


@RENAMING
@pytest.mark.usefixtures("renaming")
def test_a_file_made_right_before_ours_is_kept(tree: Path) -> None:
    (tree / NEW).parent.mkdir(parents=True)
    edit = Editor("write", tree / NEW, lambda: (tree / NEW).write_bytes(b"mine"))
    with pytest.raises(HandEdited, match="was changed while it was about to be replaced"):
        apply_phase(tree, 0, PHASE_0, HEADER, disk=edit)

    assert (tree / NEW).read_bytes() == b"mine"
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]


@RENAMING
@pytest.mark.usefixtures("renaming")
def test_an_edit_right_before_the_deletion_is_kept(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    before = snapshot(tree, with_record=True)

    with pytest.raises(HandEdited, match=f"{NEW} was changed while it was about to be replaced"):
        revert_phase(tree, disk=Editor("delete", tree / NEW, lambda: (tree / NEW).write_bytes(b"mine")))

    assert snapshot(tree, with_record=True) == {**before, NEW: (*before[NEW][:2], b"mine")}


def test_an_edit_right_before_giving_back_is_kept(tree: Path, tmp_path: Path) -> None:
    steps = steps_of(apply_0, tree, tmp_path)
    with pytest.raises(Killed):
        apply_0(tree, Faulty(steps.index("write run.sh", steps.index("write journal.json")), Killed, forever=True))
    with pytest.raises(HandEdited, match=f"{LIB} was changed while it was given back"):
        recover(tree, disk=Editor("write", tree / LIB, lambda: (tree / LIB).write_bytes(b"mine")))

    assert (tree / LIB).read_bytes() == b"mine"
    with pytest.raises(HandEdited, match=f"{LIB} was changed after candle-rocm was interrupted"):
        recover(tree)


def test_killed_between_exchange_and_look_the_edit_is_named(tree: Path) -> None:
    class Dying(Disk):
        def exchange(self, source: Path, target: Path) -> bool:
            if target == tree / LIB:
                target.write_bytes(b"mine")
                super().exchange(source, target)
                raise Killed
            return super().exchange(source, target)

    with pytest.raises(InputOutputError, match="was changed while candle-rocm replaced it"):
        apply_0(tree, Dying())
    slot = Home(tree).transaction / "new/0"
    assert slot.read_bytes() == b"mine"

    with refused(
        tree, HandEdited, ExitCode.CONFLICT, f"{LIB} was changed while candle-rocm replaced it", f"version is in {slot}"
    ):
        recover(tree)

    slot.unlink()
    assert recover(tree)
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]


def test_where_files_cannot_be_exchanged_the_look_comes_right_before(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codegen.record.renames._renameat2", lambda: None)
    edit = in_place(tree / SCRIPT)

    with pytest.raises(HandEdited, match=f"{SCRIPT} was changed while it was about to be replaced"):
        apply_phase(tree, 0, PHASE_0, HEADER, disk=Editor("write", tree / LIB, edit))

    assert (tree / SCRIPT).read_bytes() == PRISTINE[SCRIPT].swapcase()
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]
    assert not (tree / FOLDER).exists()


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_that_cannot_exchange(tree: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> int:
        ctypes.set_errno(code)
        return -1

    before = snapshot(tree, with_record=True)
    monkeypatch.setattr("codegen.record.renames._renameat2", lambda: refuse)

    apply_phase(tree, 0, PHASE_0, HEADER)
    assert (tree / LIB).read_bytes() == PHASE_0[0].after
    assert (tree / NEW).read_bytes() == PHASE_0[1].after
    revert_phase(tree)
    assert snapshot(tree, with_record=True) == before


# Attributes and names of a file


def test_extended_attributes_stay(tree: Path) -> None:
    os.setxattr(tree / LIB, "user.note", b"mine")
    os.setxattr(tree / SCRIPT, "user.empty", b"")

    apply_phase(tree, 0, PHASE_0, HEADER)
    assert os.getxattr(tree / LIB, "user.note") == b"mine"
    os.setxattr(tree / LIB, "user.later", b"too")
    apply_phase(tree, 1, PHASE_1, HEADER)
    revert_phase(tree)
    revert_phase(tree)

    assert sorted(os.listxattr(tree / LIB)) == ["user.later", "user.note"]
    assert os.getxattr(tree / SCRIPT, "user.empty") == b""
    assert os.listxattr(tree / DEVICE) == []


def test_extended_attributes_of_a_deleted_file_come_back(tree: Path) -> None:
    os.setxattr(tree / LIB, "user.note", b"mine")
    apply_phase(tree, 0, PHASE_0, HEADER)
    (tree / LIB).unlink()

    revert_phase(tree, force=True)

    assert os.getxattr(tree / LIB, "user.note") == b"mine"


def test_extended_attributes_come_back_after_an_interruption(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codegen.record.renames._renameat2", lambda: None)
    os.setxattr(tree / LIB, "user.note", b"mine")
    steps = steps_of(apply_0, tree, tmp_path)
    with pytest.raises(Killed):
        apply_0(tree, Faulty(steps.index("write committed.json"), Killed, forever=True))

    recover(tree)

    assert os.getxattr(tree / LIB, "user.note") == b"mine"


def test_a_file_of_several_names_is_refused(tree: Path) -> None:
    os.link(tree / LIB, tree.parent / "other")
    (tree.parent / "other").chmod(0o644)

    with refused(
        tree, Conflict, ExitCode.CONFLICT, f"{tree / LIB} is one of 2 names of the same file (hard links)", "cp -p"
    ):
        apply_phase(tree, 0, PHASE_0, HEADER, force=True)

    (tree.parent / "other").unlink()
    apply_phase(tree, 0, PHASE_0, HEADER)
    os.link(tree / LIB, tree.parent / "other")
    with refused(tree, Conflict, ExitCode.CONFLICT, "is one of 2 names of the same file"):
        revert_phase(tree, force=True)


def test_another_name_of_a_file_that_goes_stays(tree: Path) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    os.link(tree / NEW, tree.parent / "other")

    revert_phase(tree)

    assert not (tree / NEW).exists()
    assert (tree.parent / "other").read_bytes() == PHASE_0[1].after


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"no real full or read-only disk was tested: mount says {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


requires_mount = pytest.mark.skipif(shutil.which("mount") is None, reason="no real disk was tested: no mount program")


@requires_mount
def test_a_really_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=256k") as disk:
        root = grow(disk / "candle", PRISTINE)
        before = snapshot(disk, with_record=True)
        changes = (*PHASE_0, FileChange("big.rs", None, b"x" * 1_000_000))

        with pytest.raises(InputOutputError) as caught:
            apply_phase(root, 0, changes, HEADER)

        assert "No space left on device" in str(caught.value)
        assert "free some space on that disk" in str(caught.value)
        assert snapshot(disk, with_record=True) == before


@requires_mount
def test_a_disk_so_full_that_not_even_the_lock_fits(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=256k,nr_inodes=8") as disk:
        root = grow(disk / "candle", {"lib.rs": b"mod a;\n"})
        number = 0
        try:
            while True:
                (disk / f"filler{number}").write_bytes(b"x" * 4096)
                number += 1
        except OSError:
            before = snapshot(disk, with_record=True)

        with pytest.raises(InputOutputError, match="No space left on device"):
            apply_phase(root, 0, [FileChange("lib.rs", b"mod a;\n", b"mod b;\n")], HEADER)

        assert snapshot(disk, with_record=True) == before


@requires_mount
def test_a_really_read_only_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=256k") as disk:
        root = grow(disk / "candle", PRISTINE)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

        with refused(disk, InputOutputError, ExitCode.IO, "Read-only file system", "mounted read-only"):
            apply_phase(root, 0, PHASE_0, HEADER)

        assert recover(root) is False


AS_SOMEBODY = """
import difflib, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from codegen.errors import InputOutputError
from codegen.patch.changes import FileChange, PhaseChanges
from codegen.record.record import RecordHeader
from codegen.record.transaction import apply_phases
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
changes = (FileChange("a/x.rs", b"x", b"X"), FileChange("b/y.rs", b"y", b"Y"), FileChange("c/z.rs", b"z", b"z"))
header = RecordHeader("0.1.0", "0.11.1", "dummy", "rocm-rs")
try:
    apply_phases(Path(sys.argv[2]), [PhaseChanges(0, "", "", changes)], header)
except InputOutputError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize(
    ("protected", "mode", "text"),
    [
        ("c/z.rs", 0o444, ""),
        (".", 0o555, ".candle-rocm: Permission denied"),
        ("b", 0o555, "b/y.rs: Permission denied"),
        ("b/y.rs", 0o444, "b/y.rs: it is write-protected"),
        ("b/y.rs", 0o000, "cannot read"),
    ],
)
def test_real_permission_bits(protected: str, mode: int, text: str) -> None:
    # Not in tmp_path: its parents are closed to others, and this runs as somebody who is not root.
    with tempfile.TemporaryDirectory() as folder:
        root = grow(Path(folder) / "candle", {"a/x.rs": b"x", "b/y.rs": b"y", "c/z.rs": b"z"})
        for path in (Path(folder), root, *root.rglob("*")):
            path.chmod(0o777)
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
        (root / protected).chmod(mode)

        done = subprocess.run(
            [sys.executable, "-c", AS_SOMEBODY, str(REPOSITORY), str(root)], capture_output=True, text=True, check=False
        )

        if not text:  # a file that does not change may be protected
            assert done.returncode == 0, done.stderr
            assert (root / "b/y.rs").read_bytes() == b"Y"
            return
        assert done.returncode == 1, done.stderr
        assert text in done.stderr
        (root / protected).chmod(0o777)
        assert {path.name for path in root.rglob("*")} == {"a", "b", "c", "x.rs", "y.rs", "z.rs"}
        assert (root / "a/x.rs").read_bytes() == b"x"
        assert (root / "b/y.rs").read_bytes() == b"y"


@pytest.mark.skipif(os.geteuid() != 0, reason="keeping another owner was not tested: only root can")
def test_root_leaves_files_to_their_owner(tree: Path) -> None:
    os.chown(tree / LIB, 65534, 65534)

    apply_phase(tree, 0, PHASE_0, HEADER)
    assert (tree / LIB).stat().st_uid == 65534

    revert_phase(tree)
    assert ((tree / LIB).stat().st_uid, (tree / LIB).stat().st_gid) == (65534, 65534)


def test_flushing_asks_the_system(tree: Path) -> None:
    # `_unsynced` replaces it for every other test in this process.
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from codegen.record.disk import DISK\n"
        "synced = []\n"
        "os.fsync = lambda descriptor: synced.append(os.readlink(f'/proc/self/fd/{descriptor}'))\n"
        "DISK.write(Path(sys.argv[2]), b'x')\n"
        "DISK.sync(Path(sys.argv[2]).parent)\n"
        "print(*synced, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(REPOSITORY), str(tree / "x")], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [str(tree / "x"), str(tree)]


def test_everything_is_on_the_medium_before_the_first_file_is_replaced(tree: Path) -> None:
    synced: list[str] = []

    class Watched(Disk):
        def step(self, verb: str, path: Path) -> None:
            if path == tree / LIB:
                synced.append("--- first file")
            if path.name in ("journal.json", "committed.json") and verb == "write":
                synced.append(f"--- {path.name}")

        def flush(self, descriptor: int) -> None:
            synced.append(os.path.relpath(Path(f"/proc/self/fd/{descriptor}").readlink(), tree))

    apply_phase(tree, 0, PHASE_0[:2], HEADER, disk=Watched())

    work = f"{FOLDER}/local/transaction"
    first, commit = synced.index("--- first file"), synced.index("--- committed.json")
    assert set(synced[:first]) >= {
        FOLDER,
        work,
        f"{FOLDER}/local",
        f"{work}/originals",
        f"{work}/originals/{sha256(PRISTINE[LIB])}",
        f"{work}/new",
        f"{work}/new/0",
        f"{work}/new/1",
        f"{work}/record.json",
        f"{work}/draft.json",
    }
    assert work in synced[synced.index("--- journal.json") : first], (
        "the journal's name, or nothing would be rolled back"
    )
    assert set(synced[first:commit]) >= {"candle-core/src", "candle-core/src/rocm/backend"}
    assert FOLDER in synced[commit:]
