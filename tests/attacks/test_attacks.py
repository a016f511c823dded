"""Thousands of hostile trees: nothing outside of them is read or written, no bug, no long wait, and readers only read.

`ATTACKS` in the environment says how many; `ATTACKS=1 ATTACK_SEED=17` repeats the one that a failure names.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import hostile_records
import hostile_trees
import pytest
from arena import Arena, appearance
from canary import Canary
from some import some

from codegen.record.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from in_process import CommandLine

ATTACKS: tuple[Callable[[Random, Arena], None], ...] = (
    *hostile_records.ATTACKS * len(hostile_trees.ATTACKS),
    *hostile_trees.ATTACKS,
)
"""Half of the attacks are those of each module. Modules with attacks of other kinds are added here."""
COUNT = int(os.environ.get("ATTACKS", "2000"))
FIRST = int(os.environ.get("ATTACK_SEED", "0"))
BLOCK = 50
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    """Attacks need no medium to wait for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "flush", lambda disk, descriptor: None)
        yield


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name).resolve()


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BLOCK))
def test_hostile_trees(first: int, folder: Path, candle_rocm: CommandLine) -> None:
    for seed in some(range(first, min(first + BLOCK, FIRST + COUNT))):
        dice = Random(seed)
        arena = Arena.build(folder / str(seed))
        dice.choice(ATTACKS)(dice, arena)
        arena.canary.forget()
        assert arena.canary.touched() == [], f"attack {seed} itself changed the canary"

        assert arena.attack(candle_rocm) == [], f"ATTACKS=1 ATTACK_SEED={seed}"


@pytest.mark.parametrize(
    ("act", "trace"),
    [
        (lambda root: (root / "id_rsa").read_bytes(), "id_rsa: read"),
        (lambda root: list((root / "deep").iterdir()), "deep: read"),
        (lambda root: (root / "new" / "0").write_bytes(b"x"), "new/0: content"),
        (lambda root: (root / "id_rsa").chmod(0o644 ^ 0o100), "id_rsa: mode"),
        (lambda root: (root / "empty" / "e1").rmdir(), "empty/e1: gone"),
        (lambda root: (root / "x").write_bytes(b""), "x: new"),
        (lambda root: os.utime(root / "id_rsa"), "id_rsa: written"),
        (lambda root: os.link(root / "id_rsa", root.parent / "x"), "id_rsa: links"),
    ],
)
def test_the_canary_sees_everything(folder: Path, act: Callable[[Path], object], trace: str) -> None:
    canary = Canary.plant(folder / "outside")
    assert canary.touched() == []

    act(canary.root)

    assert trace in canary.touched()


def test_the_arena_sees_what_is_written_in_the_tree(folder: Path) -> None:
    arena = Arena.build(folder)
    before = appearance(arena.tree)

    (arena.tree / "candle-core/src/lib.rs").write_text("pub mod other;\n")

    assert appearance(arena.tree) != before
