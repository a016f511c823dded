"""The scratch tree: equal to source plus overlay, minimal writes, no stale results across trees."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.errors import ExitCode, InputOutputError
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.scratch import ScratchTree, member_manifests, release_of, tree_files

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = '[workspace]\nmembers = ["one"]\nresolver = "2"\n[workspace.package]\nversion = "1.2.3"\n'


def make(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def workspace(root: Path, library: str) -> Path:
    manifest = '[package]\nname = "one"\nversion.workspace = true\nedition = "2021"\n'
    return make(root, {"Cargo.toml": MANIFEST, "one/Cargo.toml": manifest, "one/src/lib.rs": library})


def contents(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path in tree_files(root)}


def scratch_at(tmp_path: Path, name: str = "scratch") -> ScratchTree:
    return ScratchTree(tmp_path / name, tmp_path / "target")


def test_sources_are_copied_and_nothing_else(tmp_path: Path) -> None:
    source = make(
        tmp_path / "source",
        {
            "Cargo.toml": MANIFEST,
            "a/src/lib.rs": "",
            ".cargo/config.toml": "",
            ".git/HEAD": "x",
            ".candle-rocm/before/1/a.rs": "x",
            "target/debug/big": "x",
            "flash/cutlass/huge.h": "x",
        },
    )
    scratch = scratch_at(tmp_path)
    scratch.sync(source)
    assert sorted(contents(scratch.root)) == [".cargo/config.toml", "Cargo.toml", "a/src/lib.rs"]


def test_the_source_is_never_written_to(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST, "a.rs": "old"})
    before = contents(source)
    scratch_at(tmp_path).sync(source, {"a.rs": b"new", "b.rs": b"", "Cargo.toml": None})
    assert contents(source) == before


def test_overlay_replaces_adds_and_removes(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST, "a.rs": "old", "gone.rs": "x"})
    scratch = scratch_at(tmp_path)
    scratch.sync(source, {"a.rs": b"new", "sub/b.rs": b"added", "gone.rs": None})
    assert contents(scratch.root) == {"Cargo.toml": MANIFEST.encode(), "a.rs": b"new", "sub/b.rs": b"added"}
    scratch.sync(source)
    assert contents(scratch.root) == contents(source)


NAMES = st.sampled_from(["a.rs", "b.rs", "sub/c.rs", "sub/d.toml"])
TREES = st.dictionaries(NAMES, st.binary(max_size=3))
OVERLAYS = st.dictionaries(NAMES, st.none() | st.binary(max_size=3))


@settings(max_examples=40)
@given(first=st.tuples(TREES, OVERLAYS), second=st.tuples(TREES, OVERLAYS))
def test_sync_gives_source_plus_overlay_whatever_was_there_before(
    tmp_path_factory: pytest.TempPathFactory,
    first: tuple[dict[str, bytes], dict[str, bytes | None]],
    second: tuple[dict[str, bytes], dict[str, bytes | None]],
) -> None:
    base = tmp_path_factory.mktemp("sync")
    scratch = scratch_at(base)
    for number, (files, overlay) in enumerate((first, second)):
        source = base / str(number)
        source.mkdir()
        for path, content in files.items():
            (source / path).parent.mkdir(exist_ok=True)
            (source / path).write_bytes(content)
        scratch.sync(source, overlay)
        expected = {path: content for path, content in {**files, **overlay}.items() if content is not None}
        assert contents(scratch.root) == expected


def test_unchanged_files_keep_their_time_and_a_generated_lock_stays(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST, "a.rs": "a", "b.rs": "b"})
    scratch = scratch_at(tmp_path)
    scratch.sync(source)
    (scratch.root / "Cargo.lock").write_text("made by cargo", encoding="utf-8")
    times = {path: (scratch.root / path).stat().st_mtime_ns for path in ("a.rs", "b.rs")}
    scratch.sync(source, {"b.rs": b"changed"})
    assert (scratch.root / "a.rs").stat().st_mtime_ns == times["a.rs"]
    assert (scratch.root / "b.rs").stat().st_mtime_ns > times["b.rs"]
    assert (scratch.root / "Cargo.lock").read_text(encoding="utf-8") == "made by cargo"


def test_a_lock_of_the_source_wins(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST, "Cargo.lock": "theirs"})
    scratch = scratch_at(tmp_path)
    make(scratch.root, {"Cargo.lock": "stale"})
    scratch.sync(source)
    assert (scratch.root / "Cargo.lock").read_text(encoding="utf-8") == "theirs"


def test_files_are_touched_when_another_scratch_tree_built_the_release_last(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST, "a.rs": "a"})
    first, second = scratch_at(tmp_path, "first"), scratch_at(tmp_path, "second")
    first.sync(source)
    time = (first.root / "a.rs").stat().st_mtime_ns
    first.sync(source)
    assert (first.root / "a.rs").stat().st_mtime_ns == time
    second.sync(source)
    first.sync(source)
    assert (first.root / "a.rs").stat().st_mtime_ns > time


def test_a_damaged_record_in_the_target_folder_is_replaced(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST})
    make(tmp_path / "target", {"candle-rocm-scratch.json": "[not json"})
    scratch_at(tmp_path).sync(source)
    assert "1.2.3" in (tmp_path / "target/candle-rocm-scratch.json").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_two_trees_of_one_release_never_pass_each_others_results_off_as_their_own(tmp_path: Path) -> None:
    """cargo alone says "fresh" here and exits 0 for the broken tree."""
    good = workspace(tmp_path / "good", "pub fn f() {}\n")
    broken = workspace(tmp_path / "broken", 'pub fn f() -> u32 { "" }\n')
    codes = []
    for name, source in (("first", good), ("second", broken), ("first", good), ("second", broken)):
        scratch = scratch_at(tmp_path, name)
        scratch.sync(source)
        environment = cargo_environment(scratch.target_dir)
        codes.append(run_cargo(scratch.root, ["check"], log=tmp_path / "log", environment=environment).returncode)
    assert codes == [0, 101, 0, 101]


def test_two_runs_with_one_target_folder_take_turns(tmp_path: Path) -> None:
    said: list[str] = []
    with contextlib.ExitStack() as first:
        first.enter_context(scratch_at(tmp_path, "first").exclusive())

        def leave(line: str) -> None:
            said.append(line)
            first.close()

        with scratch_at(tmp_path, "second").exclusive(leave):
            assert said == ["waiting for another verification with the same folder"]
    with scratch_at(tmp_path).exclusive(said.append):
        assert len(said) == 1


def test_a_full_disk_or_read_only_folder_is_exit_6(tmp_path: Path) -> None:
    source = make(tmp_path / "source", {"Cargo.toml": MANIFEST})
    make(tmp_path, {"scratch": "a file where the folder should be"})
    with pytest.raises(InputOutputError, match="cannot prepare the scratch tree") as caught:
        scratch_at(tmp_path).sync(source)
    assert caught.value.exit_code is ExitCode.IO
    assert "--work" in str(caught.value)


def test_release_and_members_are_read_from_the_manifests(tmp_path: Path) -> None:
    root = workspace(tmp_path / "tree", "")
    make(root, {"Cargo.toml": MANIFEST.replace('["one"]', '["one", "broken", "glob-*"]')})
    make(root, {"broken/Cargo.toml": "= broken", "glob-a/Cargo.toml": '[package]\nname = "two"\n'})
    assert release_of(root) == "1.2.3"
    assert set(member_manifests(root)) == {"one", "two", "broken"}
    assert member_manifests(root)["broken"] == {}, "cargo says what is wrong with it"
    assert member_manifests(root)["two"] == {"package": {"name": "two"}}
    assert release_of(tmp_path) == "unknown"
    assert member_manifests(tmp_path) == {}


def test_manifests_are_read_from_the_overlay(tmp_path: Path) -> None:
    root = workspace(tmp_path / "tree", "")
    changed = b'[package]\nname = "one"\n\n[features]\nrocm = []\n'
    assert member_manifests(root, {"one/Cargo.toml": changed})["one"]["features"] == {"rocm": []}
    assert member_manifests(root, {"one/Cargo.toml": None}) == {}
