"""`candle-rocm upgrade`: another Candle below the patch, the owner's edits on top of it, and nothing lost."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import DEVICE, NEWEST, OLDEST, READY, STORAGE, candle_tree, replace_in, tree_hash

from codegen.record.record import load_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from in_process import CommandLine

BACKEND = "candle-core/src/rocm_backend/mod.rs"
DTYPE = "candle-core/src/dtype.rs"
SCALAR = "candle-core/src/scalar.rs"
GONE = "candle-core/src/gone.rs"
MOVED = "candle-core/src/moved.rs"
CONFLICT = re.compile(r"<{7} .*\n((?:.*\n)*?)\|{7} (?:.*\n)*?={7}\n((?:.*\n)*?)>{7} .*\n")
LONG = "".join(f"pub fn number_{number}() {{}}\n" for number in range(20))
UTILS = "candle-core/src/utils.rs"


def git(tree: Path, *arguments: str, code: int = 0) -> str:
    own = ("-c", "user.name=Maker", "-c", "user.email=maker@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", tree, *own, *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def commit(tree: Path, message: str) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", message)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """What the tree was made from."""
    tree = candle_tree(tmp_path / "old", OLDEST)
    (tree / GONE).write_text("// a file that the next release does not have\npub fn gone() {}\n")
    (tree / MOVED).write_text(LONG)
    return tree


@pytest.fixture
def new(tmp_path: Path, old: Path) -> Path:
    """What Candle became: a line is another one, a file is new, one is gone, and a crate's folder with it."""
    tree = candle_tree(tmp_path / "new", NEWEST)
    replace_in(tree / DTYPE, "    F32,", "    F32, // wide")
    replace_in(tree / UTILS, 'cfg!(feature = "metal")', 'cfg!(feature = "metal") // as ever')
    (tree / "candle-core/src/added.rs").write_text("pub fn added() {}\n")
    (tree / MOVED).write_text(LONG + "pub fn last() {}\n")
    return tree


@pytest.fixture
def tree(old: Path, tmp_path: Path, candle_rocm: CommandLine) -> Path:
    """The patched tree of somebody."""
    tree = shutil.copytree(old, tmp_path / "tree")
    candle_rocm.ok("apply", tree)
    return tree


@pytest.fixture
def up(tree: Path, old: Path, new: Path, candle_rocm: CommandLine) -> Callable[..., tuple[int, list[str]]]:
    """The upgrade; its exit code and what it says."""

    def run(*options: str) -> tuple[int, list[str]]:
        result = candle_rocm("upgrade", tree, "--to", new, "--from", old, *options)
        assert result.code in (0, 1), result.stderr
        return result.code, result.stdout.splitlines()

    return run


def test_without_edits_it_is_what_a_fresh_apply_makes(
    tree: Path, old: Path, new: Path, up: Callable[..., tuple[int, list[str]]], candle_rocm: CommandLine
) -> None:
    before = tree_hash(tree)
    code, dry = up("--dry-run")
    assert code == 0
    assert tree_hash(tree) == before, "--dry-run writes nothing"

    code, lines = up()

    assert (code, lines[0]) == (0, f"Candle {OLDEST} -> {NEWEST}")
    assert dry == [f"{lines[0]} (nothing is written)", *lines[1:]]
    assert lines[1].startswith("Candle's own: ")
    names = [{path.relative_to(each) for path in each.rglob("*") if path.is_file()} for each in (old, new)]
    assert lines[1].endswith(f" {len(names[1] - names[0])} new, {len(names[0] - names[1])} deleted")
    assert len(lines) == 3
    assert candle_rocm.ok("check", tree).stdout == "up to date\n"
    candle_rocm.ok("apply", new)
    assert tree_hash(tree) == tree_hash(new)
    assert load_record(tree) == load_record(new)
    candle_rocm.ok("revert", tree)
    candle_rocm.ok("revert", new)
    assert tree_hash(tree) == tree_hash(new)


def test_every_kind_of_edit_stays(
    tree: Path, new: Path, up: Callable[..., tuple[int, list[str]]], candle_rocm: CommandLine
) -> None:
    """In Candle's files, patched or not, in what the phases wrote, files of one's own, deletions and renames."""
    git(tree, "init", "--quiet")
    commit(tree, "ROCm")
    replace_in(tree / SCALAR, "pub enum Scalar {", "// mine 1\npub enum Scalar {")
    replace_in(tree / STORAGE, "use crate::backend", "// mine 2\nuse crate::backend")
    replace_in(tree / DEVICE, "    Rocm { gpu_id: usize },", "    Rocm { gpu_id: usize }, // mine 3")
    with (tree / BACKEND).open("a") as file:
        file.write("// mine 4\n")
    (tree / "candle-core/src/mine.rs").write_text("// mine 5\n")
    (tree / "candle-core/src/display.rs").unlink()
    (tree / MOVED).rename(tree / "candle-core/src/elsewhere.rs")
    candle_rocm.ok("declare", tree, STORAGE, BACKEND)
    commit(tree, "mine")

    code, lines = up()

    assert code == 0
    assert sorted(line for line in lines if line.startswith("edits kept")) == [
        f"edits kept: {path}" for path in sorted((DEVICE, BACKEND, STORAGE))
    ]
    assert "// mine 1" in (tree / SCALAR).read_text()
    assert not (tree / MOVED).exists()
    assert not (tree / "candle-core/src/display.rs").exists()
    assert (tree / "candle-core/src/elsewhere.rs").read_text() == LONG + "pub fn last() {}\n"
    for path, text in ((STORAGE, "// mine 2\nuse crate"), (DEVICE, "usize }, // mine 3\n"), (BACKEND, "\n// mine 4\n")):
        assert text in (tree / path).read_text()
    assert (tree / "candle-core/src/mine.rs").read_text() == "// mine 5\n"
    assert "F32, // wide" in (tree / DTYPE).read_text()
    record = load_record(tree)
    assert record is not None
    assert sorted(record.own) == sorted((BACKEND, STORAGE)), "what was declared stays declared, and nothing else is"
    assert record.hand_edited(tree) == (DEVICE, "candle-core/src/display.rs"), "a deletion cannot be declared"
    candle_rocm.ok("declare", tree)
    assert candle_rocm("check", tree).stdout.splitlines()[0] == "candle-core/src/display.rs: is missing"


def test_edits_from_before_the_patch_go_along(old: Path, new: Path, tmp_path: Path, candle_rocm: CommandLine) -> None:
    """A fork: what it changed in Candle's lines is planned around, and is no edit of the patch."""
    tree = shutil.copytree(old, tmp_path / "fork")
    replace_in(tree / DEVICE, "/// What computes.", "/// What computes, here.")
    replace_in(
        tree / DEVICE,
        "    pub fn is_cpu(",
        "    pub fn mine(&self) -> bool {\n        true\n    }\n\n    pub fn is_cpu(",
    )
    replace_in(tree / DTYPE, "pub trait IntDType", "// mine\npub trait IntDType")
    (tree / UTILS).write_text((tree / UTILS).read_text() + "\npub fn mine() {}\n")
    candle_rocm.ok("apply", tree)

    result = candle_rocm.ok("upgrade", tree, "--to", new, "--from", old)

    assert "edits kept" not in result.stdout
    assert candle_rocm.ok("check", tree).stdout == "up to date\n"
    device = (tree / DEVICE).read_text()
    assert "/// What computes, here." in device
    assert "pub fn mine(&self)" in device
    assert "    Rocm(crate::RocmDevice)," in device
    assert "pub fn mine() {}" in (tree / UTILS).read_text()
    assert "// as ever" in (tree / UTILS).read_text()
    assert "// mine\npub trait" in (tree / DTYPE).read_text()
    assert "F32, // wide" in (tree / DTYPE).read_text()
    candle_rocm.ok("revert", tree)
    assert "Rocm" not in (tree / DEVICE).read_text()
    assert "/// What computes, here." in (tree / DEVICE).read_text()


def test_conflicts_are_gits_own(tree: Path, up: Callable[..., tuple[int, list[str]]], candle_rocm: CommandLine) -> None:
    """In a file that no phase changes, in one that they do, and where a side deleted the file."""
    replace_in(tree / DTYPE, "    F32,", "    F32, // mine 1")
    replace_in(tree / UTILS, 'cfg!(feature = "metal")', "metal_of_mine()")
    replace_in(tree / GONE, "pub fn gone() {}", "pub fn mine_2() {}")
    git(tree, "init", "--quiet")
    commit(tree, "mine")

    code, lines = up()

    assert code == 1
    assert [line.rpartition(":")[0] for line in lines if line.startswith("conflict")] == [
        f"conflict: {path}" for path in (DTYPE, GONE, UTILS)
    ]
    assert f"conflict: {GONE}: one side has deleted it" in lines
    text = (tree / UTILS).read_text()
    (block,) = text.split("<<<<<<< this tree\n")[1:]
    mine, base, theirs = (
        block.partition("||||||| ")[0],
        block.partition("||||||| ")[2].partition("\n")[2].partition("=======\n")[0],
        block.partition("=======\n")[2].partition(">>>>>>> ")[0],
    )
    assert (mine, base, theirs) == (
        "    metal_of_mine()\n",
        '    cfg!(feature = "metal")\n',
        '    cfg!(feature = "metal") // as ever\n',
    )
    assert text.count("pub fn rocm_is_available") == 1, "what is generated stands outside of the conflict"
    states = {line[3:]: line[:2] for line in git(tree, "status", "--porcelain").splitlines()}
    assert {path: states[path] for path in (DTYPE, UTILS, GONE)} == {DTYPE: "UU", UTILS: "UU", GONE: "UD"}
    assert git(tree, "show", f":1:{GONE}").startswith("// a file that")
    assert "mine_2" in (tree / GONE).read_text()

    again = candle_rocm("upgrade", tree, "--allow-dirty")
    assert again.code == 5
    assert f"{UTILS} has a conflict that is not resolved" in again.stderr
    for path, side in ((DTYPE, r"\2"), (UTILS, r"\1")):
        (tree / path).write_text(CONFLICT.sub(side, (tree / path).read_text()))
    candle_rocm.ok("declare", tree)
    assert candle_rocm.ok("check", tree).stdout == "up to date, with declared edits in 1 file\n"
    candle_rocm.ok("revert", tree, "--keep-edits")
    assert "metal_of_mine()" in (tree / UTILS).read_text()


def test_a_release_that_git_merged(old: Path, new: Path, tmp_path: Path, candle_rocm: CommandLine) -> None:
    """Conflicts with the patch were resolved for upstream; the owner's edits are in the merge."""
    tree = shutil.copytree(old, tmp_path / "tree")
    git(tree, "init", "--quiet", "--initial-branch", "main")
    commit(tree, OLDEST)
    git(tree, "branch", "upstream")
    replace_in(tree / SCALAR, "pub enum Scalar {", "// mine 1\npub enum Scalar {")
    commit(tree, "mine")
    candle_rocm.ok("apply", tree)
    replace_in(tree / STORAGE, "use crate::backend", "// mine 2\nuse crate::backend")
    candle_rocm.ok("declare", tree)
    commit(tree, "ROCm")
    git(tree, "checkout", "--quiet", "upstream")
    git(tree, "rm", "--quiet", "-r", "candle-core", "candle-nn")
    shutil.copytree(new, tree, dirs_exist_ok=True)
    commit(tree, NEWEST)
    git(tree, "checkout", "--quiet", "main")
    git(tree, "merge", "--quiet", "upstream", code=1)
    clashing = git(tree, "diff", "--name-only", "--diff-filter=U").split()
    git(tree, "checkout", "--quiet", "--theirs", *clashing)
    commit(tree, "merged")
    assert not {STORAGE, SCALAR} & set(clashing)
    assert candle_rocm("check", tree).code == 5
    refused = candle_rocm("upgrade", tree, "--to", old)
    assert refused.code == 2
    assert f"Candle {NEWEST} was merged into the tree, which cannot go to {OLDEST} with it" in refused.stderr

    result = candle_rocm.ok("upgrade", tree)

    assert result.stdout.splitlines()[0] == f"Candle {OLDEST} -> {NEWEST}"
    assert candle_rocm.ok("check", tree).stdout == "up to date\n"
    candle_rocm.ok("apply", new)
    assert "// mine 1\n" in (tree / SCALAR).read_text()
    assert "// mine 2\n" in (tree / STORAGE).read_text()
    for path, mine in ((SCALAR, "// mine 1\n"), (STORAGE, "// mine 2\n")):
        replace_in(tree / path, mine, "")
    for folder in (tree / ".git", tree / ".candle-rocm", new / ".candle-rocm"):
        shutil.rmtree(folder)
    assert tree_hash(tree) == tree_hash(new)


def test_another_candle_rocm_on_the_same_release(candle: Path, home: Path, candle_rocm: CommandLine) -> None:
    """What it writes otherwise is written, but where the owner wrote something else."""
    candle_rocm.ok("apply", candle)
    replace_in(candle / STORAGE, "use crate::backend", "// mine\nuse crate::backend")
    candle_rocm.ok("declare", candle)
    template = home / "templates/candle/5-nn" / BACKEND
    template.write_text(template.read_text().replace("//! ", "//! Another. ", 1))
    assert candle_rocm("apply", candle).code == 5, "which is what an upgrade is for"

    result = candle_rocm.ok("upgrade", candle)

    assert result.stdout.splitlines() == [
        f"Candle {NEWEST} -> {NEWEST}",
        "Candle's own: 0 files changed, 0 new, 0 deleted",
        "ROCm: 1 files changed, 0 new, 0 deleted",
        f"edits kept: {STORAGE}",
    ]
    assert (candle / BACKEND).read_text().count("//! Another. ") == 1
    assert candle_rocm.ok("check", candle).stdout == "up to date, with declared edits in 1 file\n"
    before = tree_hash(candle)
    assert candle_rocm.ok("upgrade", candle).stdout.count(" 0 files changed, 0 new, 0 deleted") == 2
    assert tree_hash(candle) == before


def test_what_makes_no_sense_changes_nothing(tree: Path, old: Path, new: Path, candle_rocm: CommandLine) -> None:
    before = tree_hash(tree)
    bare = candle_rocm("upgrade", new, "--to", new)
    assert (bare.code, bare.stdout) == (5, "")
    assert "no phase is applied: there is nothing to upgrade" in bare.stderr
    assert candle_rocm("upgrade", NEWEST, "--to", new).code == 2
    assert candle_rocm("upgrade", tree, "--to", tree / "candle-nn").code == 2
    assert candle_rocm("upgrade", tree, "--to", "nonsense").code == 2

    git(tree, "init", "--quiet")
    commit(tree, "ROCm")
    (tree / DTYPE).write_text("// mine\n")
    dirty = candle_rocm("upgrade", tree, "--to", new, "--from", old)
    assert (dirty.code, dirty.stdout) == (6, "")
    assert f"1 file has uncommitted changes in {tree}" in dirty.stderr
    git(tree, "checkout", "--quiet", ".")
    assert tree_hash(tree / "candle-core") == tree_hash(tree / "candle-core")
    shutil.rmtree(tree / ".git")
    assert tree_hash(tree) == before


def test_the_phases_are_those_that_were_applied(old: Path, new: Path, tmp_path: Path, candle_rocm: CommandLine) -> None:
    tree = shutil.copytree(old, tmp_path / "tree")
    candle_rocm.ok("apply", tree, "--phase", "0", "--phase", "1", "--gating", "cfg")

    document = candle_rocm.ok("upgrade", tree, "--to", new, "--from", old, "--json").document

    assert (document["from"], document["to"], document["written"]) == (OLDEST, NEWEST, True)
    assert document["conflicts"] == document["kept"] == []
    assert DTYPE in document["changed"]
    record = load_record(tree)
    assert record is not None
    assert [phase.phase for phase in record.phases] == list(READY)[:2]
    assert record.header.gating == "cfg"
    assert record.header.release == NEWEST
