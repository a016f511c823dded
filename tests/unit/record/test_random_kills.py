"""Killed at a random call of the system, a tree comes back to exactly before or exactly after: no byte is lost.

`KILLS` in the environment says how many kills there are, `KILL_SEED` which.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

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
    REPOSITORY,
    SCRIPT,
    Snapshot,
    apply_phase,
    candle,
    phase,
    revert_phase,
    snapshot,
    start_0,
    start_01,
    start_edited,
    unsynced,
)

from codegen.patch.changes import FileChange
from codegen.patch.undo import undo_edits
from codegen.record.home import Home
from codegen.record.record import Declared, load_record, sha256
from codegen.record.swaps import Renewal
from codegen.record.texts import pristine_overlay
from codegen.record.transaction import declare_edits, recover
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KILLS = int(os.environ.get("KILLS", "560"))
SEED = int(os.environ.get("KILL_SEED", "0"))
OWN = b"// mine\n" + PHASE_0[0].after
LATER = phase(5, [FileChange(LIB, PHASE_0[0].after, PHASE_0[0].after + b"\r\nmod later;\r\n")])
DECLARED = Declared(LIB, sha256(PHASE_0[0].after), sha256(OWN), undo_edits(PHASE_0[0].after, OWN))


def renewal() -> Renewal:
    """Another Candle below one phase: a file is another one, one is new, one is gone, and the edit stays."""
    before = b"mod device;\r\nmod more;\r\n"
    after = before + b"mod rocm;\r\n"
    now = {LIB: OWN, NEW: PHASE_1[1].after, SCRIPT: PHASE_1[3].after, DEVICE: PHASE_1[0].after, "README.md": b""}
    final = {
        LIB: b"// mine\n" + after,
        "candle-core/src/more.rs": b"pub mod more;\n",
        **dict.fromkeys((NEW, SCRIPT, DEVICE, "README.md", "candle-core/tests/rocm.rs")),
    }
    found = {path: sha256(now[path]) if path in now else None for path in final} | {
        "candle-core/tests/rocm.rs": sha256(b"")
    }
    return Renewal((phase(0, [FileChange(LIB, before, after)]),), {LIB: before}, final, found, frozenset({LIB}))


RENEWAL = renewal()


def start_own(root: Path) -> None:
    start_01(root)
    (root / LIB).write_bytes(OWN)


def start_declared(root: Path) -> None:
    start_own(root)
    declare_edits(root, [DECLARED])


def start_clone(root: Path) -> None:
    """As git gives it to others: nothing local, but for what is no text and cannot be derived."""
    start_declared(root)
    for path in Home(root).originals.iterdir():
        if path.name != sha256(PHASE_0[2].after):
            path.unlink()


def start_half(root: Path) -> None:
    """As `git checkout .` leaves it."""
    start_01(root)
    (root / LIB).write_bytes(PHASE_0[0].before or b"")
    (root / SCRIPT).write_bytes(PHASE_0[2].before or b"")


def no_start(root: Path) -> None:
    """Nothing applied."""


Operation = tuple[str, tuple[Any, ...], dict[str, Any]]
SCENARIOS: dict[str, tuple[Callable[[Path], None], Operation]] = {
    "apply": (no_start, ("apply_phases", (BOTH, HEADER), {})),
    "apply-more": (start_0, ("apply_phases", (BOTH[1:], HEADER), {})),
    "revert": (start_01, ("revert_phases", (), {})),
    "revert-one": (start_01, ("revert_phases", (), {"down_to": 1})),
    "apply-forced": (start_edited, ("apply_phases", (BOTH, HEADER), {"again": True, "force": True})),
    "apply-half": (start_half, ("apply_phases", (BOTH, HEADER), {"again": True})),
    "declare": (start_own, ("declare_edits", ([DECLARED],), {})),
    "undeclare": (start_declared, ("declare_edits", ([],), {})),
    "apply-declared": (start_declared, ("apply_phases", ([LATER], HEADER), {})),
    "revert-declared": (start_declared, ("revert_phases", (), {})),
    "revert-clone": (start_clone, ("revert_phases", (), {})),
    "upgrade": (start_declared, ("upgrade_phases", (RENEWAL, HEADER), {})),
    "revert-keeping": (start_own, ("revert_phases", (), {"keep_edits": True, "force": True})),
}
EACH = -(-KILLS // len(SCENARIOS))


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with unsynced():
        yield


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def lasting(root: Path) -> Snapshot:
    """The tree without the lock and the folders of what is kept: these stay where they were made."""
    local = f"{FOLDER}/local"
    passing = {FOLDER, local, f"{local}/lock", f"{local}/.gitignore", f"{local}/originals"}
    return {name: entry for name, entry in snapshot(root, with_record=True).items() if name not in passing}


def killed(tmp_path: Path, tasks: list[tuple[Path, Operation, int | None]]) -> list[int]:
    """What became of each: how many calls it made, or -9."""
    scratch = tmp_path / "killed"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    program = [sys.executable, "-S", str(Path(__file__).with_name("kill.py")), str(REPOSITORY), str(scratch)]
    packages = os.pathsep.join(path for path in sys.path if path)
    ran = subprocess.run(
        program,
        input=pickle.dumps(tasks),
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": packages},
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stderr == b"", "no process that was killed says anything"
    return [int(line) for line in ran.stdout.split()]


@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_at_random_calls_no_byte_is_lost(tmp_path: Path, name: str) -> None:
    prepare, operation = SCENARIOS[name]
    tree = candle(tmp_path)
    prepare(tree)
    before = lasting(tree)
    (calls,) = killed(tmp_path, [(tree, operation, None)])
    after = lasting(tmp_path / "killed" / "0")
    assert calls > 100
    assert after != before
    dice = Random(f"{SEED} {name}")
    points = sorted(dice.sample(range(calls), min(EACH, calls)))

    ended = killed(tmp_path, [(tree, operation, at) for at in points])

    assert ended == [-9] * len(points)
    outcomes = []
    for number, at in enumerate(points):
        root = tmp_path / "killed" / str(number)
        recover(root)
        found = lasting(root)
        assert found in (before, after), f"{name}, killed at call {at}"
        outcomes.append(found == after)
        record = load_record(root)
        if record is not None:
            pristine_overlay(root, record)
        assert recover(root) is False
    assert outcomes == sorted(outcomes), "what comes later is done later"
    print(f"{name}: {len(points)} kills at {calls} calls, {sum(outcomes)} after, {outcomes.count(False)} before")


def test_there_are_at_least_five_hundred_kills() -> None:
    assert EACH * len(SCENARIOS) >= min(KILLS, 500)


def test_a_kill_is_seen(tmp_path: Path) -> None:
    """Without recovery, trees are found neither before nor after: the kills are in the midst of it."""
    tree = candle(tmp_path)
    before = lasting(tree)
    operation = SCENARIOS["apply"][1]
    (calls,) = killed(tmp_path, [(tree, operation, None)])
    after = lasting(tmp_path / "killed" / "0")

    killed(tmp_path, [(tree, operation, at) for at in range(0, calls, calls // 20)])

    trees = [lasting(root) for root in (tmp_path / "killed").iterdir()]
    assert sum(seen not in (before, after) for seen in trees) > 10


def test_the_own_edit_is_in_the_tree_after_it_all(tmp_path: Path) -> None:
    tree = candle(tmp_path)
    start_declared(tree)
    apply_phase(tree, 5, LATER.changes, HEADER)

    assert (tree / LIB).read_bytes() == b"// mine\n" + LATER.changes[0].after
    revert_phase(tree)
    assert (tree / LIB).read_bytes() == OWN
