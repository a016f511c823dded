"""One set of specs, every release: rustc agrees with the scan, the patch builds, and every byte comes back."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash

from codegen.candle.tree import open_tree
from codegen.plan.build import plan_tree
from codegen.spec.loader import load_specs
from codegen.verify.feature_examples import BROKEN, ELSEWHERE, UNKNOWN, fitted, left_out
from codegen.verify.scratch import member_manifests
from codegen.verify.steps import STEPS
from releases.command_line import candle_rocm, verified

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.spec.kinds import Gating
    from releases.cover import Group

pytestmark = [pytest.mark.cargo, pytest.mark.network]

FORMATTED: set[bytes] = set()
"""Texts that rustfmt leaves as they are: most are the same in all releases."""


def test_no_example_with_a_generated_line_is_left_out(release: str) -> None:
    """`all-targets-on` builds most examples, `gated-examples-on` those behind features; others have a known reason."""
    tree = open_tree(release)
    crates = member_manifests(tree.root)
    changed = {change.path for change in plan_tree(tree, load_specs()).changes}
    assert "candle-examples/examples/custom-ops/main.rs" in changed
    whole, gated = (fitted(step, crates) for step in STEPS if step.id in ("all-targets-on", "gated-examples-on"))
    missed = [each for each in (*left_out(whole, crates), *left_out(gated, crates)) if each.reason != ELSEWHERE]
    print(f"{release}: left out are {', '.join(sorted({each.target for each in missed}))}")
    assert [str(each) for each in missed if each.reason == UNKNOWN] == []
    assert {"mnist-training", "whisper", "colpali"} <= set(gated.options)
    for each in missed:
        if each.target in BROKEN:
            continue
        sources = f"{each.crate}/examples/{each.target}"
        assert [path for path in changed if path.startswith((f"{sources}/", f"{sources}.rs"))] == []


def test_rustc_lists_the_same_exhaustive_matches(compared: str, work: Path) -> None:
    """Adding a variant to each enum gives E0004 exactly where the scan saw an exhaustive match."""
    expected = {r.version: r.exhaustive_matches for r in load_specs().candle.releases}

    result = candle_rocm("scan", compared, "--oracle", "--work", work, "--json")

    assert result.code == 0, result.stdout + result.stderr
    oracle = result.document["oracle"]
    print(f"{compared}: rustc {oracle['rustc']}, scan {oracle['scan']}")
    assert oracle["agrees"], oracle
    if compared in expected:
        assert oracle["rustc"] == expected[compared]


@pytest.mark.parametrize("runtime", ["dynamic", "rocm-rs"])
def test_new_files_are_as_rustfmt_likes_them(built: str, runtime: str, tmp_path: Path) -> None:
    """The generator formats edited files only: templates, and signatures taken from the release, are clean already."""
    assert candle_rocm("generate", built, "--runtime", runtime, "--out", tmp_path).code == 0
    files = sorted((tmp_path / "files").rglob("*.rs"))
    assert len(files) > 10

    for file in files:
        if (text := file.read_bytes()) not in FORMATTED:
            done = subprocess.run(["rustfmt", "--check", "--edition", "2021"], input=text, capture_output=True)
            assert (done.returncode, done.stdout) == (0, b""), file
            FORMATTED.add(text)


def test_apply_check_and_revert(way: tuple[str, Gating], tmp_path: Path) -> None:
    release, gating = way
    tree = tmp_path / "candle"
    assert candle_rocm("fetch", release, "--to", tree).code == 0
    pristine = tree_hash(tree)

    assert candle_rocm("apply", tree, "--phase", "1", "--gating", gating).code == 5, "phase 1 needs phase 0"
    assert candle_rocm("apply", tree, "--gating", gating).code == 0
    applied = tree_hash(tree)
    assert applied != pristine

    assert candle_rocm("check", tree).code == 0
    again = candle_rocm("apply", tree, "--gating", gating)
    assert again.code == 0, again.stderr
    assert tree_hash(tree) == applied, "applying again changes no byte"

    assert candle_rocm("revert", tree, "--phase", "4").code == 0
    assert candle_rocm("check", tree).code == 0
    assert candle_rocm("revert", tree).code == 0
    assert tree_hash(tree) == pristine, "reverting gives back every byte"


def test_patched_candle_builds_and_its_tests_pass(group: Group, work: Path) -> None:
    """The steps of `cover.txt` (cover.py): lints of every distinct text, every distinct test on the device.

    Tests that wait for a phase have to fail for want of it, and the step names them.
    """
    choices = ("--gating", group.gating, "--runtime", group.runtime)
    narrowed = ("--package", group.package) if group.package else ()
    chosen = [word for program in group.programs for word in ("--test", program)]
    verified(group.release, group.steps, work, *choices, *narrowed, *chosen)
