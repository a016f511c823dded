"""A program that uses Candle: its sites, what is mirrored there, and what is left to a person."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from made_up import replace_in

from codegen.candle.program import find_program
from codegen.candle.tree import open_tree
from codegen.errors import NotACandleTree
from codegen.plan.program import plan_program
from codegen.spec.kinds import Gating
from codegen.spec.loader import load_specs
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

MAIN = """use candle_core::Device;

fn name(device: &Device) -> &'static str {
    match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "cuda",
        Device::Metal(_) => "metal",
    }
}

fn is_fast(device: &Device) -> bool {
    if device.is_cuda() {
        return true;
    }
    matches!(device, Device::Cpu)
}

fn main() {
    let device = Device::cuda_if_available(0).unwrap();
    println!("{} {}", name(&device), is_fast(&device));
}
"""
ARM = '        Device::Rocm(_) => "rocm",\n'


@pytest.fixture
def program(tmp_path: Path) -> Path:
    root = tmp_path / "program"
    (root / "src").mkdir(parents=True)
    (root / "Cargo.toml").write_text('[package]\nname = "mine"\n[dependencies]\ncandle-core = "0.11"\n')
    (root / "src" / "main.rs").write_text(MAIN)
    (root / "target").mkdir()
    (root / "target" / "made.rs").write_text(MAIN)
    return root


def test_sites_are_mirrored_or_left_to_a_person(program: Path) -> None:
    found = find_program(program)
    assert found is not None
    assert found.manifests == ("Cargo.toml",)

    plan = plan_program(found, load_specs())

    assert [(each.site.kind, each.demanded, bool(each.edits)) for each in plan.sites] == [
        ("match", True, True),
        ("condition", False, True),
        ("call", False, False),
    ]
    assert plan.sites[2].by_hand == "nothing can stand beside it"
    (change,) = plan.changes
    text = change.after.decode()
    assert Source.parse("main.rs", change.after).error_ranges() == ()
    assert text.count(ARM) == 1
    assert "if device.is_cuda() || device.is_rocm() {" in text
    assert [line for line in text.splitlines() if "rocm" not in line.lower()] == [
        line for line in MAIN.splitlines() if "is_cuda" not in line
    ]


def test_with_cfg_gating_the_arm_is_behind_the_feature(program: Path) -> None:
    found = find_program(program)
    assert found is not None
    (change,) = plan_program(found, load_specs(), gating=Gating.CFG).changes

    assert f'        #[cfg(feature = "rocm")]\n{ARM}' in change.after.decode()


@pytest.mark.parametrize(
    "manifest",
    [
        '[workspace.dependencies]\ncandle = { package = "candle-core", version = "0.11" }\n',
        '[target."cfg(unix)".dependencies]\ncandle-nn = { git = "https://example.org/candle" }\n',
        '[dev-dependencies]\ncandle-core = { path = "../candle/candle-core" }\n',
    ],
    ids=["renamed", "git, for a target", "path, for tests"],
)
def test_a_manifest_names_candle_in_many_ways(program: Path, manifest: str) -> None:
    (program / "Cargo.toml").write_text(manifest)
    assert find_program(program) is not None


def test_what_does_not_depend_on_candle_is_no_program(program: Path, candle: Path) -> None:
    assert find_program(candle) is None
    assert find_program(candle / "candle-nn") is None
    assert find_program("0.11.1") is None
    replace_in(candle / "candle-core" / "Cargo.toml", "version", "no-version")
    (candle / "Cargo.toml").write_text('[workspace]\nmembers = ["candle-core", "candle-nn"]\n')
    with pytest.raises(NotACandleTree, match="does not say which release it is"):
        open_tree(candle)
    assert find_program(candle) is None
    (program / "Cargo.toml").write_text('[dependencies]\ncandle-wick = "1"\n')
    assert find_program(program) is None
    (program / "Cargo.toml").write_text("[dependencies\n")
    with pytest.raises(NotACandleTree, match=r"Cargo\.toml"):
        find_program(program)


def test_scan_lists_the_sites_and_writes_nothing(program: Path, candle_rocm: CommandLine) -> None:
    said = candle_rocm.ok("scan", program).stdout.splitlines()

    assert said == [
        "src/main.rs:4:5 match name -> mirrored by diff (does not compile without)",
        "src/main.rs:12:5 condition is_fast -> mirrored by diff",
        "src/main.rs:19:18 call main -> by hand: nothing can stand beside it",
        "3 sites: 2 mirrored by diff, 1 by hand, 0 done; 1 that rustc demands",
    ]
    document = candle_rocm.ok("scan", program, "--json").document
    assert [site["demanded"] for site in document["sites"]] == [True, False, False]
    assert (program / "src" / "main.rs").read_text() == MAIN


def test_git_takes_the_diff_and_takes_it_back(program: Path, candle_rocm: CommandLine) -> None:
    made = candle_rocm.ok("diff", program).stdout
    assert candle_rocm.ok("diff", program, "--json").document["files"] == [{"path": "src/main.rs", "diff": made}]

    subprocess.run(["git", "apply"], input=made, text=True, cwd=program, check=True)
    assert ARM in (program / "src" / "main.rs").read_text()
    subprocess.run(["git", "apply", "--reverse"], input=made, text=True, cwd=program, check=True)
    assert (program / "src" / "main.rs").read_text() == MAIN


def test_a_second_diff_is_empty(program: Path, candle_rocm: CommandLine) -> None:
    made = candle_rocm.ok("diff", program).stdout
    subprocess.run(["git", "apply"], input=made, text=True, cwd=program, check=True)

    assert candle_rocm.ok("diff", program).stdout == ""
    assert candle_rocm.ok("scan", program).stdout.splitlines()[-1] == (
        "3 sites: 0 mirrored by diff, 1 by hand, 2 done; 0 that rustc demands"
    )


def test_other_commands_say_which_take_a_program(program: Path, candle_rocm: CommandLine) -> None:
    for command in ("apply", "check", "status", "revert"):
        refused = candle_rocm(command, program)
        assert refused.code == 2, command
        assert "`scan` and `diff` take the folder of a program that depends on Candle" in refused.stderr


def test_the_document_is_json(program: Path, candle_rocm: CommandLine) -> None:
    assert json.loads(candle_rocm.ok("scan", program, "--json").stdout)["schema_version"] == 1
