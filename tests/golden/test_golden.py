"""Goldens: what the engine makes of made-up workspaces, compared as text and compiled with every feature."""

from __future__ import annotations

import re
import shutil
from difflib import unified_diff
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from some import some

from codegen.errors import ExitCode, UnknownSite
from codegen.spec.kinds import Gating
from golden.golden_case import GOLDENS, Variant, compiler_says, golden, made, made_from, rust_files, write

if TYPE_CHECKING:
    from pathlib import Path

VARIANTS = [
    Variant("dispatch", Gating.DUMMY, 1),
    Variant("dispatch", Gating.CFG, 1),
    Variant("later_phase", Gating.DUMMY, 1),
    Variant("later_phase", Gating.CFG, 1),
    Variant("later_phase", Gating.DUMMY, 2),
    Variant("later_phase", Gating.CFG, 2),
]
FEATURES = [chosen for size in range(3) for chosen in combinations(("cuda", "rocm"), size)]
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)
needs_rustc = pytest.mark.skipif(shutil.which("rustc") is None, reason="rustc is not installed")


@each_variant
def test_the_plan_makes_the_golden(variant: Variant, monkeypatch: pytest.MonkeyPatch, update_goldens: bool) -> None:  # noqa: FBT001
    files = made(variant, monkeypatch)
    if update_goldens:
        write(variant, files)
    expected = golden(variant)
    assert sorted(files) == sorted(expected)
    for path, text in files.items():
        diff = unified_diff(expected[path].splitlines(), text.splitlines(), f"golden {path}", "made", lineterm="")
        assert text == expected[path], "\n".join(diff)


@each_variant
@needs_rustc
def test_the_golden_compiles(variant: Variant, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(GOLDENS / variant.case / "before", workspace)
    shutil.copytree(variant.folder, workspace, dirs_exist_ok=True)
    for features in some(FEATURES):
        assert compiler_says(workspace, features, tmp_path) == "", features


@pytest.mark.parametrize("case", sorted({variant.case for variant in VARIANTS}))
@needs_rustc
def test_the_made_up_workspace_compiles(case: str, tmp_path: Path) -> None:
    for features in ((), ("cuda",)):
        assert compiler_says(GOLDENS / case / "before", features, tmp_path) == ""


@each_variant
def test_nothing_of_the_workspace_is_lost(variant: Variant) -> None:
    before = dict(rust_files(GOLDENS / variant.case / "before"))
    for path, text in some(golden(variant).items()):
        kept = iter(re.findall(r"\w+|[^\w\s,]", text))
        for word in re.findall(r"\w+|[^\w\s,]", before.get(path, "")):
            assert word in kept, f"{path}: {word}"


def refusal(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UnknownSite:
    """How the dispatch case, with one more file, is refused."""
    before = tmp_path / "before"
    shutil.copytree(GOLDENS / "dispatch" / "before", before)
    (before / "candle-core/src/extra.rs").write_text(extra, encoding="utf-8")
    with pytest.raises(UnknownSite) as caught:
        made_from(GOLDENS / "dispatch", before, VARIANTS[0], monkeypatch)
    assert caught.value.exit_code is ExitCode.UNKNOWN_SITE
    return caught.value


def test_an_edit_inside_text_that_cannot_be_parsed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(
        "fn f(d: &Device) {\n"
        "    match d {\n"
        "        Device::Cuda(c) => g::<Box<dyn 'a + Fn(&T)>>(c),\n"
        "        _ => {}\n"
        "    }\n"
        "}\n",
        tmp_path,
        monkeypatch,
    )
    assert str(error).startswith(
        "unhandled backend site: candle-core/src/extra.rs:2:5: rule core.mirror cannot mirror this match: "
        "the Rust grammar cannot parse a part of it"
    )


def test_text_elsewhere_that_cannot_be_parsed_is_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tmp_path / "before"
    shutil.copytree(GOLDENS / "dispatch" / "before", before)
    file = before / "candle-core/src/utils.rs"
    gap = "\npub struct Gap<'a>(pub Box<dyn 'a + Fn(&u8) -> u8>);\n"
    file.write_text(file.read_text(encoding="utf-8") + gap, encoding="utf-8")
    files = made_from(GOLDENS / "dispatch", before, VARIANTS[0], monkeypatch)
    assert files["candle-core/src/utils.rs"] == golden(VARIANTS[0])["candle-core/src/utils.rs"] + gap


def test_a_site_of_a_new_shape_is_refused_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(
        "use crate::Device::*;\n\nfn f(d: &Device) -> bool {\n    let x = Cuda;\n}\n", tmp_path, monkeypatch
    )
    assert str(error).startswith(
        "unhandled backend site: candle-core/src/extra.rs:4:13: no rule handles this site and no spec leaves it alone"
    )
    assert "    let x = Cuda;\n" in str(error)


def test_a_verb_that_does_not_fit_is_refused_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal("enum Code {\n    Cpu = 0,\n    Cuda = 1,\n}\n", tmp_path, monkeypatch)
    assert str(error).startswith(
        "unhandled backend site: candle-core/src/extra.rs:3:5: rule core.mirror cannot mirror this enum: "
        "the variant has an explicit discriminant"
    )
