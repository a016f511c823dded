"""git tells what is uncommitted in a tree, and nothing that the tree says makes it run a program."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from codegen.errors import InputOutputError
from codegen.record.git import uncommitted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git.py was not tested: git is not installed")


@pytest.fixture(autouse=True)
def _neutral_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "candle"
    (root / "src").mkdir(parents=True)
    (root / "src/lib.rs").write_text("x\n")
    (root / ".gitattributes").write_text("*.rs filter=evil diff=evil merge=evil\n")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=x")
    return root


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A program that leaves a trace when it is run."""
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(0o755)
    return program


def touch(path: Path) -> None:
    """Make git look into a file: its time is not the one in the index."""
    path.write_bytes(path.read_bytes())
    os.utime(path, (time.time() + 100, time.time() + 100))


SETTINGS = {
    "filter.evil.clean": "{evil}",
    "filter.evil.smudge": "{evil}",
    "filter.evil.process": "{evil}",
    "diff.evil.textconv": "{evil}",
    "diff.evil.command": "{evil}",
    "diff.external": "{evil}",
    "core.fsmonitor": "{evil}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{evil}",
    "pager.status": "{evil}",
    "core.editor": "{evil}",
    "core.sshCommand": "{evil}",
    "core.gitProxy": "{evil}",
    "core.askPass": "{evil}",
    "credential.helper": "{evil}",
    "alias.status": "!{evil}",
    "alias.ls-files": "!{evil}",
    "status.submoduleSummary": "true",
    "gpg.program": "{evil}",
}


def make_hostile(checkout: Path, evil: Path, *settings: str) -> None:
    hooks = evil.parent / "hooks"
    hooks.mkdir(exist_ok=True)
    for folder in (hooks, checkout / ".git/hooks"):
        for name in ("post-index-change", "fsmonitor-watchman", "query-watchman", "pre-commit"):
            shutil.copy(evil, folder / name)
    for name in settings:
        git(checkout, "config", name, SETTINGS[name].format(evil=evil, hooks=hooks))
    touch(checkout / "src/lib.rs")


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_setting_of_the_tree_runs_a_program(checkout: Path, evil: Path, setting: str) -> None:
    make_hostile(checkout, evil, setting)

    assert uncommitted(checkout) == ()
    assert not (evil.parent / "was-run").exists()


def test_a_filter_would_be_run_by_git_itself(checkout: Path, evil: Path) -> None:
    """The tests above see a program that is run."""
    make_hostile(checkout, evil, "filter.evil.clean")

    git(checkout, "status")
    assert (evil.parent / "was-run").exists()


def test_settings_in_included_files_and_of_a_work_tree(checkout: Path, evil: Path) -> None:
    (evil.parent / "more").write_text(f'[filter "evil"]\n\tclean = {evil}\n[core]\n\tfsmonitor = {evil}\n')
    git(checkout, "config", "include.path", str(evil.parent / "more"))
    git(checkout, "config", "extensions.worktreeConfig", "true")
    (checkout / ".git/config.worktree").write_text(f'[filter "evil"]\n\tprocess = {evil}\n')
    touch(checkout / "src/lib.rs")

    assert uncommitted(checkout) == ()
    assert not (evil.parent / "was-run").exists()


def test_a_missing_object_is_not_fetched(checkout: Path, evil: Path) -> None:
    tree = git(checkout, "rev-parse", "HEAD^{tree}")
    git(checkout, "config", "core.repositoryFormatVersion", "1")
    git(checkout, "config", "extensions.partialClone", "origin")
    git(checkout, "config", "remote.origin.url", f"ext::{evil} %S")
    git(checkout, "config", "remote.origin.promisor", "true")
    git(checkout, "config", "protocol.ext.allow", "always")
    git(checkout, "config", "core.sshCommand", str(evil))
    (checkout / f".git/objects/{tree[:2]}/{tree[2:]}").unlink()

    with pytest.raises(InputOutputError, match="git cannot tell what is uncommitted"):
        uncommitted(checkout)
    assert not (evil.parent / "was-run").exists()


def test_settings_of_a_submodule(checkout: Path, evil: Path) -> None:
    library = evil.parent / "library"
    library.mkdir()
    (library / "a.h").write_text("x\n")
    git(library, "init", "--quiet")
    git(library, "add", "--all")
    git(library, "commit", "--quiet", "--message=x")
    git(checkout, "submodule", "--quiet", "add", str(library), "library")
    git(checkout, "commit", "--quiet", "--message=y")
    inner = checkout / "library"
    (checkout / ".git/modules/library/info/attributes").write_text("* filter=evil\n")
    git(inner, "config", "filter.evil.clean", str(evil))
    git(inner, "config", "core.fsmonitor", str(evil))
    touch(inner / "a.h")

    assert uncommitted(checkout) == ()
    assert not (evil.parent / "was-run").exists()


def test_a_work_tree_elsewhere_is_not_believed(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/letter.txt").write_text("dear\n")
    git(checkout, "config", "core.worktree", str(tmp_path / "private"))

    assert uncommitted(checkout) == ()


def test_the_user_s_own_settings_count(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ignored").write_text("*.orig\n")
    (tmp_path / "gitconfig").write_text(f'[core]\n\texcludesFile = "{tmp_path}/ignored"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (checkout / "a.orig").touch()
    (checkout / "b.rs").touch()

    assert uncommitted(checkout) == ("b.rs",)


def test_settings_of_the_tree_that_say_how_files_are_compared(checkout: Path) -> None:
    git(checkout, "config", "core.fileMode", "false")
    (checkout / "src/lib.rs").chmod(0o755)
    assert uncommitted(checkout) == ()

    git(checkout, "config", "core.fileMode", "true")
    assert uncommitted(checkout) == ("src/lib.rs",)


@pytest.mark.parametrize("name", [".gitignore", "src/.gitignore"])
def test_a_pipe_that_git_would_read_for_ever(checkout: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codegen.record.git._LIMIT_SECONDS", 0.5)
    os.mkfifo(checkout / name)

    with pytest.raises(InputOutputError, match="did not end in"):
        uncommitted(checkout)


@pytest.mark.parametrize("name", ["index", "config", "HEAD", "info/exclude", "packed-refs", "commondir"])
def test_a_pipe_in_the_repository(checkout: Path, name: str) -> None:
    path = checkout / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    started = time.monotonic()
    uncommitted(checkout)
    assert time.monotonic() - started < 60, "it would wait for a writer for ever"
