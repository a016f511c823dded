"""The cache gives back exactly what loading gives, and never something stale or damaged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from spec_repository import CORE, Repository

import codegen.spec.loader
from codegen.errors import SpecInvalid
from codegen.spec import cache as spec_cache
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.spec.loaded import LoadedSpecs


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "specs"


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(*_: object) -> None:
        raise AssertionError("parsed although the cache is warm")

    monkeypatch.setattr(codegen.spec.loader, "_load", parse)


def test_warm_cache_gives_the_same_specs_and_places(
    repository: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = load_specs(repository.root, cache=folder)
    forbid_parsing(monkeypatch)
    warm = load_specs(repository.root, cache=folder)
    assert warm.specs == cold.specs == load_specs_without_cache(repository, monkeypatch).specs
    assert dict(warm.lines) == dict(cold.lines)


def load_specs_without_cache(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> LoadedSpecs:
    monkeypatch.undo()
    return load_specs(repository.root)


@pytest.mark.parametrize("change", ["spec", "new-template", "version"])
def test_any_change_misses(repository: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    load_specs(repository.root, cache=folder)
    if change == "spec":
        repository.write("specs/phases/1-core.yaml", CORE + "# more\n")
    elif change == "new-template":
        repository.write("templates/rust/other.rs", "")
    else:
        monkeypatch.setattr(spec_cache, "__version__", "9.9.9")
    forbid_parsing(monkeypatch)
    with pytest.raises(AssertionError, match="parsed although"):
        load_specs(repository.root, cache=folder)


def test_removed_template_is_noticed_with_a_warm_cache(repository: Repository, folder: Path) -> None:
    load_specs(repository.root, cache=folder)
    repository.remove("templates/rust/available.rs")
    with pytest.raises(SpecInvalid, match=r"there is no template 'rust/available\.rs' below templates/"):
        load_specs(repository.root, cache=folder)


def test_edit_moves_the_places(repository: Repository, folder: Path) -> None:
    load_specs(repository.root, cache=folder)
    repository.write("specs/phases/1-core.yaml", "# a comment\n" + CORE)
    assert load_specs(repository.root, cache=folder).where("core.dispatch") == "specs/phases/1-core.yaml:7"


def test_invalid_specs_are_not_stored(repository: Repository, folder: Path) -> None:
    repository.write("specs/phases/1-core.yaml", CORE + "x: 1\n")
    for _ in range(2):
        with pytest.raises(SpecInvalid, match="unknown key 'x'"):
            load_specs(repository.root, cache=folder)
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "index", "specs", "binary", "folder", "index-type"])
def test_damaged_cache_is_ignored_and_repaired(repository: Repository, folder: Path, damage: str) -> None:
    specs = load_specs(repository.root, cache=folder).specs
    path = folder / spec_cache.FILE_NAME
    key, index, body = path.read_bytes().split(b"\n", 2)
    good = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "cut": good[: len(good) // 2],
                "index": b"\n".join((key, b"{", body)),
                "index-type": b"\n".join((key, b"[]", body)),
                "specs": b"\n".join((key, index, b"{}")),
                "binary": b"\xff\n" * 3,
            }[damage]
        )
    assert load_specs(repository.root, cache=folder).specs == specs
    if damage != "folder":
        assert path.read_bytes() == good
    assert [entry.name for entry in folder.iterdir()] == [spec_cache.FILE_NAME]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
def test_cache_folder_that_cannot_be_made_is_no_error(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert load_specs(repository.root, cache=tmp_path / "file" / "cache").phases


def test_fingerprint_tells_groups_and_names_apart() -> None:
    keys = {
        spec_cache.fingerprint([("a", b"")], []),
        spec_cache.fingerprint([], ["a"]),
        spec_cache.fingerprint([("a", b"b")], []),
        spec_cache.fingerprint([("ab", b"")], []),
        spec_cache.fingerprint([("a", b""), ("b", b"")], []),
    }
    assert len(keys) == 5
