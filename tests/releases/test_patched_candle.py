"""One set of specs, every release: rustc agrees with the scan, the patch builds, and every byte comes back."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash

from codegen.candle.tree import open_tree
from codegen.plan.build import plan_tree
from codegen.spec.kinds import Gating, Runtime
from codegen.spec.loader import load_specs
from codegen.verify.gated import BROKEN, ELSEWHERE, UNKNOWN, fitted, left_out
from codegen.verify.scratch import member_manifests
from codegen.verify.steps import STEPS
from releases.command_line import LEAST_TESTS, candle_rocm, passed_tests, verified

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

CLIPPY = ("clippy-off", "clippy-on")
"""Without check-off and check-on: clippy is rustc with more lints, on the same crates and features, and a warning of
rustc's own that the unpatched tree does not have fails a clippy step too."""
OTHER_BUILDS = ("clippy-off", "cuda", "cuda-and-rocm", "doc-on")
OTHER_CHOICES = (
    (Gating.CFG, Runtime.ROCM_RS, CLIPPY),
    (Gating.DUMMY, Runtime.DYNAMIC, ("clippy-on",)),
    (Gating.CFG, Runtime.DYNAMIC, ("clippy-on",)),
)
"""Choices that change candle-core only, and the steps that see it; the other crates were built by then."""


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


def test_rustc_lists_the_same_exhaustive_matches(built: str, work: Path) -> None:
    """Adding a variant to each enum gives E0004 exactly where the scan saw an exhaustive match."""
    expected = {r.version: r.exhaustive_matches for r in load_specs().candle.releases}

    result = candle_rocm("scan", built, "--oracle", "--work", work, "--json")

    assert result.code == 0, result.stdout + result.stderr
    oracle = result.document["oracle"]
    print(f"{built}: rustc {oracle['rustc']}, scan {oracle['scan']}")
    assert oracle["agrees"], oracle
    if built in expected:
        assert oracle["rustc"] == expected[built]


@pytest.mark.parametrize("runtime", ["rocm-rs", "dynamic"])
def test_new_files_are_as_rustfmt_likes_them(release: str, runtime: str, tmp_path: Path) -> None:
    """The generator formats edited files only: templates, and signatures taken from the release, are clean already."""
    assert candle_rocm("generate", release, "--runtime", runtime, "--out", tmp_path).code == 0
    files = sorted((tmp_path / "files").rglob("*.rs"))
    assert len(files) > 10

    for file in files:
        done = subprocess.run(["rustfmt", "--check", "--edition", "2021"], input=file.read_bytes(), capture_output=True)
        assert (done.returncode, done.stdout) == (0, b""), file


@pytest.mark.parametrize("gating", ["dummy", "cfg"])
def test_apply_check_and_revert(release: str, gating: str, tmp_path: Path) -> None:
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


def test_patched_candle_builds(built: str, work: Path) -> None:
    """clippy with `rocm`, in the default gating and runtime."""
    verified(built, ("clippy-on",), work)


def test_patched_candle_builds_without_rocm_with_cuda_and_its_documentation(whole: str, work: Path) -> None:
    verified(whole, OTHER_BUILDS, work)


@pytest.mark.parametrize(("gating", "runtime", "steps"), OTHER_CHOICES)
def test_patched_candle_builds_otherwise(
    whole: str, gating: Gating, runtime: Runtime, steps: tuple[str, ...], work: Path
) -> None:
    """With ROCm's variants behind cfg, and with libraries that are opened when the program runs."""
    choices = ("--gating", gating.value, "--runtime", runtime.value)
    verified(whole, steps, work, *choices, "--package", "candle-core")


def test_other_choices_change_candle_core_only(release: str) -> None:
    """Sources of the libraries on top of it are the same, so that building candle-core is enough for these choices."""
    default = _library_sources(release, Gating.DUMMY, Runtime.ROCM_RS)
    for gating, runtime, _ in OTHER_CHOICES:
        assert _library_sources(release, gating, runtime) == default, (gating, runtime)


def _library_sources(release: str, gating: Gating, runtime: Runtime) -> dict[str, bytes | None]:
    """Every new or changed source of candle-nn and candle-transformers, by its path."""
    plan = plan_tree(open_tree(release), load_specs(), gating=gating, runtime=runtime)
    libraries = ("candle-nn/src/", "candle-transformers/src/")
    return {change.path: change.after for change in plan.changes if change.path.startswith(libraries)}


def test_candles_tests_pass_on_the_device(corner: str, work: Path) -> None:
    """Every `test_device!` test on ROCm, and all CPU tests as ever.

    Tests that wait for a phase have to fail for want of it, and the step names them.
    """
    steps = verified(corner, ("rocm-tests",), work)
    assert passed_tests(steps["rocm-tests"]) >= LEAST_TESTS
