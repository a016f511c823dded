"""One set of specs, every release: no unknown site, rustc agrees, the patch builds, and every byte comes back."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash

from codegen.spec.loader import load_specs
from releases.command_line import candle_rocm

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

STEPS = ("check-off", "check-on", "clippy-off", "clippy-on", "all-targets-on", "cuda", "cuda-and-rocm")
STEPS_OF_CFG = ("check-off", "check-on", "clippy-off", "clippy-on")


def test_scan_knows_every_site(release: str) -> None:
    result = candle_rocm("scan", release, "--json")

    assert result.code == 0, result.stderr
    states = result.document["summary"]["states"]
    print(f"{release}: {states}")
    assert states["unknown"] == 0
    assert states["handled"] > 80


def test_rustc_lists_the_same_exhaustive_matches(release: str, work: Path) -> None:
    """Adding a variant to each enum gives E0004 exactly where the scan saw an exhaustive match."""
    expected = {r.version: r.exhaustive_matches for r in load_specs().candle.releases}

    result = candle_rocm("scan", release, "--oracle", "--work", work, "--json")

    assert result.code == 0, result.stdout + result.stderr
    oracle = result.document["oracle"]
    print(f"{release}: rustc {oracle['rustc']}, scan {oracle['scan']}")
    assert oracle["agrees"], oracle
    if release in expected:
        assert oracle["rustc"] == expected[release]


def test_new_files_are_as_rustfmt_likes_them(release: str, tmp_path: Path) -> None:
    """The generator formats edited files only: templates, and signatures taken from the release, are clean already."""
    assert candle_rocm("generate", release, "--out", tmp_path).code == 0
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

    assert candle_rocm("revert", tree, "--phase", "1").code == 0
    assert candle_rocm("check", tree).code == 0
    assert candle_rocm("revert", tree).code == 0
    assert tree_hash(tree) == pristine, "reverting gives back every byte"


@pytest.mark.parametrize("gating", ["dummy", "cfg"])
def test_patched_candle_builds(release: str, gating: str, work: Path) -> None:
    """cargo check and clippy with and without `rocm`; for the default gating all targets and the CUDA build too."""
    steps = STEPS if gating == "dummy" else STEPS_OF_CFG
    only = [word for step in steps for word in ("--only", step)]

    result = candle_rocm("verify", release, "--gating", gating, "--work", work, "--json", *only)

    assert result.stdout, result.stderr
    verdicts = {step["id"]: step["verdict"] for step in result.document["steps"]}
    print(f"{release} {gating}: {verdicts}")
    assert verdicts == dict.fromkeys(steps, "passed"), result.stdout


def test_cpu_tests_pass_unchanged(newest: str, work: Path) -> None:
    """Candle's own CPU tests, feature off and on; on the newest release, because building them takes minutes."""
    only = ("--only", "cpu-tests-off", "--only", "cpu-tests-on")

    result = candle_rocm("verify", newest, "--work", work, "--json", *only)

    assert result.stdout, result.stderr
    details = {step["id"]: (step["verdict"], step["detail"]) for step in result.document["steps"]}
    print(f"{newest}: {details}")
    assert all(verdict == "passed" for verdict, _ in details.values()), result.stdout
    off, on = (detail for _, detail in details.values())
    assert "SKIPPED" not in off
    assert int(on.split(" ", 1)[0]) >= int(off.split(" ", 1)[0]) >= 200
    assert on.endswith(" SKIPPED (no ROCm device)"), "rocm_basic says which of its tests need a device"
