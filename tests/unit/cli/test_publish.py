"""`publish`: the same hashes each time, a commit for each phase, and tags that stay where they are."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import READY, replace_in, tree_hash

from codegen.candle.fetch import FetchedRelease
from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

RELEASE = "0.11.1"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def registry(pristine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the made-up tree as a release."""

    def fetched(version: str, to: Path, **_more: object) -> FetchedRelease:
        return FetchedRelease(version, shutil.copytree(pristine, to), (), ())

    monkeypatch.setattr("codegen.workspace.publish.copy_release", fetched)


@pytest.fixture
def published(candle_rocm: CommandLine, tmp_path: Path) -> Path:
    candle_rocm.ok("publish", tmp_path / "published.git", RELEASE)
    return tmp_path / "published.git"


def test_a_branch_has_candle_and_a_commit_for_each_phase(published: Path) -> None:
    lines = git(published, "log", "--reverse", "--format=%s", f"{RELEASE}-rocm").splitlines()
    assert lines == [
        f"Candle {RELEASE}, as it was published",
        *(f"ROCm, phase {number}: {name}" for number, name in READY.items()),
    ]
    assert (
        git(published, "rev-parse", f"{RELEASE}-rocm", "HEAD", f"{RELEASE}-rocm.1").split()
        == [git(published, "rev-parse", "HEAD")] * 3
    )


def test_what_is_in_it_is_what_apply_writes(
    published: Path, candle: Path, pristine: Path, candle_rocm: CommandLine, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--branch", f"{RELEASE}-rocm.1", published, clone], check=True)
    assert candle_rocm.ok("check", clone).stdout == "up to date\n"
    shutil.rmtree(clone / ".git")
    candle_rocm.ok("apply", candle)
    shutil.rmtree(candle / ".candle-rocm/local")
    shutil.rmtree(clone / ".candle-rocm/local", ignore_errors=True)
    for name in (".gitignore", "record.json"):
        (candle / ".candle-rocm" / name).unlink(missing_ok=True)
        (clone / ".candle-rocm" / name).unlink(missing_ok=True)
    assert tree_hash(clone) == tree_hash(candle)


def test_twice_is_the_same_to_the_hash_here_and_elsewhere(
    published: Path, candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = git(published, "show-ref")
    again = candle_rocm.ok("publish", published, RELEASE)
    assert git(published, "show-ref") == before
    assert again.stdout.rstrip().endswith("as before")

    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_text("[user]\nname = x\n[core]\nautocrlf = true\n", encoding="utf-8")
    candle_rocm.ok("publish", tmp_path / "elsewhere.git", RELEASE)
    assert git(tmp_path / "elsewhere.git", "show-ref") == before


def test_a_changed_patch_is_the_next_number_and_the_old_tag_stays(
    home: Path, candle_rocm: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "published.git"
    candle_rocm.ok("publish", folder, RELEASE)
    first = git(folder, "rev-parse", f"{RELEASE}-rocm.1")
    template = next(iter(sorted((home / "templates/candle/3-tensors/candle-core/src/rocm_backend").glob("*.rs"))))
    template.write_text(template.read_text(encoding="utf-8") + "\n// Changed.\n", encoding="utf-8")

    (row,) = candle_rocm.ok("publish", folder, RELEASE, "--json").document["releases"]

    assert (row["tag"], row["new"]) == (f"{RELEASE}-rocm.2", True)
    assert git(folder, "rev-parse", f"{RELEASE}-rocm.1") == first
    assert git(folder, "rev-parse", f"{RELEASE}-rocm") == row["commit"] != first


def test_an_error_in_the_middle_changes_no_reference(home: Path, candle_rocm: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "published.git"
    candle_rocm.ok("publish", folder, RELEASE)
    before = git(folder, "show-ref")
    replace_in(home / "specs/phases/7-examples.yaml", "phase: 7", "phase: x")
    assert candle_rocm("publish", folder, RELEASE).code != 0
    assert git(folder, "show-ref") == before


def test_a_release_that_is_published_stays_when_the_next_one_fails(
    candle_rocm: CommandLine, pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(version: str, to: Path, **_more: object) -> FetchedRelease:
        if version != RELEASE:
            raise InputOutputError("the registry does not answer", remedy="try again")
        return FetchedRelease(version, shutil.copytree(pristine, to), (), ())

    monkeypatch.setattr("codegen.workspace.publish.copy_release", fetched)
    folder = tmp_path / "published.git"
    assert candle_rocm("publish", folder, RELEASE, "0.9.1").code != 0
    assert git(folder, "tag").split() == [f"{RELEASE}-rocm.1"]


def test_a_folder_of_somebody_elses_is_left_alone(candle_rocm: CommandLine, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    subprocess.run(["git", "init", "--quiet", mine], check=True)
    before = tree_hash(mine)
    refused = candle_rocm("publish", mine, RELEASE)
    assert (refused.code, "is no repository that `publish` made" in refused.stderr) == (2, True)
    assert tree_hash(mine) == before


def test_no_hook_of_the_repository_runs(published: Path, candle_rocm: CommandLine, tmp_path: Path) -> None:
    (published / "hooks").mkdir()
    hook = published / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    hook.chmod(0o755)
    candle_rocm.ok("publish", published, RELEASE)
    assert not (tmp_path / "ran").exists()
