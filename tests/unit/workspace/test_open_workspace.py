"""Opening what a command works on: a tree as it was before everything that is applied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up import CORE_MANIFEST, READY, STORAGE, UNTRIED, candle_tree, replace_in
from phased import locked

from codegen.errors import Conflict, ExitCode, NotACandleTree, UsageError
from codegen.spec.kinds import Gating, Runtime
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine


def test_a_pristine_tree(candle: Path, candle_rocm: CommandLine) -> None:
    workspace = open_workspace(candle)

    assert (workspace.root, workspace.record, workspace.applied) == (candle, None, ())
    assert workspace.tried


def test_an_applied_tree_is_seen_as_pristine(pristine: Path, candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)

    workspace = open_workspace(candle)

    assert workspace.applied == tuple(READY)
    before = open_workspace(pristine).tree
    assert workspace.tree.rust_files() == before.rust_files()
    assert workspace.tree.crates == before.crates
    assert workspace.tree.read(STORAGE) == (pristine / STORAGE).read_bytes()


@pytest.mark.parametrize("path", [CORE_MANIFEST, "Cargo.toml"])
def test_a_manifest_that_was_broken_since_does_not_matter(candle: Path, candle_rocm: CommandLine, path: str) -> None:
    candle_rocm.ok("apply", candle)
    (candle / path).write_text("]")

    assert open_workspace(candle).tree.release == "0.11.1"
    (candle / path).unlink()
    assert open_workspace(candle).tree.release == "0.11.1"


def test_a_manifest_that_no_phase_changed_still_has_to_be_one(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)
    (candle / "candle-ug" / "Cargo.toml").write_text("]")

    with pytest.raises(NotACandleTree, match=r"candle-ug/Cargo\.toml:1:1: broken TOML"):
        open_workspace(candle)


def test_a_record_without_manifests(candle: Path, candle_rocm: CommandLine) -> None:
    """A release whose manifests have all that phase 0 adds would leave such a record."""
    candle_rocm.ok("apply", candle, "--phase", "0")
    record = candle / ".candle-rocm" / "record.json"
    import json

    document = json.loads(record.read_text())
    files = document["phases"][0]["files"]
    document["phases"][0]["files"] = [file for file in files if not file["path"].endswith("Cargo.toml")]
    record.write_text(json.dumps(document))

    assert open_workspace(candle).tree.release == "0.11.1"


def test_a_damaged_record_is_a_conflict(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)
    replace_in(candle / ".candle-rocm" / "record.json", '"schema_version"', '"schema"', count=1)

    with pytest.raises(Conflict) as caught:
        open_workspace(candle)
    assert caught.value.exit_code is ExitCode.CONFLICT


def test_the_gating_is_the_one_named_or_applied_or_the_default(candle: Path, candle_rocm: CommandLine) -> None:
    assert open_workspace(candle).gating(None) is Gating.DUMMY
    assert open_workspace(candle).gating("cfg") is Gating.CFG

    candle_rocm.ok("apply", candle, "--gating", "cfg", "--phase", "0")
    assert open_workspace(candle).gating(None) is Gating.CFG
    assert open_workspace(candle).gating("dummy") is Gating.DUMMY


def test_the_runtime_is_the_one_named_or_applied_or_the_default(candle: Path, candle_rocm: CommandLine) -> None:
    assert open_workspace(candle).runtime(None) is Runtime.DYNAMIC
    assert open_workspace(candle).runtime("rocm-rs") is Runtime.ROCM_RS

    candle_rocm.ok("apply", candle, "--runtime", "rocm-rs", "--phase", "0")
    assert open_workspace(candle).runtime(None) is Runtime.ROCM_RS
    assert open_workspace(candle).runtime("dynamic") is Runtime.DYNAMIC


def test_an_untried_release(tmp_path: Path, candle_rocm: CommandLine) -> None:
    assert not open_workspace(candle_tree(tmp_path, UNTRIED)).tried


def test_a_version_is_not_for_writing(candle_rocm: CommandLine) -> None:
    with pytest.raises(UsageError, match=r"make your own copy: candle-rocm fetch 0\.11\.1 --to DIR"):
        open_workspace("0.11.1", for_writing=True)


def test_a_folder_whose_name_is_a_version_is_a_folder(
    tmp_path: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    candle_tree(tmp_path / "0.9.7")
    monkeypatch.chdir(tmp_path)

    assert open_workspace("0.9.7", for_writing=True).tree.release == "0.11.1"


def test_an_interrupted_apply_is_settled_for_writing_only(candle: Path, candle_rocm: CommandLine) -> None:
    (candle / ".candle-rocm" / "local" / "transaction").mkdir(parents=True)

    with pytest.raises(Conflict, match=r"an apply, revert or upgrade of .* was interrupted") as caught:
        open_workspace(candle)
    assert caught.value.exit_code is ExitCode.CONFLICT
    assert (candle / ".candle-rocm" / "local" / "transaction").is_dir()

    assert open_workspace(candle, for_writing=True).settled
    assert not (candle / ".candle-rocm").exists()
    assert not open_workspace(candle, for_writing=True).settled


def test_while_another_process_writes_it_is_not_called_interrupted(candle: Path, candle_rocm: CommandLine) -> None:
    (candle / ".candle-rocm" / "local" / "transaction").mkdir(parents=True)
    before = sorted(candle.rglob("*"))

    with locked(candle), pytest.raises(Conflict, match="another candle-rocm is changing"):
        open_workspace(candle)
    assert sorted(candle.rglob("*")) == sorted([*before, candle / ".candle-rocm" / "local" / "lock"])
