"""A made-up fork of the newest release: its draft, reviewed, makes a tree that compiles with `rocm` on and off."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash
from made_up_fork import make_fork

from releases.command_line import candle_rocm

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

CRATES = ("candle-core", "candle-nn", "candle-probe")
FILL_IN = re.compile(r'"FILL IN: (?:[^"\\]|\\.)*"')


def test_a_fork_is_patched_compiles_and_comes_back(newest: str, work: Path, tmp_path: Path) -> None:
    fork = tmp_path / "fork"
    assert candle_rocm("fetch", newest, "--to", fork).code == 0
    make_fork(fork)

    scanned = candle_rocm("scan", fork, "--json")
    assert scanned.code == 4
    unknown = scanned.document["summary"]["states"]["unknown"]
    print(f"{unknown} unknown sites")
    assert unknown >= 24
    draft = candle_rocm("scan", fork, "--suggest").stdout
    specs = fork / "candle-rocm.yaml"
    specs.write_text(draft, encoding="utf-8")
    assert candle_rocm("spec", "lint", fork).code == 3
    specs.write_text(FILL_IN.sub("the fork does without it on ROCm", draft), encoding="utf-8")
    linted = candle_rocm("spec", "lint", fork)
    assert linted.code == 0, linted.stderr
    assert candle_rocm("scan", fork).code == 0

    before = tree_hash(fork)
    applied = candle_rocm("apply", fork)
    assert applied.code == 0, applied.stderr
    assert candle_rocm("check", fork).code == 0
    on = ["--features", ",".join(f"{crate}/rocm" for crate in CRATES)]
    for features in (on, []):
        packages = [word for crate in CRATES for word in ("-p", crate)]
        done = subprocess.run(
            ["cargo", "check", "--quiet", *packages, *features],
            cwd=fork,
            env={**os.environ, "CARGO_TARGET_DIR": str(work / "target")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (fork / "Cargo.lock").unlink(missing_ok=True)
    assert candle_rocm("revert", fork).code == 0
    assert tree_hash(fork) == before
