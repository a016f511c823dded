"""The whole life of a patched tree, on the command line: scan, generate, apply, check, edit, force, revert."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import CORE_MANIFEST, DEVICE, OLDEST, READY, STORAGE, UNTRIED, candle_tree, replace_in, tree_hash

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

GATINGS = ("dummy", "cfg")
LISTED = ", ".join(map(str, READY))
DUMMY_FILE = "candle-core/src/dummy_rocm_backend.rs"


def git(tree: Path, *arguments: str) -> str:
    own = ("-c", "user.name=Maker", "-c", "user.email=maker@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", tree, *own, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def checkout(candle: Path) -> Path:
    """The tree as a git checkout with everything committed."""
    git(candle, "init", "--quiet")
    git(candle, "add", "--all")
    git(candle, "commit", "--quiet", "--message", "pristine")
    return candle


@pytest.mark.parametrize("gating", GATINGS)
def test_the_whole_life(candle: Path, candle_rocm: CommandLine, tmp_path: Path, gating: str) -> None:
    pristine = tree_hash(candle)
    assert candle_rocm.ok("scan", candle, "--json").document["summary"]["states"]["unknown"] == 0
    candle_rocm.ok("generate", candle, "--gating", gating, "--out", tmp_path / "out")
    assert "+    Rocm(RocmStorage)," in candle_rocm.ok("diff", candle, "--gating", gating).stdout
    assert candle_rocm("check", candle, "--gating", gating).code == 1
    assert tree_hash(candle) == pristine, "nothing of that writes to the tree"

    applied = candle_rocm.ok("apply", candle, "--gating", gating)
    assert applied.stdout.splitlines()[0].startswith("phase 0 setup: ")
    assert applied.stdout.splitlines()[1].startswith("phase 1 core: ")
    assert (candle / DUMMY_FILE).exists() == (gating == "dummy")
    patched = tree_hash(candle)
    assert patched != pristine
    assert candle_rocm.ok("check", candle).stdout == "up to date\n"

    again = candle_rocm.ok("apply", candle, "--gating", gating)
    assert again.stdout == "nothing to do: every requested phase is already applied\n"
    assert tree_hash(candle) == patched, "applying again changes no byte"

    replace_in(candle / STORAGE, "use crate::backend", "// mine\nuse crate::backend")
    checked = candle_rocm("check", candle)
    assert checked.code == 1
    assert checked.stdout == f"{STORAGE}: differs\n1 file differs from what apply would write\n"
    refused = candle_rocm("apply", candle)
    assert refused.code == 5
    assert refused.stderr.startswith(f"hand-edited files: edited since candle-rocm wrote them: {STORAGE}\n")
    assert "// mine" in (candle / STORAGE).read_text()

    forced = candle_rocm.ok("apply", candle, "--force")
    assert forced.stdout.startswith("phase 1 core: ")
    assert tree_hash(candle) == patched, "--force writes again what was edited"

    reverted = candle_rocm.ok("revert", candle)
    assert reverted.stdout == "".join(f"phase {number}: reverted\n" for number in reversed(READY))
    assert tree_hash(candle) == pristine


@pytest.mark.parametrize("release", [OLDEST, UNTRIED])
def test_other_releases_live_the_same_life(tmp_path: Path, candle_rocm: CommandLine, release: str) -> None:
    candle = candle_tree(tmp_path / "candle", release)
    pristine = tree_hash(candle)

    applied = candle_rocm.ok("apply", candle)
    note = f"this version of candle-rocm was not tested with Candle {release}"
    assert (note in applied.stderr) == (release == UNTRIED)
    candle_rocm.ok("check", candle)
    candle_rocm.ok("revert", candle)
    assert tree_hash(candle) == pristine


def test_a_run_of_phases_is_the_same_as_all_at_once(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle, "--phase", "0", "--phase", "1")
    at_once = tree_hash(candle)
    candle_rocm.ok("revert", candle)
    pristine = tree_hash(candle)

    candle_rocm.ok("apply", candle, "--phase", "0")
    after_phase_0 = tree_hash(candle)
    assert candle_rocm.ok("check", candle).code == 0
    assert candle_rocm.ok("apply", candle, "--phase", "1").stdout.startswith("phase 1 core: ")
    assert tree_hash(candle) == at_once

    candle_rocm.ok("revert", candle, "--phase", "1")
    assert tree_hash(candle) == after_phase_0
    candle_rocm.ok("revert", candle, "--phase", "0")
    assert tree_hash(candle) == pristine


def test_phase_1_needs_phase_0(candle: Path, candle_rocm: CommandLine) -> None:
    pristine = tree_hash(candle)

    refused = candle_rocm("apply", candle, "--phase", "1")

    assert refused.code == 5
    assert refused.stderr == (
        "phase order: phase 1 needs phase 0, which is not applied\n"
        "  = help: candle-rocm apply --phase 0, or leave out --phase to apply all\n"
    )
    assert tree_hash(candle) == pristine


def test_taking_back_what_is_not_there(candle: Path, candle_rocm: CommandLine) -> None:
    assert candle_rocm("revert", candle).code == 5
    assert "no phase is applied: there is nothing to revert" in candle_rocm("revert", candle).stderr

    candle_rocm.ok("apply", candle, "--phase", "0")
    refused = candle_rocm("revert", candle, "--phase", "1")
    assert refused.code == 5
    assert "phase 1 is not applied: there is nothing to revert" in refused.stderr


def test_another_gating_is_a_conflict(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)
    patched = tree_hash(candle)

    refused = candle_rocm("apply", candle, "--gating", "cfg")

    assert refused.code == 5
    assert refused.stderr == (
        f"conflict: applied with gating dummy: phase {LISTED}; it cannot be mixed with cfg\n"
        "  = help: leave out --gating to continue with dummy, or revert everything: candle-rocm revert\n"
    )
    assert tree_hash(candle) == patched
    assert candle_rocm("check", candle, "--gating", "cfg").code == 1, "check answers for the gating that is asked for"


def test_the_gating_that_is_applied_is_the_default(candle: Path, candle_rocm: CommandLine, tmp_path: Path) -> None:
    candle_rocm.ok("apply", candle, "--phase", "0", "--gating", "cfg")

    candle_rocm.ok("apply", candle)
    candle_rocm.ok("check", candle)
    candle_rocm.ok("generate", candle, "--out", tmp_path / "out")

    assert json.loads((tmp_path / "out" / "report.json").read_text())["gating"] == "cfg"
    assert not (candle / DUMMY_FILE).exists()
    assert "(cfg gating, dynamic runtime)" in candle_rocm.ok("status", candle).stdout


def test_the_dynamic_runtime_needs_libloading_and_no_build_script(candle: Path, candle_rocm: CommandLine) -> None:
    pristine = tree_hash(candle)

    document = candle_rocm.ok("apply", candle, "--runtime", "dynamic", "--json").document

    assert document["runtime"] == "dynamic"
    manifest = (candle / "candle-core/Cargo.toml").read_text()
    assert "libloading = { workspace = true, optional = true }" in manifest
    assert 'rocm = ["dep:libloading"]' in manifest
    assert "rocm-rs" not in manifest + (candle / "Cargo.toml").read_text()
    assert not (candle / "candle-core/build.rs").exists()
    assert "rocm_absent" not in (candle / "candle-core/src/lib.rs").read_text()
    assert not (candle / ".cargo").exists()
    installation = (candle / "candle-core/src/rocm_backend/installation.rs").read_text()
    assert "use libloading::Library;" in installation

    candle_rocm.ok("check", candle)
    assert candle_rocm("check", candle, "--runtime", "rocm-rs").code == 1
    assert candle_rocm.ok("status", candle, "--json").document["runtime"] == "dynamic"
    assert "(dummy gating, dynamic runtime)" in candle_rocm.ok("status", candle).stdout
    refused = candle_rocm("apply", candle, "--runtime", "rocm-rs")
    assert refused.code == 5
    assert refused.stderr == (
        f"conflict: applied with runtime dynamic: phase {LISTED}; it cannot be mixed with rocm-rs\n"
        "  = help: leave out --runtime to continue with dynamic, or revert everything: candle-rocm revert\n"
    )
    candle_rocm.ok("revert", candle)
    assert tree_hash(candle) == pristine


def test_the_c_layer_declares_what_the_backend_uses(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle, "--runtime", "dynamic")
    backend = candle / "candle-core/src/rocm_backend"

    texts = [path.read_text() for path in backend.rglob("*.rs")]
    used = {name for text in texts for name in re.findall(r"\bapi::(hip\w+)\(", text)}
    libraries = [(backend / f"api/{name}.rs").read_text() for name in ("amdhip64", "hiprtc")]
    declared = {name for text in libraries for name in re.findall(r"^    fn (\w+)\(", text, re.MULTILINE)}

    assert declared == used
    assert {"hipMalloc", "hiprtcCompileProgram"} <= used


def test_a_dirty_checkout_is_refused(checkout: Path, candle_rocm: CommandLine) -> None:
    (checkout / "notes.txt").write_text("mine\n")

    refused = candle_rocm("apply", checkout)

    assert refused.code == 6
    assert refused.stderr == (
        f"dirty git tree: 1 file has uncommitted changes in {checkout}:\n"
        "notes.txt\n  = help: commit or stash them, or pass --allow-dirty\n"
    )
    assert git(checkout, "status", "--porcelain") == "?? notes.txt\n"

    candle_rocm.ok("apply", checkout, "--allow-dirty")
    assert (checkout / "notes.txt").read_text() == "mine\n"
    candle_rocm.ok("revert", checkout)
    assert git(checkout, "status", "--porcelain") == "?? notes.txt\n"


def test_a_sparse_checkout_is_not_patched_by_halves_in_silence(checkout: Path, candle_rocm: CommandLine) -> None:
    pristine = tree_hash(checkout)
    git(checkout, "sparse-checkout", "set", "--no-cone", "/*", "!/candle-core/tests/")
    left_out = git(checkout, "ls-files", "candle-core/tests").splitlines()
    assert left_out
    files = f"{len(left_out)} files, {left_out[0]} the first"
    note = f"left out of this sparse checkout, and so neither looked at nor patched: {files}"

    for command in ("scan", "diff"):
        assert note in candle_rocm.ok(command, checkout).stderr.splitlines()
    sparse = tree_hash(checkout)
    refused = candle_rocm("apply", checkout)
    assert (refused.code, tree_hash(checkout)) == (6, sparse)
    assert f"{len(left_out)} files are left out of the sparse checkout" in refused.stderr

    assert note in candle_rocm.ok("apply", checkout, "--allow-dirty").stderr.splitlines()
    assert note in candle_rocm.ok("check", checkout).stderr.splitlines()
    git(checkout, "sparse-checkout", "disable")
    assert candle_rocm("check", checkout).code == 1, "what came back is not patched"
    candle_rocm.ok("revert", checkout)
    assert tree_hash(checkout) == pristine


def test_a_patched_checkout_that_becomes_sparse_loses_nothing(checkout: Path, candle_rocm: CommandLine) -> None:
    pristine = tree_hash(checkout)
    candle_rocm.ok("apply", checkout)
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "patched")
    patched = tree_hash(checkout)
    git(checkout, "sparse-checkout", "set", "--no-cone", "/*", f"!/{STORAGE}")
    sparse = tree_hash(checkout)
    assert sparse != patched

    checked = candle_rocm("check", checkout)
    assert (checked.code, f"{STORAGE}: is missing" in checked.stdout) == (1, True)
    assert STORAGE in checked.stderr
    assert candle_rocm("revert", checkout).code == 5
    assert candle_rocm("apply", checkout).code in (5, 6)
    assert tree_hash(checkout) == sparse
    git(checkout, "sparse-checkout", "disable")
    candle_rocm.ok("check", checkout)
    candle_rocm.ok("revert", checkout)
    assert tree_hash(checkout) == pristine


def test_in_a_checkout_phases_follow_one_another_without_a_commit(checkout: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", checkout, "--phase", "0")
    candle_rocm.ok("apply", checkout, "--phase", "1")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "patched")
    candle_rocm.ok("check", checkout)
    candle_rocm.ok("apply", checkout)


def test_a_hand_edit_in_a_checkout_is_called_one(checkout: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", checkout)
    replace_in(checkout / DEVICE, "impl Device {", "impl Device {\n    // mine")

    assert candle_rocm("apply", checkout).code == 5
    assert candle_rocm("apply", checkout, "--force").code == 6, "git would not have the edit either"
    candle_rocm.ok("apply", checkout, "--force", "--allow-dirty")
    assert "// mine" not in (checkout / DEVICE).read_text()


def test_git_takes_the_patches(checkout: Path, candle_rocm: CommandLine, tmp_path: Path) -> None:
    candle_rocm.ok("generate", checkout, "--out", tmp_path / "out")
    by_patch = tmp_path / "by-patch"
    shutil.copytree(checkout, by_patch)
    patches = sorted(path.name for path in (tmp_path / "out" / "patches").iterdir())
    assert patches == [f"{number:04}-{name}.patch" for number, name in READY.items()]

    for patch in patches:
        git(by_patch, "am", "--quiet", str(tmp_path / "out" / "patches" / patch))
    candle_rocm.ok("apply", checkout)
    shutil.rmtree(checkout / ".candle-rocm")
    assert tree_hash(by_patch) == tree_hash(checkout)


def test_generate_writes_one_phase_on_top_of_the_applied_ones(
    candle: Path, candle_rocm: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    missing = candle_rocm("generate", candle, "--phase", "1", "--out", out)
    assert missing.code == 2
    assert "phase 1 needs phase 0\n  = help: add --phase 0, or apply it first" in missing.stderr

    candle_rocm.ok("apply", candle, "--phase", "0")
    candle_rocm.ok("generate", candle, "--phase", "1", "--out", out)

    assert [path.name for path in (out / "patches").iterdir()] == ["0001-core.patch"]
    assert not (out / "files" / "candle-core" / "build.rs").exists()


def test_a_broken_manifest_does_not_keep_revert_from_working(candle: Path, candle_rocm: CommandLine) -> None:
    pristine = tree_hash(candle)
    candle_rocm.ok("apply", candle)
    (candle / CORE_MANIFEST).write_text("[package\n")

    assert candle_rocm("check", candle).code == 1
    assert candle_rocm("revert", candle).code == 5
    candle_rocm.ok("revert", candle, "--force")
    assert tree_hash(candle) == pristine


def test_status_tells_what_is_applied(candle: Path, candle_rocm: CommandLine) -> None:
    assert candle_rocm.ok("status", candle).stdout == "Candle 0.11.1\nnothing is applied\n"

    candle_rocm.ok("apply", candle)
    (candle / DEVICE).unlink()

    lines = candle_rocm.ok("status", candle).stdout.splitlines()
    assert lines[0] == "Candle 0.11.1"
    assert [line.split(":")[0] for line in lines[1:]] == [
        *(f"phase {number} {name}" for number, name in READY.items()),
        "edited by hand",
    ]
    assert lines[-1].endswith(DEVICE)
    assert candle_rocm("check", candle).stdout.splitlines()[0] == f"{DEVICE}: is missing"


def test_what_would_not_be_written_any_more_is_a_deviation(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)

    checked = candle_rocm("check", candle, "--phase", "0", "--json").document

    problems = {file["path"]: file["problem"] for file in checked["files"]}
    assert problems["candle-core/src/rocm_backend/mod.rs"] == "would not be written any more"
    assert problems["candle-core/Cargo.toml"] == "differs"


def test_specs_that_changed_since_are_a_conflict(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    candle_rocm.ok("apply", candle, "--phase", "0")
    replace_in(home / "specs" / "phases" / "0-setup.yaml", 'version: "0.8"', 'version: "0.9"')

    refused = candle_rocm("apply", candle)

    assert refused.code == 5
    assert refused.stderr.startswith("conflict: phase 0 was applied by other specs, or by another version")
    assert candle_rocm("check", candle).code == 1
