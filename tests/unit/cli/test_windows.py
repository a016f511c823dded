"""The commands on a Python without what it lacks on Windows (tests/windows/sitecustomize.py), with this system's paths.

Nobody has run them on Windows itself. Trees with the line ends of Windows are here as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_up import candle_tree, replace_in, tree_hash

from codegen.errors import ExitCode
from codegen.record import lock
from codegen.record.disk import DISK

WINDOWS = Path(__file__).parents[2] / "windows"
TOLD = "as on Windows\n"


def on_windows(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`candle-rocm`, which says first that it ran without what Windows lacks."""
    command = [sys.executable, "-m", "codegen", *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(WINDOWS)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.stderr.startswith(TOLD), done.stderr
    return done


def ok(*arguments: str | Path) -> str:
    done = on_windows(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_windows_line_ends(root: Path) -> Path:
    for path in root.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return root


def test_a_tree_is_patched_checked_and_taken_back(tmp_path: Path) -> None:
    here, there = candle_tree(tmp_path / "here"), candle_tree(tmp_path / "there")
    pristine = tree_hash(here)
    usual = [sys.executable, "-m", "codegen", "apply", str(here)]
    subprocess.run(usual, capture_output=True, check=True)

    assert "0 not applied" in ok("scan", there)
    assert "+++ b/candle-core/src/device.rs" in ok("diff", there)
    ok("generate", there, "--out", tmp_path / "generated")
    assert "phase 7 examples" in ok("apply", there)

    assert tree_hash(there) == tree_hash(here), "as with what Linux has"
    assert ok("check", there) == "up to date\n"
    assert "phase 7" in ok("status", there)
    ok("report", there, "--html", tmp_path / "report.html")
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    ok("revert", there, "--phase", "4")
    ok("apply", there)
    assert tree_hash(there) == tree_hash(here)
    ok("revert", there)
    assert tree_hash(there) == pristine
    assert not (there / ".candle-rocm").exists()


def test_line_ends_stay_as_the_tree_has_them(tmp_path: Path) -> None:
    """What git makes of a checkout there: edited files keep their ends in each line, and every byte comes back."""
    unix, windows = candle_tree(tmp_path / "unix"), with_windows_line_ends(candle_tree(tmp_path / "windows"))
    pristine = tree_hash(windows)

    ok("apply", unix)
    ok("apply", windows)

    edited = 0
    for path in (path for path in windows.rglob("*.rs") if path.is_file()):
        wanted, content = (unix / path.relative_to(windows)).read_bytes(), path.read_bytes()
        if b"\r\n" in content:
            assert content == wanted.replace(b"\n", b"\r\n"), path
            edited += content.count(b"rocm") > 0
        else:
            assert content == wanted, path
    assert edited > 20
    assert ok("check", windows) == "up to date\n"
    ok("revert", windows)
    assert tree_hash(windows) == pristine


def test_one_at_a_time_writes_a_tree(tmp_path: Path) -> None:
    tree = candle_tree(tmp_path / "candle")
    before = tree_hash(tree)

    with lock.locked(tree.resolve(), DISK):
        refused = on_windows("apply", tree)

    assert refused.returncode == ExitCode.CONFLICT
    assert "another candle-rocm is changing" in refused.stderr
    assert tree_hash(tree) == before


@pytest.mark.parametrize("place", ["candle-core/src/device.rs", "candle-core/src"])
def test_a_link_in_the_tree_is_refused(place: str, tmp_path: Path) -> None:
    tree, outside = candle_tree(tmp_path / "candle"), tmp_path / "outside"
    (tree / place).rename(outside)
    (tree / place).symlink_to(outside)
    found = outside.read_bytes() if outside.is_file() else tree_hash(outside)

    refused = on_windows("apply", tree)

    assert refused.returncode not in (0, ExitCode.BUG), refused.stderr
    assert place.rpartition("/")[2] in refused.stderr
    assert (outside.read_bytes() if outside.is_file() else tree_hash(outside)) == found


def test_edits_by_hand_are_kept(tmp_path: Path) -> None:
    tree = candle_tree(tmp_path / "candle")
    ok("apply", tree)
    replace_in(tree / "candle-core/src/dummy_rocm_backend.rs", "//!", "//! Mine.\n//!", count=1)

    refused = on_windows("revert", tree)

    assert refused.returncode == ExitCode.CONFLICT
    assert "candle-core/src/dummy_rocm_backend.rs" in refused.stderr
