"""How a patched tree lives in git, told with real git and two real releases: each step with each command's answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from made_up import tree_hash

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.network]

OLD, NEW = "0.10.2", "0.11.1"
DEVICE = "candle-core/src/device.rs"
STORAGE = "candle-core/src/storage.rs"
BACKEND = "candle-core/src/rocm_backend/mod.rs"
RECORD = ".candle-rocm/record.json"
PHASES = range(8)
TAKEN_BACK = "".join(f"phase {number}: reverted\n" for number in reversed(PHASES))
OTHER_RELEASE = (
    f"conflict: {{tree}} says that it is Candle {NEW}, but the applied phases are for {OLD}: another release was "
    "merged or checked out under the patch\n"
    "  = help: `candle-rocm upgrade` takes the patch to that release, `candle-rocm revert --keep-edits` takes it out "
    f"of the files; or undo the merge; or, if the tree contains no part of the patch any more, delete {RECORD}\n"
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Fork:
    """A work tree of git."""

    root: Path

    def git(self, *arguments: str, code: int | None = 0) -> str:
        who = ("-c", "user.name=Maker", "-c", "user.email=maker@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", self.root, *who, *arguments], capture_output=True, text=True, check=False)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    @property
    def changes(self) -> list[str]:
        return self.git("status", "--porcelain").splitlines()

    def run(self, command: str, *arguments: str) -> Said:
        line = [sys.executable, "-m", "codegen", command, str(self.root), *arguments]
        done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return Said(done.returncode, done.stdout, done.stderr)

    def answer(self, command: str, *arguments: str) -> str:
        """What a command prints that ends well."""
        said = self.run(command, *arguments)
        assert said.code == 0, said.out + said.err
        return said.out

    def status(self) -> list[str]:
        """The lines of `status` below the release and the phases."""
        return [line for line in self.answer("status").splitlines()[1:] if not line.startswith("phase ")]

    def edit(self, path: str, line: str) -> None:
        file = self.root / path
        file.write_bytes(line.encode() + b"\n" + file.read_bytes())

    def clone(self, to: Path, *options: str) -> Fork:
        subprocess.run(["git", "clone", "--quiet", *options, f"file://{self.root}", str(to)], check=True)
        return Fork(to)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Fork:
    """Two releases, one commit each, on the branch `upstream`; the branch `main` is at the old one."""
    fork = Fork(tmp_path_factory.mktemp("upstream") / "candle")
    fork.root.mkdir()
    fork.git("init", "--quiet", "--initial-branch", "main")
    for release in (OLD, NEW):
        for entry in fork.root.iterdir():
            if entry.name != ".git":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        fetched = fork.root.parent / release
        subprocess.run(
            [sys.executable, "-m", "codegen", "fetch", release, "--to", str(fetched)], cwd=REPOSITORY, check=True
        )
        shutil.copytree(fetched, fork.root, dirs_exist_ok=True)
        fork.commit(release)
        fork.git("branch", f"candle-{release}")
    fork.git("branch", "upstream")
    fork.git("reset", "--quiet", "--hard", f"candle-{OLD}")
    return fork


@pytest.fixture(scope="module")
def patched(upstream: Fork, tmp_path_factory: pytest.TempPathFactory) -> Fork:
    """A fork of the old release with the patch committed on `main`."""
    fork = upstream.clone(tmp_path_factory.mktemp("patched") / "candle")
    for branch in ("upstream", f"candle-{OLD}"):
        fork.git("branch", "--quiet", branch, f"origin/{branch}")
    before = fork.answer("diff")
    applied = fork.answer("apply")
    assert applied.splitlines()[0] == "phase 0 setup: 6 files changed, 0 new"
    assert fork.answer("diff") == before, "what is generated does not depend on the record"
    assert [
        each
        for each in fork.git("status", "--porcelain", "--untracked-files=all").splitlines()
        if ".candle-rocm" in each
    ] == [f"?? {RECORD}"]
    fork.commit("ROCm")
    assert fork.changes == []
    return fork


@pytest.fixture
def fork(patched: Fork, tmp_path: Path) -> Fork:
    """A copy of the fork with all that is local."""
    return Fork(shutil.copytree(patched.root, tmp_path / "candle", symlinks=True))


def pristine(upstream: Fork, release: str, to: Path) -> str:
    return tree_hash(upstream.clone(to, "--branch", f"candle-{release}").root)


@pytest.mark.parametrize("options", [(), ("--depth", "1")], ids=["clone", "shallow"])
def test_a_clone_has_all_that_it_takes(patched: Fork, upstream: Fork, tmp_path: Path, options: tuple[str, ...]) -> None:
    clone = patched.clone(tmp_path / "clone", *options)

    assert clone.answer("check") == "up to date\n"
    assert clone.status() == []
    assert clone.answer("apply") == "nothing to do: every requested phase is already applied\n"
    assert clone.changes == [], "reading commands and an apply of nothing leave nothing that git sees"
    assert clone.answer("revert") == TAKEN_BACK
    assert tree_hash(clone.root) == pristine(upstream, OLD, tmp_path / "pristine")
    assert clone.git("diff", "--stat", "HEAD", "--", "README.md") == ""


def test_a_clone_that_was_edited(patched: Fork, tmp_path: Path) -> None:
    """git's objects have what the file was; a shallow clone has those of the last commit only."""
    clone = patched.clone(tmp_path / "clone")
    clone.edit(DEVICE, "// mine")
    differs = f"{DEVICE}: differs\n1 file differs from what apply would write\n"
    said = clone.run("check")
    assert (said.code, said.out) == (1, differs)

    shallow = patched.clone(tmp_path / "shallow", "--depth", "1")
    shallow.edit(DEVICE, "// mine")
    assert shallow.run("check").out == differs, "the last commit has the patched file"
    shallow.commit("mine")
    again = shallow.clone(tmp_path / "again", "--depth", "1")
    said = again.run("check")
    assert said.code == 1, "the published release has it"
    assert said.out == differs


def test_own_edits_are_declared(fork: Fork, upstream: Fork, tmp_path: Path) -> None:
    fork.edit(DEVICE, "// mine")
    assert fork.status() == [f"edited by hand: {DEVICE}"]
    assert fork.answer("declare") == f"declared: {DEVICE}\n"
    assert fork.status() == [f"own edits, declared: {DEVICE}"]
    assert fork.changes == [f" M {RECORD}", f" M {DEVICE}"]
    fork.commit("mine")

    clone = fork.clone(tmp_path / "clone", "--depth", "1")
    assert clone.answer("check") == "up to date, with declared edits in 1 file\n"
    clone.edit(DEVICE, "// more")
    said = clone.run("check")
    assert (said.code, said.out.splitlines()[0]) == (1, f"{DEVICE}: differs from the declared edits")
    clone.git("checkout", "--quiet", ".")

    clone.answer("revert", "--phase", "7")
    clone.answer("apply", "--allow-dirty")
    assert clone.changes == [], "edits stay declared over reverts and applies"
    clone.answer("revert")
    assert (clone.root / DEVICE).read_bytes().startswith(b"// mine\n")
    (clone.root / DEVICE).write_bytes((clone.root / DEVICE).read_bytes().removeprefix(b"// mine\n"))
    assert tree_hash(clone.root) == pristine(upstream, OLD, tmp_path / "pristine")

    assert fork.answer("declare", DEVICE, "--undo") == f"no longer declared: {DEVICE}\n"
    assert fork.status() == [f"edited by hand: {DEVICE}"]


def test_own_edits_that_conflict_are_named(fork: Fork) -> None:
    text = (fork.root / STORAGE).read_bytes()
    (fork.root / STORAGE).write_bytes(text.replace(b"    Rocm(RocmStorage),\n", b"    Rocm(RocmStorage), // mine\n", 1))
    fork.edit(BACKEND, "// mine")
    fork.answer("declare")
    before = tree_hash(fork.root)

    said = fork.run("revert")

    assert said.code == 5
    assert f"{BACKEND}: your own edits would go with the file, which candle-rocm made\n" in said.err
    assert f"{STORAGE}: your own edits conflict with what becomes of the file (line " in said.err
    assert tree_hash(fork.root) == before
    forced = fork.run("revert", "--force")
    assert forced.code == 0
    backup = fork.root / ".candle-rocm/local/backups/1"
    assert forced.err.splitlines() == [
        f"discarding the edits in {BACKEND}",
        f"discarding the edits in {STORAGE}",
        f"the discarded edits are kept in {backup}",
    ]
    assert b"// mine" in (backup / STORAGE).read_bytes()
    assert (backup / BACKEND).read_bytes().startswith(b"// mine\n")


def test_other_branches(fork: Fork) -> None:
    fork.git("checkout", "--quiet", f"candle-{OLD}")
    assert fork.changes == []
    assert fork.answer("status") == f"Candle {OLD}\nnothing is applied\n"
    assert fork.run("check").code == 1
    fork.git("checkout", "--quiet", "upstream")
    assert fork.answer("status") == f"Candle {NEW}\nnothing is applied\n"
    fork.git("checkout", "--quiet", "main")
    assert fork.answer("check") == "up to date\n"
    fork.git("checkout", "--quiet", "-b", "other", "upstream")
    fork.answer("apply")
    fork.commit("ROCm on the new one")
    assert fork.answer("check") == "up to date\n"
    fork.git("checkout", "--quiet", "main")
    assert fork.answer("check") == "up to date\n"
    fork.git("clean", "--quiet", "-fdx")
    assert not (fork.root / ".candle-rocm/local").exists()
    assert fork.answer("check") == "up to date\n"
    assert fork.answer("revert") == TAKEN_BACK
    assert fork.git("diff", "--stat", f"candle-{OLD}") == ""


def test_what_was_applied_and_not_committed_is_taken_back_by_git(fork: Fork) -> None:
    fork.git("checkout", "--quiet", f"candle-{OLD}")
    fork.answer("apply")
    patched = tree_hash(fork.root)
    fork.git("checkout", "--quiet", ".")

    half = fork.status()
    assert half[0].endswith("files of them in the original state (by git checkout, git stash or a partial commit):")
    assert half[-1] == "  = help: `candle-rocm apply` writes them again, `candle-rocm revert` reverts the rest"
    said = fork.run("check")
    assert said.code == 1
    assert f"{DEVICE}: is not applied\n" in said.out
    fork.answer("apply")
    assert tree_hash(fork.root) == patched
    fork.git("checkout", "--quiet", ".")
    assert fork.answer("revert") == TAKEN_BACK
    assert fork.changes == []

    fork.answer("apply")
    fork.git("checkout", "--quiet", ".")
    fork.git("clean", "--quiet", "-fd")
    assert fork.changes == []
    assert fork.answer("status") == f"Candle {OLD}\nnothing is applied\n"
    fork.answer("apply")
    assert tree_hash(fork.root) == patched


def test_stash_and_worktree(fork: Fork, tmp_path: Path) -> None:
    fork.git("checkout", "--quiet", "-b", "work", f"candle-{OLD}")
    fork.answer("apply")
    patched = tree_hash(fork.root)
    fork.git("stash", "--quiet")
    assert fork.status()[-1].startswith("  = help: `candle-rocm apply` writes them again")
    fork.git("stash", "pop", "--quiet")
    assert fork.answer("check") == "up to date\n"
    fork.git("stash", "--quiet", "--include-untracked")
    assert fork.answer("status") == f"Candle {OLD}\nnothing is applied\n"
    fork.git("stash", "pop", "--quiet")
    assert tree_hash(fork.root) == patched
    assert fork.answer("check") == "up to date\n"

    fork.git("worktree", "add", "--quiet", str(tmp_path / "second"), "main")
    second = Fork(tmp_path / "second")
    assert second.answer("check") == "up to date\n"
    assert second.answer("revert") == TAKEN_BACK
    assert second.git("diff", "--stat", f"candle-{OLD}") == ""
    assert fork.answer("check") == "up to date\n"


def test_partial_commits(fork: Fork, tmp_path: Path) -> None:
    fork.git("checkout", "--quiet", "-b", "work", f"candle-{OLD}")
    fork.answer("apply")
    fork.git("add", "--all")
    fork.git("reset", "--quiet", "--", DEVICE, BACKEND)
    fork.git("commit", "--quiet", "--message", "most of it")
    clone = fork.clone(tmp_path / "clone", "--branch", "work")

    assert clone.status() == [
        "2 files of them in the original state (by git checkout, git stash or a partial commit):",
        f"original state: {DEVICE}",
        f"original state: {BACKEND}",
        "  = help: `candle-rocm apply` writes them again, `candle-rocm revert` reverts the rest",
    ]
    said = clone.run("check")
    assert (said.code, said.out.splitlines()[:2]) == (1, [f"{DEVICE}: is not applied", f"{BACKEND}: is missing"])
    clone.answer("apply")
    assert clone.answer("check") == "up to date\n"

    fork.git("rm", "--quiet", "--cached", RECORD)
    fork.git("commit", "--quiet", "--message", "without the record")
    other = fork.clone(tmp_path / "other", "--branch", "work")
    assert other.status()[0] == "nothing is applied"
    assert other.status()[1].startswith("generated by candle-rocm, but without a record: candle-core/")
    assert other.status()[-1].startswith(f"  = help: restore {RECORD}")
    said = other.run("apply")
    assert said.code == 5
    assert f"restore {RECORD}" in said.err


def test_a_merge_conflict_in_the_record(fork: Fork) -> None:
    fork.git("checkout", "--quiet", "-b", "cfg", f"candle-{OLD}")
    fork.answer("apply", "--gating", "cfg")
    fork.commit("ROCm, the other gating")
    fork.git("merge", "--quiet", "main", code=1)
    said = fork.run("status")
    assert said.code == 5
    assert "record.json:" in said.err
    assert "the record has a merge conflict that is not resolved" in said.err

    fork.git("checkout", "--theirs", ".")
    assert fork.answer("check").startswith("up to date"), "main's files and main's record"
    assert "(dummy gating, dynamic runtime)" in fork.answer("status")


@pytest.mark.parametrize("how", ["merge", "rebase"])
def test_a_new_release_under_the_patch(fork: Fork, how: str) -> None:
    fork.edit(DEVICE, "// mine")
    fork.answer("declare")
    fork.commit("mine")
    if how == "merge":
        fork.git("merge", "--quiet", "upstream", code=1)
        side = "--theirs"
    else:
        fork.git("rebase", "--quiet", "upstream", code=1)
        side = "--ours"
    unmerged = fork.git("diff", "--name-only", "--diff-filter=U").split()
    assert "candle-core/Cargo.toml" in unmerged
    for command in (("status",), ("revert", "--force"), ("apply", "--force")):
        said = fork.run(*command)
        assert said.code == 5
        assert "has a merge conflict with another release" in said.err or "says that it is Candle" in said.err
    fork.git("checkout", "--quiet", side, "--", *unmerged)
    fork.git("add", "--all")
    fork.git("-c", "core.editor=true", how, "--continue")
    before = tree_hash(fork.root)

    lines = fork.answer("status").splitlines()
    assert lines[0] == f"Candle {NEW}"
    assert lines[1] == f"the applied phases are for Candle {OLD}, but another release was merged"
    assert json.loads(fork.answer("status", "--json"))["recorded_release"] == OLD
    for command in (("check",), ("apply",), ("apply", "--force"), ("revert",), ("revert", "--force"), ("diff",)):
        said = fork.run(*command)
        assert (said.code, said.err) == (5, OTHER_RELEASE.format(tree=fork.root)), command
    assert tree_hash(fork.root) == before, "nothing of the old release is written over the merge"

    assert fork.answer("revert", "--keep-edits") == TAKEN_BACK
    assert fork.git("diff", "--stat", "upstream").splitlines()[0].split() == [DEVICE, "|", "1", "+"]
    assert fork.git("ls-files", "--others", "--exclude-standard") == ""
    fork.commit("out")
    fork.answer("apply")
    assert fork.answer("check") == "up to date\n"
    fork.answer("revert")
    assert fork.changes == []
