"""An apply that cannot go on: a killed process, a full disk, a disk that is read-only. The tree is as it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from made_up import candle_tree, tree_hash

from codegen.record import disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from in_process import CommandLine

KILLED = """
import os, signal, sys
from codegen.cli.main import run
from codegen.record.disk import Disk

left = int(sys.argv[1])

def step(self, verb, path):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

Disk.step = step
sys.exit(run(sys.argv[2:]))
"""
"""`candle-rocm` that kills itself before its n-th change of the disk."""


def killed_after(steps: int, *arguments: str | Path) -> int:
    """Run the command in a process that is killed after so many changes of the disk; the exit status."""
    command = [sys.executable, "-c", KILLED, str(steps), *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False).returncode


def count_steps(candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """How many changes of the disk a command makes."""
    steps = 0

    def step(self: disk.Disk, verb: str, path: Path) -> None:
        nonlocal steps
        steps += 1

    with monkeypatch.context() as patch:
        patch.setattr(disk.Disk, "step", step)
        candle_rocm.ok(*arguments)
    return steps


@pytest.mark.parametrize("share", [0.02, 0.3, 0.55, 0.7, 0.85, 0.98])
def test_an_apply_that_is_killed(
    candle: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float
) -> None:
    pristine = tree_hash(candle)
    twin = shutil.copytree(candle, tmp_path / "twin")
    steps = count_steps(candle_rocm, monkeypatch, "apply", twin)
    patched = tree_hash(twin)

    assert killed_after(int(steps * share), "apply", candle) == -9
    assert (candle / ".candle-rocm").is_dir(), "the record's folder is there at least"

    refused_by_readers(candle, candle_rocm)
    again = shutil.copytree(candle, tmp_path / "again")
    candle_rocm.ok("apply", candle)
    assert tree_hash(candle) == patched
    candle_rocm.ok("revert", candle)
    assert tree_hash(candle) == pristine
    settled = candle_rocm.ok("revert", again)
    assert "an interrupted command was completed or undone" in settled.stderr
    assert tree_hash(again) == pristine


def refused_by_readers(candle: Path, candle_rocm: CommandLine) -> None:
    """Commands that only read write nothing: they say that something waits, and what settles it."""
    before = tree_hash(candle)
    for command in ("status", "check", "scan", "diff"):
        refused = candle_rocm(command, candle)
        assert (refused.code, refused.stdout) == (5, "")
        assert f"an apply, revert or upgrade of {candle} was interrupted\n" in refused.stderr
        assert "= help: undo it with `candle-rocm revert`" in refused.stderr
    assert tree_hash(candle) == before


@pytest.mark.parametrize("share", [0.1, 0.6, 0.9])
def test_a_revert_that_is_killed(
    candle: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, share: float
) -> None:
    pristine = tree_hash(candle)
    candle_rocm.ok("apply", candle)
    twin = shutil.copytree(candle, tmp_path / "twin")
    steps = count_steps(candle_rocm, monkeypatch, "revert", twin)

    assert killed_after(int(steps * share), "revert", candle) == -9

    refused_by_readers(candle, candle_rocm)
    candle_rocm.ok("revert", candle)
    assert tree_hash(candle) == pristine


def test_a_forced_apply_that_is_killed(candle: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    candle_rocm.ok("apply", candle)
    patched = tree_hash(candle)
    (candle / "candle-core" / "src" / "rocm_backend" / "mod.rs").write_text("// mine\n")

    assert killed_after(60, "apply", candle, "--force") == -9
    candle_rocm.ok("apply", candle, "--force")

    assert tree_hash(candle) == patched


# --- disks -------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no real full or read-only disk was tested: mount says {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


requires_mount = pytest.mark.skipif(shutil.which("mount") is None, reason="no real disk was tested: no mount program")


@requires_mount
@pytest.mark.parametrize("free", [0, 8, 64, 160])
def test_a_disk_that_fills_up(candle_rocm: CommandLine, candle: Path, tmp_path: Path, free: int) -> None:
    """`free` kilobytes: none at all, and less than all phases take."""
    candle_rocm.ok("diff", candle)
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=16M", "tmpfs") as small:
        tree = candle_tree(small / "candle")
        with (small / "filler").open("wb") as filler:
            filler.write(b"x" * (shutil.disk_usage(small).free - free * 1024))
        pristine = tree_hash(tree)

        full = candle_rocm("apply", tree)

        assert (full.code, full.stdout) == (6, "")
        assert "No space left on device" in full.stderr
        assert "  = help: free some space on that disk, then run the command again" in full.stderr
        assert tree_hash(tree) == pristine

        (small / "filler").unlink()
        candle_rocm.ok("apply", tree)
        candle_rocm.ok("revert", tree)
        assert tree_hash(tree) == pristine


@requires_mount
def test_a_read_only_tree(candle_rocm: CommandLine, candle: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "view", "--bind", str(candle)) as view:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(candle), str(view)], check=True, capture_output=True)
        pristine = tree_hash(view)

        refused = candle_rocm("apply", view)

        assert (refused.code, refused.stdout) == (6, "")
        assert "Read-only file system" in refused.stderr
        assert "mounted read-only: work on a copy of the tree, or mount it writable" in refused.stderr
        assert tree_hash(view) == pristine
        assert candle_rocm.ok("scan", view, "--json").document["summary"]["states"]["unknown"] == 0
        candle_rocm.ok("diff", view)
        candle_rocm.ok("generate", view, "--out", tmp_path / "out")
        assert candle_rocm("check", view).code == 1


@requires_mount
def test_generate_to_a_full_disk_keeps_what_is_there(candle_rocm: CommandLine, candle: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=16M", "tmpfs") as small:
        candle_rocm.ok("generate", candle, "--out", small / "out")
        before = tree_hash(small)
        with (small / "filler").open("wb") as filler:
            filler.write(b"x" * shutil.disk_usage(small).free)

        full = candle_rocm("generate", candle, "--gating", "cfg", "--out", small / "out")

        assert (full.code, full.stdout) == (6, "")
        assert full.stderr == (
            f"input/output error: cannot write {small}/out: No space left on device\n"
            "  = help: free disk space and check the permissions there, or choose another folder with --out\n"
        )
        (small / "filler").unlink()
        assert tree_hash(small) == before
