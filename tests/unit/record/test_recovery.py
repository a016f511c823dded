"""Killed at any step, a tree comes back to exactly before or exactly after."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from phased import (
    BOTH,
    HEADER,
    LIB,
    MEMORY,
    OPERATIONS,
    PHASE_0,
    PRISTINE,
    REPOSITORY,
    SCRIPT,
    Faulty,
    Killed,
    apply_0,
    apply_01,
    apply_1,
    apply_again,
    apply_phase,
    candle,
    linked,
    locked,
    refused,
    revert,
    revert_all,
    revert_phase,
    snapshot,
    start_01,
    steps_of,
    unsynced,
)
from some import some

from codegen.errors import Conflict, ExitCode, HandEdited
from codegen.patch.changes import FileChange
from codegen.record.disk import DISK, Disk
from codegen.record.home import Home
from codegen.record.record import sha256
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


# Killed


ARGUMENTS: dict[Callable[[Path, Disk], object], tuple[tuple[object, ...], dict[str, object]]] = {
    apply_0: ((BOTH[:1], HEADER), {}),
    apply_1: ((BOTH[1:], HEADER), {}),
    apply_01: ((BOTH, HEADER), {}),
    apply_again: ((BOTH, HEADER), {"again": True, "force": True}),
    revert_all: ((), {}),
}

KILLED = """
import os, pickle, shutil, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from codegen.record.disk import Disk
from codegen.record.transaction import apply_phases, revert_phases

class Fatal(Disk):
    def __init__(self, at):
        self.left = at
    def flush(self, descriptor):
        pass
    def step(self, verb, path):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

start, scratch = Path(sys.argv[2]), Path(sys.argv[3])
arguments, options = pickle.load(sys.stdin.buffer)
operation = apply_phases if arguments else revert_phases
at = 0
while True:
    root = shutil.copytree(start, scratch / str(at), copy_function=shutil.copy)
    child = os.fork()
    if child == 0:
        operation(root, *arguments, **options, disk=Fatal(at))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
    assert os.WTERMSIG(status) == signal.SIGKILL
    at += 1
"""


@OPERATIONS
def test_killed_at_any_step_the_tree_recovers(
    tree: Path,
    tmp_path: Path,
    prepare: Callable[[Path], None],
    operation: Callable[[Path, Disk], object],
) -> None:
    prepare(tree)
    before = snapshot(tree, with_record=True)
    done = shutil.copytree(tree, tmp_path / "done")
    operation(done, DISK)
    after = snapshot(done, with_record=True)
    scratch = tmp_path / "killed"
    scratch.mkdir()

    ran = subprocess.run(
        [sys.executable, "-S", "-c", KILLED, str(REPOSITORY), str(tree), str(scratch)],
        input=pickle.dumps(ARGUMENTS.get(operation, ((), {"down_to": 1 if prepare is start_01 else 0}))),
        capture_output=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    trees = sorted(scratch.iterdir(), key=lambda root: int(root.name))
    assert len(trees) == len(steps_of(operation, tree, tmp_path)) + 1
    outcomes = []
    for root in trees:
        untouched = snapshot(root, with_record=True) in (before, after)
        assert recover(root) != untouched, root.name
        found = snapshot(root, with_record=True)
        assert found in (before, after), root.name
        outcomes.append(found == after)
        assert recover(root) is False
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert snapshot(tree, with_record=True) == before


@OPERATIONS
def test_killed_while_recovering_the_tree_recovers(
    tree: Path, tmp_path: Path, prepare: Callable[[Path], None], operation: Callable[[Path, Disk], object]
) -> None:
    prepare(tree)
    before = snapshot(tree, with_record=True)
    done = shutil.copytree(tree, tmp_path / "done")
    operation(done, DISK)
    allowed = (before, snapshot(done, with_record=True))
    steps = steps_of(operation, tree, tmp_path)
    journal = steps.index("write journal.json")
    for first in (journal + 3, steps.index("write committed.json") + 3):
        second = 0
        while True:
            root = linked(tree, tmp_path / f"{first}-{second}")
            with pytest.raises(Killed):
                operation(root, Faulty(first, Killed, forever=True))
            disk = Faulty(second, Killed, forever=True)
            try:
                recover(root, disk=disk)
            except Killed:
                recover(root)
            assert snapshot(root, with_record=True) in allowed, (first, second)
            if not disk.struck:
                break
            second += 1


def interrupted(tree: Path, tmp_path: Path, at: str) -> None:
    steps = steps_of(apply_0, tree, tmp_path)
    with pytest.raises(Killed):
        apply_0(tree, Faulty(steps.index(at, steps.index("write journal.json")), Killed, forever=True))


def test_the_next_apply_recovers_first(tree: Path, tmp_path: Path) -> None:
    before = snapshot(tree, with_record=True)
    interrupted(tree, tmp_path, "write run.sh")
    assert (tree / LIB).read_bytes() == PHASE_0[0].after

    apply_phase(tree, 0, PHASE_0, HEADER)
    revert_phase(tree)

    assert snapshot(tree, with_record=True) == before


def test_a_tree_without_interrupted_transaction_is_not_written(tree: Path) -> None:
    assert recover(tree) is False
    assert not (tree / FOLDER).exists()

    apply_phase(tree, 0, PHASE_0, HEADER)
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}

    with locked(tree):
        assert recover(tree) is False
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*") if path != Home(tree).lock} == {
        path: time for path, time in before.items() if path != Home(tree).lock
    }


def test_edits_made_after_the_interruption_are_not_lost(tree: Path, tmp_path: Path) -> None:
    interrupted(tree, tmp_path, "write run.sh")
    (tree / LIB).write_bytes(b"mod mine;\n")

    with refused(
        tree,
        HandEdited,
        ExitCode.CONFLICT,
        f"{LIB} was changed after candle-rocm was interrupted",
        f"its old text is in {Home(tree).transaction / 'originals' / sha256(PRISTINE[LIB])}",
        "move your version away or restore that one",
    ):
        recover(tree)

    (tree / LIB).write_bytes(PRISTINE[LIB])
    assert recover(tree)
    assert not (tree / FOLDER).exists()


def test_a_forced_recovery_overwrites_such_edits(tree: Path, tmp_path: Path) -> None:
    before = snapshot(tree, with_record=True)
    interrupted(tree, tmp_path, "write run.sh")
    (tree / LIB).write_bytes(b"mod mine;\n")

    assert recover(tree, force=True)
    assert snapshot(tree, with_record=True) == before


def test_what_was_rolled_back_is_new_to_cargo(tree: Path, tmp_path: Path) -> None:
    interrupted(tree, tmp_path, "write run.sh")
    kept = Home(tree).transaction / "originals" / sha256(PRISTINE[LIB])
    os.utime(kept, (1_000_000_000, 1_000_000_000))

    assert recover(tree)
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]
    assert (tree / LIB).stat().st_mtime > 1_000_000_000


def test_edits_of_files_that_do_not_change_are_kept(tree: Path, tmp_path: Path) -> None:
    unchanged = FileChange("README.md", b"", b"")
    journal = steps_of(apply_0, tree, tmp_path).index("write journal.json")
    for at in some(range(journal, journal + 12)):
        root = shutil.copytree(tree, tmp_path / str(at))
        with pytest.raises(Killed):
            apply_phase(root, 0, [*PHASE_0, unchanged], HEADER, disk=Faulty(at, Killed, forever=True))
        (root / "README.md").write_bytes(b"mine")

        assert recover(root)
        assert (root / "README.md").read_bytes() == b"mine"


def test_edits_made_while_clearing_away_are_kept(tree: Path, tmp_path: Path) -> None:
    # Every file is rolled back, but a part of the journal's folder is left: edits are no longer its business.
    interrupted(tree, tmp_path, "write run.sh")
    root = shutil.copytree(tree, tmp_path / "count")
    counting = Faulty(10_000, Killed)
    recover(root, disk=counting)
    at = counting.steps.index("delete journal.json") + 3
    with pytest.raises(Killed):
        recover(tree, disk=Faulty(at, Killed, forever=True))
    (tree / LIB).write_bytes(b"mine")

    assert recover(tree)
    assert (tree / LIB).read_bytes() == b"mine"
    assert not (tree / FOLDER).exists()


def test_the_next_revert_recovers_first(tree: Path, tmp_path: Path) -> None:
    before = snapshot(tree, with_record=True)
    apply_phase(tree, 0, PHASE_0, HEADER)
    steps = steps_of(revert, tree, tmp_path)
    at = steps.index("write run.sh", steps.index("write journal.json"))
    with pytest.raises(Killed):
        revert(tree, Faulty(at, Killed, forever=True))
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]

    assert revert_phase(tree) is None
    assert snapshot(tree, with_record=True) == before


def test_edits_of_files_not_yet_reached_are_kept(tree: Path, tmp_path: Path) -> None:
    interrupted(tree, tmp_path, "write run.sh")
    (tree / SCRIPT).write_bytes(b"mine")

    assert recover(tree)
    assert (tree / SCRIPT).read_bytes() == b"mine"
    assert (tree / LIB).read_bytes() == PRISTINE[LIB]


X = {"path": "x", "old": None, "new": "0" * 64, "kept": None}
Y = {"path": "y", "old": "1" * 64, "new": "0" * 64, "kept": "old/0"}


def journal(**changes: object) -> bytes:
    usual: dict[str, object] = {"schema_version": 2, "files": [X], "made": [], "dropped": [], "taken_back": []}
    document = {**usual, "applied": [], "recorded": False, "backup": None, **changes}
    return json.dumps({key: value for key, value in document.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "journal.json:1:2: corrupt: Expecting property name"),
        (b"[]", "corrupt: not a JSON object"),
        (b"{}", "'schema_version' is missing"),
        (journal(files=...), "'files' is missing"),
        (journal(schema_version=1), "the record has schema 1"),
        (journal(comment=1), '"comment" is not a key that candle-rocm writes'),
        (journal(files=[{**X, "path": "../x"}]), "'../x' is not a path in the tree"),
        (journal(files=[{**X, "comment": ""}]), '"comment" is not a key that candle-rocm writes'),
        (journal(files=[{**X, "new": None}]), "'old' and 'new' of the file 0 are the same"),
        (journal(files=[{**X, "new": "../x"}]), '"../x" is not a SHA-256'),
        (journal(files=[X, X]), "the paths of 'files' are not in ascending order"),
        (journal(files=[{**X, "kept": "old/0"}]), "'kept' is \"old/0\", which does not go with"),
        (journal(files=[{**Y, "kept": None}]), "'kept' is null, which does not go with"),
        (journal(files=[{**Y, "kept": "../y"}]), "'kept' is \"../y\", which does not go with"),
        (journal(files=[{**Y, "kept": "old/1"}]), "'kept' is \"old/1\", which does not go with"),
        (journal(files=[{**Y, "kept": f"originals/{'0' * 64}"}]), "which does not go with"),
        (
            journal(
                files=[{**Y, "kept": f"originals/{'1' * 64}"}, {**Y, "path": "z", "kept": f"originals/{'1' * 64}"}]
            ),
            "the places of 'files' are not in ascending order",
        ),
        (journal(backup=0), "'backup' is 0, not the number of a backup"),
        (journal(backup="../x"), "'backup' is \"../x\", not of type int"),
        (journal(backup=10**9), "'backup' is 1000000000, not the number of a backup"),
        (journal(taken_back=[-1]), "-1 is not the number of a phase"),
        (journal(taken_back=["../0"]), '"../0" is not the number of a phase'),
        (journal(taken_back=[1, 0]), "'taken_back' are not in ascending order"),
        (journal(applied=[10**400]), "is not the number of a phase"),
        (journal(applied=[0]), "'recorded' is false, which does not go with 'applied'"),
        (journal(recorded=...), "'recorded' is missing"),
        (journal(made=["src"]), "'made' has \"src\", in which it makes no file"),
        (journal(made=["../x"]), "'../x' is not a path in the tree"),
    ],
)
def test_a_corrupt_journal_is_said_so(tree: Path, tmp_path: Path, content: bytes, text: str) -> None:
    interrupted(tree, tmp_path, "write run.sh")
    (Home(tree).transaction / "journal.json").write_bytes(content)

    with refused(tree, Conflict, ExitCode.CONFLICT, text):
        recover(tree)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (journal(taken_back=[1], recorded=True), "'taken_back' has 1, which is not applied"),
        (
            journal(dropped=["tools"], taken_back=[0]),
            "'dropped' has \"tools\", which none of these phases made, and from which nothing is deleted",
        ),
        (
            journal(dropped=["tools"]),
            "'dropped' has \"tools\", which none of these phases made, and from which nothing is deleted",
        ),
        (journal(), "it leaves the phases [] instead of [0]"),
        (journal(applied=[1], recorded=True), "it leaves the phases [0] instead of [0, 1]"),
    ],
)
def test_a_committed_journal_that_does_not_go_with_the_record(tree: Path, content: bytes, text: str) -> None:
    apply_phase(tree, 0, PHASE_0, HEADER)
    Home(tree).transaction.mkdir()
    (Home(tree).transaction / "committed.json").write_bytes(content)
    if json.loads(content)["recorded"]:
        shutil.copy(Home(tree).record, Home(tree).transaction / "record.json")

    with refused(tree, Conflict, ExitCode.CONFLICT, "committed.json", text):
        recover(tree)


def test_a_committed_journal_without_any_record(tree: Path) -> None:
    Home(tree).transaction.mkdir(parents=True)
    (Home(tree).transaction / "committed.json").write_bytes(journal(recorded=True))
    (Home(tree).ignore).write_bytes(b"*\n")
    Home(tree).lock.write_bytes(b"")

    with refused(tree, Conflict, ExitCode.CONFLICT, "'recorded' is true, but there is no record"):
        recover(tree)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_bytes_are_checked_before_they_are_given_back(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr("codegen.record.renames._renameat2", lambda: None)
    interrupted(tree, tmp_path, "write run.sh")
    kept = Home(tree).transaction / "originals" / sha256(PRISTINE[LIB])
    if damage == "missing":
        kept.unlink()
    else:
        kept.write_bytes(b"mod evil;\n")

    with refused(tree, Conflict, ExitCode.CONFLICT, f"{kept} is {damage}: it holds what {LIB} was", "git checkout"):
        recover(tree)


def test_what_was_exchanged_stands_in_for_damaged_bytes(tree: Path, tmp_path: Path) -> None:
    before = snapshot(tree, with_record=True)
    interrupted(tree, tmp_path, "write run.sh")
    (Home(tree).transaction / "originals" / sha256(PRISTINE[LIB])).write_bytes(b"mod evil;\n")

    assert recover(tree)
    assert snapshot(tree, with_record=True) == before


def test_folders_of_the_journal_that_nobody_makes_so_deep(tree: Path) -> None:
    deep = Home(tree).transaction
    for _ in range(70):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (Home(tree).ignore).write_bytes(b"*\n")
    Home(tree).lock.write_bytes(b"")

    with refused(tree, Conflict, ExitCode.CONFLICT, "transaction has more than 64 folders in each other"):
        recover(tree)
