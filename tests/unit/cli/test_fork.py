"""A made-up fork: from unknown sites over a draft of its own specs to a tree that is applied, and taken back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from made_up import replace_in, tree_hash
from made_up_fork import make_fork

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

SPECS = "candle-rocm.yaml"
PROBE = "candle-core/src/probe.rs"
FILL_IN = re.compile(r'"FILL IN: (?:[^"\\]|\\.)*"')


@pytest.fixture
def fork(candle: Path) -> Path:
    make_fork(candle)
    return candle


def reviewed(draft: str) -> str:
    """What a person makes of the draft."""
    return FILL_IN.sub("the fork does without it on ROCm", draft)


def drafted(fork: Path, candle_rocm: CommandLine) -> str:
    answer = candle_rocm("scan", fork, "--suggest")
    assert answer.code == 4
    return answer.stdout


def with_specs(fork: Path, candle_rocm: CommandLine) -> Path:
    (fork / SPECS).write_text(reviewed(drafted(fork, candle_rocm)), encoding="utf-8")
    return fork


def test_the_fork_goes_from_a_draft_to_a_patched_tree_and_back(fork: Path, candle_rocm: CommandLine) -> None:
    scanned = json.loads(candle_rocm("scan", fork, "--json").stdout)
    unknown = [site for site in scanned["sites"] if site["state"] == "unknown"]
    kinds = {site["kind"] for site in unknown}
    print(len(unknown), sorted(kinds))
    assert len(unknown) >= 24
    assert {"enum", "element-type", "cargo-feature", "static", "text", "fn", "match-str", "if-let"} <= kinds

    draft = drafted(fork, candle_rocm)
    (fork / SPECS).write_text(draft, encoding="utf-8")
    for command in (("spec", "lint"), ("scan",), ("apply",)):
        answer = candle_rocm(*command, fork)
        assert answer.code == 3
        assert answer.stderr.count("a person has to write this") == len(FILL_IN.findall(draft)) >= 5

    (fork / SPECS).write_text(reviewed(draft), encoding="utf-8")
    before = tree_hash(fork)
    assert candle_rocm("spec", "lint", fork).code == 0
    assert json.loads(candle_rocm("scan", fork, "--json").stdout)["summary"]["states"]["unknown"] == 0
    assert candle_rocm("apply", fork).code == 0
    assert candle_rocm("check", fork).code == 0
    probe = (fork / PROBE).read_text(encoding="utf-8")
    assert "Device::Rocm(_) => 2," in probe
    assert "pub fn rocm_label()" in probe
    assert '#[cfg(any(feature = "cuda", feature = "rocm"))]\npub fn has_graphs()' in probe
    assert 'rocm = ["candle/rocm"]' in (fork / "candle-probe/Cargo.toml").read_text(encoding="utf-8")
    assert candle_rocm("revert", fork).code == 0
    assert tree_hash(fork) == before


def test_a_rule_of_the_tree_is_named_with_its_place(fork: Path, candle_rocm: CommandLine) -> None:
    with_specs(fork, candle_rocm)
    line = (fork / SPECS).read_text(encoding="utf-8").splitlines().index("  - id: tree.core-cuda-label-fn") + 1
    sites = json.loads(candle_rocm("scan", fork, "--json").stdout)["sites"]
    found = next(site for site in sites if site["name"] == "cuda_label")
    assert (found["rule"], found["spec"]) == ("tree.core-cuda-label-fn", f"{SPECS}:{line}")
    assert f"tree.core-cuda-label-fn ({SPECS}:{line})" in candle_rocm("explain", fork, f"{PROBE}:7").stdout
    vulkan = next(site for site in sites if site["name"] == "Vulkan")
    assert (vulkan["state"], vulkan["rule"]) == ("left alone", "tree.backends")
    assert vulkan["spec"].startswith(f"{SPECS}:")


def test_unknown_sites_are_left_for_later_and_named_by_every_command(fork: Path, candle_rocm: CommandLine) -> None:
    before = tree_hash(fork)
    assert candle_rocm("apply", fork).code == 4
    assert tree_hash(fork) == before

    applied = candle_rocm("apply", fork, "--leave-unknown")
    assert applied.code == 0
    count = re.search(r"(\d+) unknown sites left for later", applied.stderr)
    assert count is not None
    assert int(count[1]) >= 24
    assert f"left for later: {PROBE}:7:1 fn cuda_label" in applied.stderr
    assert count[0] in candle_rocm("status", fork).stdout
    assert len(json.loads(candle_rocm("status", fork, "--json").stdout)["unknown"]) == int(count[1])
    assert candle_rocm("check", fork).code == 4
    checked = candle_rocm("check", fork, "--leave-unknown")
    assert (checked.code, count[0] in checked.stderr) == (0, True)
    page = fork.parent / "report.html"
    assert candle_rocm("report", fork, "--html", page).code == 4
    reported = candle_rocm("report", fork, "--html", page, "--leave-unknown")
    assert (reported.code, count[0] in reported.stderr) == (0, True)
    assert candle_rocm("revert", fork).code == 0
    assert tree_hash(fork) == before


def test_a_draft_goes_to_a_new_file_only(fork: Path, candle_rocm: CommandLine) -> None:
    out = fork / SPECS
    assert candle_rocm("scan", fork, "--suggest", "--out", out).code == 4
    draft = out.read_bytes()
    assert b"FILL IN" in draft
    out.rename(fork.parent / "kept.yaml")
    again = candle_rocm("scan", fork, "--suggest", "--out", fork.parent / "kept.yaml")
    assert again.code == 6
    assert (fork.parent / "kept.yaml").read_bytes() == draft
    assert candle_rocm("scan", fork, "--out", out).code == 2


def test_nothing_is_suggested_where_nothing_is_unknown(candle: Path, candle_rocm: CommandLine) -> None:
    answer = candle_rocm("scan", candle, "--suggest")
    assert (answer.code, answer.stdout) == (0, "")
    assert "nothing to suggest" in answer.stderr


def test_entries_that_decide_nothing_are_found_by_lint_and_named_by_scan(
    candle: Path, candle_rocm: CommandLine
) -> None:
    text = """\
crates:
  - {name: candle-gone, rocm: false, reason: it was taken out}
backends:
  - {name: Vulkan, reason: a backend of ours}
protected: [as_probe_slice]
foreign:
  - {path: candle-core/src/vulkan/**, reason: a backend of ours}
cuda_libraries:
  - {feature: cuda-graphs, reason: graphs of CUDA}
rules:
  - id: tree.slip
    sites: {kind: fn, path: candle-core/src/probe.rs}
    verb: leave
    reason: there is no such file
  - id: tree.other-release
    sites: {kind: fn, path: candle-core/src/probe.rs}
    until: 0.9.1
    verb: leave
    reason: there was such a file
"""
    (candle / SPECS).write_text(text, encoding="utf-8")
    answer = candle_rocm("spec", "lint", candle)
    assert answer.code == 3
    found = re.findall(rf"{SPECS}:(\d+):(\d+): (.*)", answer.stderr)
    assert [(int(line), message) for line, _, message in found] == [
        (2, "the tree has no crate candle-gone"),
        (4, "no backend enum of the tree has a variant Vulkan"),
        (5, "no source of the tree that names a backend has the word as_probe_slice"),
        (7, "no source of the tree that names a backend lies there"),
        (9, "no crate of the tree has a feature of that name"),
        (11, "the rule tree.slip decides no site of this tree"),
    ]
    assert "the rule tree.slip decides no site" in candle_rocm("scan", candle).stderr


def test_a_rule_that_can_do_nothing_at_its_site_is_found_by_lint(fork: Path, candle_rocm: CommandLine) -> None:
    with_specs(fork, candle_rocm)
    replace_in(
        fork / SPECS,
        "name: cuda_context}\n    verb: leave\n    reason: the fork does without it on ROCm",
        "name: cuda_context}\n    verb: mirror\n    phase: 3",
    )
    answer = candle_rocm("spec", "lint", fork)
    assert answer.code == 3
    assert f"cannot mirror the fn at {PROBE}:91:1: it uses CUDA's own API (CudaContext, cudarc)" in answer.stderr


def test_the_tree_may_decide_in_place_of_a_rule_of_ours_and_write_plain_text(
    candle: Path, candle_rocm: CommandLine
) -> None:
    """The text is written as it stands: it is no template."""
    (candle / SPECS).write_text(
        """\
rules:
  - id: tree.is-available
    instead_of: core.is-available
    sites: {kind: fn, path: candle-core/src/utils.rs, name: cuda_is_available}
    verb: override
    reason: the fork asks a server
    text: |
      pub fn rocm_is_available() -> bool {
          "«7 * 7»{% raise %}{{ cycler.__init__ }}".is_empty()
      }
""",
        encoding="utf-8",
    )
    before = tree_hash(candle)
    assert candle_rocm("spec", "lint", candle).code == 0
    assert candle_rocm("apply", candle).code == 0
    utils = (candle / "candle-core/src/utils.rs").read_text(encoding="utf-8")
    assert '"«7 * 7»{% raise %}{{ cycler.__init__ }}".is_empty()' in utils
    assert candle_rocm("revert", candle).code == 0
    assert tree_hash(candle) == before


def test_taking_back_needs_no_specs_of_the_tree(candle: Path, candle_rocm: CommandLine) -> None:
    before = tree_hash(candle)
    assert candle_rocm("apply", candle).code == 0
    (candle / SPECS).write_text("rules: 7\n", encoding="utf-8")
    assert candle_rocm("check", candle).code == 3
    assert candle_rocm("revert", candle, "--json").code == 0
    (candle / SPECS).unlink()
    assert tree_hash(candle) == before


def test_the_specs_of_a_tree_are_a_plain_file_of_a_sensible_size(candle: Path, candle_rocm: CommandLine) -> None:
    secret = candle.parent / "secret"
    secret.write_text("rules: [secret]\n", encoding="utf-8")
    (candle / SPECS).symlink_to(secret)
    answer = candle_rocm("scan", candle)
    assert answer.code == 6
    assert "symbolic link" in answer.stderr
    assert "rules: [secret]" not in answer.stderr
    (candle / SPECS).unlink()
    (candle / SPECS).write_bytes(b"# " + b"x" * (65 << 10))
    assert candle_rocm("scan", candle).code == 3


def test_a_mirrored_answer_of_cudas_own_is_pointed_out(fork: Path, candle_rocm: CommandLine) -> None:
    with_specs(fork, candle_rocm)
    scanned = candle_rocm("scan", fork).stdout
    assert "mirrored with CUDA's 2 at line 23" in scanned
    assert """mirrored with CUDA's "cuda:{gpu_id}" at line 32""" in scanned
    assert "to review   mirrored with CUDA's 2 at line 23" in candle_rocm("explain", fork, f"{PROBE}:21").stdout
    sites = json.loads(candle_rocm("scan", fork, "--json").stdout)["sites"]
    assert {site["item"] for site in sites if site["review"]} >= {"number", "place", "kernel_name"}
    page = fork.parent / "report.html"
    assert candle_rocm("report", fork, "--html", page).code == 0
    assert "mirrored with CUDA&#39;s 2 at line 23" in page.read_text(encoding="utf-8")
