"""`declare`, on the command line: which edits are kept, which are refused, and what it says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from made_up import DEVICE, STORAGE, replace_in, tree_hash

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

NEW = "candle-core/src/rocm_backend/mod.rs"


def edit(path: Path, line: str = "// mine\n") -> None:
    path.write_text(line + path.read_text())


def test_declared_edits_pass_check_and_outlive_reverts(candle: Path, candle_rocm: CommandLine) -> None:
    pristine = (candle / DEVICE).read_text()
    candle_rocm.ok("apply", candle)
    edit(candle / DEVICE)
    edited = tree_hash(candle)

    assert candle_rocm.ok("declare", candle).stdout == f"declared: {DEVICE}\n"
    assert candle_rocm.ok("status", candle).stdout.splitlines()[-1] == f"own edits, declared: {DEVICE}"
    assert candle_rocm.ok("status", candle, "--json").document["declared"] == [DEVICE]
    assert candle_rocm.ok("check", candle).stdout == "up to date, with declared edits in 1 file\n"
    declared = tree_hash(candle)
    assert declared != edited, "the record says so"

    shutil.rmtree(candle / ".candle-rocm/local")
    candle_rocm.ok("revert", candle, "--phase", "7")
    candle_rocm.ok("apply", candle)
    assert tree_hash(candle) == declared
    candle_rocm.ok("revert", candle)
    assert (candle / DEVICE).read_text() == "// mine\n" + pristine


def test_without_an_edit_there_is_nothing_to_declare(candle: Path, candle_rocm: CommandLine) -> None:
    refused = candle_rocm("declare", candle)
    assert refused.code == 5
    assert refused.stderr.startswith(
        "phase order: no phase is applied: there is nothing that edits could be told from\n"
    )

    candle_rocm.ok("apply", candle)
    said = candle_rocm.ok("declare", candle).stdout
    assert said == "nothing to declare: no file was edited by hand\n"
    refused = candle_rocm("declare", candle, STORAGE)
    assert refused.code == 5
    assert f"{STORAGE} is as candle-rocm left it: there is nothing to declare\n" in refused.stderr
    (candle / STORAGE).unlink()
    assert f"{STORAGE} is not there: only what is in a file can be declared\n" in (
        candle_rocm("declare", candle, STORAGE).stderr
    )
    refused = candle_rocm("declare", candle, "README.md", "../x")
    assert refused.code == 2
    assert refused.stderr.startswith(
        "usage error: candle-rocm did not write ../x\ncandle-rocm did not write README.md\n"
    )


def test_an_edit_that_was_declared_and_changed_again(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)
    left = (candle / DEVICE).read_text()
    edit(candle / DEVICE)
    candle_rocm.ok("declare", candle)

    edit(candle / DEVICE)
    checked = candle_rocm("check", candle)
    assert (checked.code, checked.stdout.splitlines()[0]) == (1, f"{DEVICE}: differs from the declared edits")
    assert candle_rocm("apply", candle).code == 5
    candle_rocm.ok("declare", candle)
    candle_rocm.ok("check", candle)

    (candle / DEVICE).write_text(left)
    checked = candle_rocm("check", candle)
    assert checked.stdout.splitlines()[0] == f"{DEVICE}: lacks the declared edits"
    assert candle_rocm.ok("status", candle).stdout.splitlines()[-1] == (f"without the declared edits: {DEVICE}")


def test_undeclared_edits_are_edits_again(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)
    edit(candle / DEVICE)
    edit(candle / STORAGE)
    candle_rocm.ok("declare", candle, STORAGE, DEVICE)

    assert candle_rocm.ok("declare", candle, STORAGE, "--undo").stdout == f"no longer declared: {STORAGE}\n"
    assert candle_rocm.ok("status", candle).stdout.splitlines()[-2:] == [
        f"own edits, declared: {DEVICE}",
        f"edited by hand: {STORAGE}",
    ]
    refused = candle_rocm("declare", candle, STORAGE, "--undo")
    assert refused.code == 2
    assert refused.stderr.startswith(f"usage error: there are no declared edits in {STORAGE}\n")
    candle_rocm.ok("declare", candle, "--undo")
    assert candle_rocm.ok("declare", candle, "--undo").stdout == "no edits are declared\n"


def test_what_force_discards_is_listed_before_and_kept(candle: Path, candle_rocm: CommandLine) -> None:
    candle_rocm.ok("apply", candle)
    patched = tree_hash(candle)
    edit(candle / DEVICE)
    replace_in(candle / STORAGE, "impl Storage", "// mine too\nimpl Storage")

    forced = candle_rocm.ok("apply", candle, "--force")

    backup = candle / ".candle-rocm/local/backups/1"
    assert forced.stderr.splitlines()[:3] == [
        f"discarding the edits in {DEVICE}",
        f"discarding the edits in {STORAGE}",
        f"the discarded edits are kept in {backup}",
    ]
    assert (backup / DEVICE).read_text().startswith("// mine\n")
    assert "// mine too\n" in (backup / STORAGE).read_text()
    assert tree_hash(candle) == patched
    edit(candle / NEW)
    assert "local/backups/2" in candle_rocm.ok("revert", candle, "--force").stderr
    assert (backup.parent / "2" / NEW).read_text().startswith("// mine\n")


def test_edits_are_kept_without_declaring_where_that_is_asked_for(candle: Path, candle_rocm: CommandLine) -> None:
    pristine = (candle / DEVICE).read_text()
    candle_rocm.ok("apply", candle)
    edit(candle / DEVICE)

    refused = candle_rocm("revert", candle)
    assert refused.code == 5
    assert "candle-rocm declare" in refused.stderr
    candle_rocm.ok("revert", candle, "--keep-edits")
    assert (candle / DEVICE).read_text() == "// mine\n" + pristine
