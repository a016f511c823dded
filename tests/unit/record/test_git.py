"""Work that is not committed is found, whatever the shape of the repository, and our own is not counted."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from phased import apply_phase, revert_phase

from codegen.errors import DirtyTree, ExitCode, InputOutputError
from codegen.patch.changes import FileChange
from codegen.record.disk import Disk
from codegen.record.git import not_checked_out, require_clean, uncommitted
from codegen.record.record import Record, RecordHeader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git.py was not tested: git is not installed")

HEADER = RecordHeader("0.1.0", "0.11.1", "dummy", "rocm-rs")


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    """Tests need not wait until every file is on the medium."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "flush", lambda disk, descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _neutral_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of this machine, and no repository above the temporary folder."""
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def write(root: Path, *names: str, content: bytes = b"x\n") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "candle"
    write(root, "candle-core/src/lib.rs", "candle-nn/src/ops.rs", "README.md")
    write(root, ".gitignore", content=b"target/\n*.log\n")
    git(root, "init", "--quiet")
    commit(root)
    return root


def applied(root: Path) -> Record:
    changes = [
        FileChange("README.md", (root / "README.md").read_bytes(), b"ours\n"),
        FileChange("candle-core/src/rocm/mod.rs", None, b"ours\n"),
    ]
    return apply_phase(root, 0, changes, HEADER)


# What counts


def test_a_committed_tree_is_clean(checkout: Path) -> None:
    assert uncommitted(checkout) == ()
    require_clean(checkout)


def test_all_kinds_of_changes_count(checkout: Path) -> None:
    write(checkout, "changed-and-staged", "removed", "renamed", "mode")
    commit(checkout)
    write(checkout, "candle-core/src/lib.rs", "changed-and-staged", content=b"y\n")
    write(checkout, "new/untracked.rs", "new/staged.rs")
    git(checkout, "add", "changed-and-staged", "new/staged.rs")
    git(checkout, "mv", "renamed", "renamed-to")
    (checkout / "removed").unlink()
    (checkout / "mode").chmod(0o755)

    assert uncommitted(checkout) == (
        "candle-core/src/lib.rs",
        "changed-and-staged",
        "mode",
        "new/staged.rs",
        "new/untracked.rs",
        "removed",
        "renamed",
        "renamed-to",
    )


def test_ignored_files_do_not_count(checkout: Path) -> None:
    write(checkout, "target/debug/x", "build.log")

    assert uncommitted(checkout) == ()


@pytest.mark.parametrize("name", ["a b.rs", "é/日本.rs", 'q"uo\\te.rs', "tab\tline\nend.rs", " -> ", "-x"])
def test_unusual_paths_come_out_as_they_are(checkout: Path, name: str) -> None:
    write(checkout, name)

    assert uncommitted(checkout) == (name,)


def test_a_path_that_is_not_utf_8(checkout: Path) -> None:
    name = os.fsdecode(b"caf\xe9.rs")
    write(checkout, name)

    assert uncommitted(checkout) == (name,)


def test_a_repository_without_commit(tmp_path: Path) -> None:
    write(tmp_path / "candle", "a.rs")
    git(tmp_path / "candle", "init", "--quiet")

    assert uncommitted(tmp_path / "candle") == ("a.rs",)


@pytest.mark.parametrize("setting", ["status.relativePaths=false", "status.showUntrackedFiles=no", "status.short=true"])
def test_settings_of_the_user_do_not_matter(checkout: Path, setting: str) -> None:
    git(checkout, "config", *setting.split("="))
    write(checkout, "new/untracked.rs")

    assert uncommitted(checkout) == ("new/untracked.rs",)


def test_looking_does_not_write(checkout: Path) -> None:
    index = checkout / ".git/index"
    os.utime(checkout / "README.md", (1_000_000_000, 1_000_000_000))
    before = index.read_bytes()

    assert uncommitted(checkout) == ()
    assert index.read_bytes() == before


# Where the tree lies


def test_a_tree_inside_a_repository_minds_only_itself(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    write(outer, "vendor/candle/a.rs", "vendor/candle-other/a.rs", "mine.rs")
    git(outer, "init", "--quiet")
    commit(outer)
    write(outer, "mine.rs", "vendor/candle-other/a.rs", content=b"y\n")
    write(outer, "vendor/untracked.rs")

    assert uncommitted(outer / "vendor/candle") == ()

    write(outer, "vendor/candle/a.rs", "vendor/candle/sub/b.rs", content=b"y\n")
    assert uncommitted(outer / "vendor/candle") == ("a.rs", "sub/b.rs")


def test_a_file_moved_into_the_tree_counts(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    write(outer, "candle/a.rs", "b.rs")
    git(outer, "init", "--quiet")
    commit(outer)
    git(outer, "mv", "b.rs", "candle/b.rs")

    assert uncommitted(outer / "candle") == ("b.rs",)


@pytest.mark.parametrize("ignored", [True, False])
def test_a_tree_of_which_git_tracks_nothing_is_no_checkout(tmp_path: Path, ignored: bool) -> None:  # noqa: FBT001 - a pytest parameter
    outer = tmp_path / "outer"
    write(outer, "mine.rs")
    if ignored:
        write(outer, ".gitignore", content=b"/cache\n")
    git(outer, "init", "--quiet")
    commit(outer)
    write(outer, "cache/candle/a.rs", "cache/candle/b/c.rs")

    assert uncommitted(outer / "cache/candle") == ()
    require_clean(outer / "cache/candle")


def test_a_folder_in_no_repository_is_clean(tmp_path: Path) -> None:
    write(tmp_path / "candle", "a.rs")

    assert uncommitted(tmp_path / "candle") == ()
    require_clean(tmp_path / "candle")


def test_a_worktree(checkout: Path) -> None:
    git(checkout, "worktree", "add", "--quiet", "../worktree")
    worktree = checkout.parent / "worktree"
    write(checkout, "README.md", content=b"y\n")

    assert uncommitted(worktree) == ()

    write(worktree, "candle-nn/src/ops.rs", content=b"y\n")
    assert uncommitted(worktree) == ("candle-nn/src/ops.rs",)
    assert uncommitted(worktree / "candle-nn") == ("src/ops.rs",)


def test_what_a_sparse_checkout_leaves_out_is_named(checkout: Path) -> None:
    """Also for a tree inside of the repository; what lies there all the same is there."""
    assert not_checked_out(checkout) == ()
    git(checkout, "sparse-checkout", "set", "--no-cone", "/*", "!/candle-nn/", "!/candle-core/src/lib.rs")
    assert not (checkout / "candle-nn").exists()

    assert not_checked_out(checkout) == ("candle-core/src/lib.rs", "candle-nn/src/ops.rs")
    (checkout / "candle-core").mkdir()
    assert not_checked_out(checkout / "candle-core") == ("src/lib.rs",)
    with pytest.raises(DirtyTree) as caught:
        require_clean(checkout)
    assert (
        str(caught.value)
        .splitlines()[0]
        .endswith(f"2 files are left out of the sparse checkout {checkout}, and would not be patched:")
    )
    assert "= help: check them out (git sparse-checkout disable), or pass --allow-dirty" in str(caught.value)

    write(checkout, "candle-nn/src/ops.rs")
    assert not_checked_out(checkout) == ("candle-core/src/lib.rs",)
    git(checkout, "sparse-checkout", "disable")
    assert not_checked_out(checkout) == ()
    require_clean(checkout)


def test_the_inside_of_a_submodule_does_not_count(checkout: Path, tmp_path: Path) -> None:
    library = tmp_path / "cutlass"
    write(library, "a.h")
    git(library, "init", "--quiet")
    commit(library)
    git(checkout, "submodule", "--quiet", "add", str(library), "cutlass")
    commit(checkout)
    write(checkout / "cutlass", "a.h", "b.h", content=b"y\n")

    assert uncommitted(checkout) == ()


def test_a_tree_given_through_a_link(checkout: Path) -> None:
    (checkout.parent / "alias").symlink_to(checkout)
    write(checkout, "README.md", content=b"y\n")

    assert uncommitted(checkout.parent / "alias") == ("README.md",)


def test_a_repository_named_by_the_environment_is_not_asked(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    write(other, "a.rs")
    git(other, "init", "--quiet")
    write(checkout, "README.md", content=b"y\n")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))

    assert uncommitted(checkout) == ("README.md",)


# What is ours


def test_what_we_wrote_does_not_count(checkout: Path) -> None:
    record = applied(checkout)

    assert uncommitted(checkout, record) == ()
    assert uncommitted(checkout) == ("README.md", "candle-core/src/rocm/mod.rs")
    require_clean(checkout, record)


def test_what_we_wrote_and_the_user_staged_does_not_count(checkout: Path) -> None:
    record = applied(checkout)
    git(checkout, "add", "--all")

    assert uncommitted(checkout, record) == ()


def test_what_the_user_changed_or_deleted_of_ours_counts(checkout: Path) -> None:
    record = applied(checkout)
    write(checkout, "candle-core/src/rocm/mod.rs", content=b"mine\n")
    (checkout / "README.md").unlink()

    assert uncommitted(checkout, record) == ("README.md", "candle-core/src/rocm/mod.rs")


def test_other_files_beside_ours_count(checkout: Path) -> None:
    record = applied(checkout)
    write(checkout, "candle-core/src/rocm/mine.rs")

    assert uncommitted(checkout, record) == ("candle-core/src/rocm/mine.rs",)


def test_git_never_sees_the_record(checkout: Path) -> None:
    applied(checkout)

    assert not any(path.startswith(".candle-rocm") for path in uncommitted(checkout))


def test_reverting_what_the_user_committed_is_a_change_of_theirs_to_commit(checkout: Path) -> None:
    applied(checkout)
    commit(checkout)
    assert uncommitted(checkout) == ()

    assert revert_phase(checkout) is None

    assert uncommitted(checkout) == ("README.md", "candle-core/src/rocm/mod.rs")


def test_after_a_revert_git_sees_a_clean_tree(checkout: Path) -> None:
    applied(checkout)

    revert_phase(checkout)

    assert uncommitted(checkout) == ()
    assert not (checkout / ".candle-rocm").exists()


# Messages


def test_few_files_are_all_named(checkout: Path) -> None:
    write(checkout, "a.rs")

    with pytest.raises(DirtyTree) as caught:
        require_clean(checkout)

    assert caught.value.exit_code == ExitCode.IO
    assert str(caught.value) == (
        f"dirty git tree: 1 file has uncommitted changes in {checkout}:\n"
        "a.rs\n"
        "  = help: commit or stash them, or pass --allow-dirty"
    )


def test_of_many_files_ten_are_named(checkout: Path) -> None:
    write(checkout, *(f"{number:02}.rs" for number in range(13)))

    with pytest.raises(DirtyTree) as caught:
        require_clean(checkout)

    text = str(caught.value)
    assert f"13 files have uncommitted changes in {checkout}:\n00.rs\n" in text
    assert "09.rs\nand 3 more\n" in text
    assert "10.rs" not in text


def test_exactly_ten_files_are_all_named(checkout: Path) -> None:
    write(checkout, *(f"{number}.rs" for number in range(10)))

    with pytest.raises(DirtyTree, match=r"9\.rs\n  = help") as caught:
        require_clean(checkout)

    assert "more" not in str(caught.value)


def test_without_git_nothing_can_be_uncommitted(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(checkout, "a.rs")
    monkeypatch.setenv("PATH", str(checkout / "candle-core"))

    assert uncommitted(checkout) == ()
    require_clean(checkout)


def fake_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'fatal: detected dubious ownership in repository' >&2; exit 128", "detected dubious ownership"),
        ("exit 3", "exit status 3"),
        ('case "$*" in *config*) ;; *) echo "bad index file" >&2; exit 128;; esac', "bad index"),
    ],
)
def test_a_git_that_refuses_is_quoted(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    fake_git(tmp_path / "bin", script, monkeypatch)

    with pytest.raises(InputOutputError) as caught:
        require_clean(checkout)

    assert type(caught.value) is InputOutputError
    assert caught.value.exit_code == ExitCode.IO
    assert f"git cannot tell what is uncommitted in {checkout}: " in str(caught.value)
    assert reason in str(caught.value)
    assert "solve the problem that git reports, or pass --allow-dirty" in str(caught.value)


def test_the_inside_of_a_git_folder_is_no_work_tree(checkout: Path) -> None:
    assert uncommitted(checkout / ".git") == ()


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputOutputError, match="git cannot tell what is uncommitted"):
        uncommitted(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000], ids=["component", "path"])
def test_a_name_that_is_too_long_leads_to_no_repository(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").write_text(f"gitdir: {name}\n")

    assert uncommitted(tmp_path) == ()
    assert not_checked_out(tmp_path) == ()
