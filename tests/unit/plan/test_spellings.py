"""A release that calls a backend's variant otherwise: one message, and one line of specs/candle.yaml that mends it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from made_up import DEVICE, STORAGE, replace_in, tree_hash

from codegen.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

ENUMS = ("Storage", "Device", "DeviceLocation", "QStorage", "PyDevice")
CANDLE = "specs/candle.yaml"


def respelled(root: Path, old: str, new: str, enums: tuple[str, ...] = ENUMS) -> None:
    """The tree as a release has it that renamed the variant in some of the enums, wherever it is used."""
    changed = 0
    for path in sorted(root.rglob("*.rs")):
        text = path.read_text(encoding="utf-8")
        after = re.sub(rf"\b({'|'.join(enums)})::{old}\b", rf"\1::{new}", text)
        for enum in enums:
            after = _inside(after, rf"enum {enum} ", rf"(?m)^(\s+){old}\b", rf"\1{new}")
            after = _inside(after, rf"impl [^\n]*\b{enum} ", rf"\bSelf::{old}\b", f"Self::{new}")
        path.write_text(after, encoding="utf-8")
        changed += after != text
    assert changed > 2


def _inside(text: str, head: str, pattern: str, replacement: str) -> str:
    """The text with the pattern replaced in each item at file level that begins with `head`."""
    return re.sub(rf"(?ms)^(?:pub(?:\(\w+\))? )?{head}.*?^}}", lambda item: re.sub(pattern, replacement, item[0]), text)


def patched(root: Path) -> dict[str, str]:
    """All sources and manifests of a tree."""
    kept = (path for path in sorted(root.rglob("*")) if path.is_file() and ".candle-rocm" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in kept}


@pytest.mark.parametrize("command", ["scan", "generate", "diff", "apply", "check"])
def test_a_renamed_variant_is_one_message(candle: Path, candle_rocm: CommandLine, command: str) -> None:
    respelled(candle, "Cuda", "Nvidia")
    before = tree_hash(candle)

    refused = candle_rocm(command, candle)

    assert refused.code == ExitCode.UNKNOWN_SITE
    assert refused.stdout == ""
    lines = refused.stderr.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"renamed backend variant: {STORAGE}:")
    for enum in ENUMS:
        assert f"`{enum}::Nvidia`" in lines[0]
    assert lines[0].endswith(" and no `Cuda`: was the variant renamed?")
    assert lines[3] == (
        "  = help: if it was, add the new name to the list under `variants` in specs/candle.yaml, "
        "such as `Cuda: [Cuda, NewName]`"
    )
    assert tree_hash(candle) == before


def test_all_sites_stand_in_the_documents(candle: Path, candle_rocm: CommandLine) -> None:
    respelled(candle, "Cuda", "Nvidia")
    document = json.loads(candle_rocm("scan", candle, "--json").stdout)
    assert document["summary"]["states"]["unknown"] > 10
    assert ["was the variant renamed?" in problem["message"] for problem in document["problems"]] == [True]
    sarif = candle_rocm("scan", candle, "--sarif").stdout
    assert "was the variant renamed?" in sarif


@pytest.mark.parametrize(
    ("ours", "theirs", "enums"),
    [
        ("Cuda", "Nvidia", ENUMS),
        ("Cuda", "Nvidia", ("Device",)),
        ("Metal", "Apple", ENUMS),
        ("Cpu", "Host", ("Device", "DeviceLocation")),
    ],
)
@pytest.mark.parametrize("gating", ["dummy", "cfg"])
def test_one_line_mends_it(
    home: Path, candle: Path, candle_rocm: CommandLine, ours: str, theirs: str, enums: tuple[str, ...], gating: str
) -> None:
    """What is written is what a tree with the usual name gets, spelled as the tree spells it."""
    usual = candle.with_name("usual")
    usual.mkdir()
    for path, text in patched(candle).items():
        (usual / path).parent.mkdir(parents=True, exist_ok=True)
        (usual / path).write_text(text, encoding="utf-8")
    respelled(candle, ours, theirs, enums)
    before = tree_hash(candle)
    assert candle_rocm("scan", candle).code == ExitCode.UNKNOWN_SITE

    replace_in(home / CANDLE, f"  {ours}: [{ours}]\n", f"  {ours}: [{ours}, {theirs}]\n")

    counts = [json.loads(candle_rocm.ok("scan", each, "--json").stdout)["summary"] for each in (usual, candle)]
    assert counts[0] == counts[1]
    for each in (usual, candle):
        candle_rocm.ok("apply", each, "--gating", gating)
        candle_rocm.ok("check", each)
    respelled(usual, ours, theirs, enums)
    assert patched(candle) == patched(usual)
    candle_rocm.ok("revert", candle)
    assert tree_hash(candle) == before


def test_places_are_those_of_the_tree(home: Path, candle: Path, candle_rocm: CommandLine) -> None:
    respelled(candle, "Cuda", "Nvidia")
    replace_in(home / CANDLE, "  Cuda: [Cuda]\n", "  Cuda: [Cuda, Nvidia]\n")
    text = (candle / DEVICE).read_bytes()
    sites = json.loads(candle_rocm.ok("scan", candle, "--json", "--path", DEVICE).stdout)["sites"]
    matches = [site for site in sites if site["kind"] == "match"]
    assert len(matches) > 1
    for site in matches:
        assert text[site["start"] : site["end"]].startswith(b"match ")
        assert text[site["start"] : site["end"]].endswith(b"}")
    line = text[: text.index(b"Self::Nvidia")].count(b"\n") + 1
    explained = candle_rocm.ok("explain", candle, f"{DEVICE}:{line}").stdout
    assert "Nvidia" in explained.splitlines()[1]
    assert "generated, line" in explained


def test_a_comment_and_a_string_keep_their_words(home: Path, candle: Path, candle_rocm: CommandLine) -> None:
    """Only identifiers are read as the variant: a name in prose makes no site."""
    replace_in(home / CANDLE, "  Cuda: [Cuda]\n", "  Cuda: [Cuda, Nvidia]\n")
    before = json.loads(candle_rocm.ok("scan", candle, "--json").stdout)["summary"]
    respelled(candle, "Cuda", "Nvidia", ("Device",))
    (candle / "candle-core/src/notes.rs").write_text('// Nvidia\npub const NOTE: &str = "Nvidia";\n', encoding="utf-8")
    assert json.loads(candle_rocm.ok("scan", candle, "--json").stdout)["summary"] == before


def test_a_further_backend_is_not_taken_for_a_renamed_one(candle: Path, candle_rocm: CommandLine) -> None:
    replace_in(candle / DEVICE, "    Metal(", "    Vulkan(u8),\n    Metal(", count=1)
    refused = candle_rocm("scan", candle)
    assert refused.code == ExitCode.UNKNOWN_SITE
    assert "Device::Vulkan is a backend that no spec knows" in refused.stderr
    assert "was the variant renamed?" not in refused.stderr
