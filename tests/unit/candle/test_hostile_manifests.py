"""Manifests that were made to take time or memory, to lead out of the tree, or to be no manifests at all."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest
from canary import Canary

from codegen.candle.cargo_shape import load_manifest
from codegen.candle.members import matching
from codegen.candle.toml_text import LARGEST, MOST_PARTS, load
from codegen.errors import InputOutputError, NotACandleTree
from codegen.release import in_range, is_version, nearest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "text",
    [
        "[x]\n" + ".".join("a" * 20_000) + " = 1\n",
        "[x]\n" + " . ".join(['"a"', "'b'"] * 10_000) + " = 1\n",
        "\n[" + ".".join("a" * 20_000) + "]\n",
        'x = """\n"""\n[' + ".".join("a" * (MOST_PARTS + 1)) + "]\n",
    ],
)
def test_a_key_of_many_parts_is_not_parsed(text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotACandleTree, match=rf"Cargo.toml:[123]:1: a key has more than {MOST_PARTS} parts"):
        load(text, "Cargo.toml")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "KiB"


def test_text_with_many_dots_is_no_key_of_many_parts() -> None:
    dots = ".".join("a" * 100)
    text = f'# {dots}\na = "{dots}"\nb = \'{dots}\'\nc = \'\'\'\n{dots}\'\'\'\nd = """\n{dots} \\" """\n'
    assert load(text, "Cargo.toml") == {"a": dots, "b": dots, "c": dots, "d": f'{dots} " '}
    load(".".join("a" * MOST_PARTS) + " = 1\n", "Cargo.toml")


def test_a_file_that_is_too_large_and_a_number_that_is_too_long() -> None:
    load("#" * LARGEST, "Cargo.toml")
    with pytest.raises(NotACandleTree, match=r"Cargo\.toml:1:1: the file has more than 512 KiB"):
        load("#" * (LARGEST + 1), "Cargo.toml")
    with pytest.raises(NotACandleTree, match=r"Cargo\.toml:1:.*: broken TOML: "):
        load("a = " + "9" * 6000, "Cargo.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[workspace]\nmembers = 5\n", "Cargo.toml:2:1: `members` has to be an array of strings"),
        ('[workspace]\nexclude = "x"\n', "2:1: `exclude` has to be an array of strings"),
        ("[workspace]\nmembers = [5]\n", "`members` has to be an array of strings"),
        ('[workspace]\npackage = "x"\n', "`package` has to be a table"),
        ("[workspace]\ndependencies = [1]\n", "`dependencies` has to be a table"),
        ("[workspace.dependencies]\nx = { path = 5 }\n", "`path` has to be a string"),
        ("[workspace.dependencies]\nx = 5\n", "`x` has to be a version or a table"),
        ("package = 5\n", "`package` has to be a table"),
        ("[package]\nname = 5\n", "`name` has to be a string"),
        ("features = []\n", "`features` has to be a table"),
        ("[features]\nmetal = 5\n", "`metal` has to be an array of strings"),
        ("[features]\ncuda = [5]\n", "`cuda` has to be an array of strings"),
        ("[dependencies]\nx = { features = [5] }\n", "`features` has to be an array of strings"),
        ("target = 5\n", "`target` has to be a table"),
        ("[target]\nx = 5\n", "`target` has to be tables"),
        ("[target.x]\ndev-dependencies = 5\n", "`dev-dependencies` has to be a table"),
        ('example = "x"\n', "`example` has to be tables in an array"),
        ("bench = [1]\n", "`bench` has to be tables in an array"),
    ],
)
def test_values_of_another_kind_are_named(text: str, says: str) -> None:
    with pytest.raises(NotACandleTree) as caught:
        load_manifest(text, "Cargo.toml")
    assert says in str(caught.value)


def test_what_cargo_takes_is_taken() -> None:
    text = """\
        [package]
        name = "x"
        version.workspace = true
        [features]
        a = ["b/c", "dep:d"]
        [dependencies]
        e = "1"
        f = { workspace = true, features = ["g"], path = "../f" }
        [target.'cfg(unix)'.dependencies]
        h = "1"
        [[example]]
        name = "i"
        [workspace]
        members = ["j/*"]
        """
    assert load_manifest(text, "Cargo.toml")["features"] == {"a": ["b/c", "dep:d"]}


def test_members_by_patterns(tmp_path: Path) -> None:
    for folder in ("a/x", "a/y/z", "b/x", ".hidden"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a" / "file").write_bytes(b"")
    assert matching(tmp_path, "a/*") == ("a/x", "a/y")
    assert matching(tmp_path, "*/x") == ("a/x", "b/x")
    assert matching(tmp_path, "[ab]/?") == ("a/x", "a/y", "b/x")
    assert matching(tmp_path, "a/**") == ("a", "a/x", "a/y", "a/y/z")
    assert matching(tmp_path, "**/x") == ("a/x", "b/x")
    assert matching(tmp_path, "none/*") == ()


@pytest.mark.parametrize("pattern", ["lnk/*", "*/*", "lnk/**", "**/x", "**", "*/new/*", "lnk/er/*"])
def test_a_pattern_reads_nothing_behind_a_link(tmp_path: Path, pattern: str) -> None:
    canary = Canary.plant(tmp_path / "outside")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "lnk").symlink_to(canary.root)
    canary.forget()
    with pytest.raises(InputOutputError, match="lnk is a symbolic link"):
        matching(tmp_path / "tree", pattern)
    assert canary.touched() == []


@pytest.mark.parametrize("pattern", ["/*", "../*", "**a/x", "**/**/x", "*/" * 200 + "*"])
def test_patterns_that_are_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(NotACandleTree, match="names its crates by"):
        matching(tmp_path, pattern)


def test_versions_of_numbers_that_no_machine_has() -> None:
    assert is_version("1.2.3-alpha.1+build")
    assert is_version(f"{2**63}.0.0")
    long = "9" * 6000
    for text in (f"{long}.1.1", f"0.1.1-{long}", f"0.1.1+{long}", "0.1.1-" + ".".join("a" * 900), "٣.1.1"):
        assert not is_version(text)
    assert in_range("0.9.2-alpha.1", "0.9.1", "0.9.2")
    assert nearest(long, ["0.9.1", "0.9.2"]) == ("0.9.1", "0.9.2")
