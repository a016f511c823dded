"""`candle-rocm explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mini_candle import DEVICE, NOTES, UNDECIDED, Mini, make_mini

if TYPE_CHECKING:
    from pathlib import Path

ARM = """\
candle-core/src/device.rs:9 in pristine Candle 0.11.1
  9 |             Device::Cpu => "cpu",

match Device::name, line 8 column 9 to line 11
  state       handled in phase 1
  rule        core.dispatch (specs/phases/1-core.yaml:9)
  verb        mirror
  to review   mirrored with CUDA's "cuda <card> & co" at line 10
  enums       Device
  exhaustive  rustc demands an arm for every variant
  generated, line 12 of the patched file (rule core.dispatch, specs/phases/1-core.yaml:9, mirrored from CUDA):
  |             Device::Rocm(_) => "rocm <card> & co",
"""


@pytest.fixture
def mini(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mini:
    return make_mini(tmp_path, capsys, monkeypatch)


def test_a_site_is_explained_with_rule_spec_line_and_generated_text(mini: Mini) -> None:
    answer = mini.call("explain", str(mini.root), f"{DEVICE}:9")
    assert (answer.code, answer.err, answer.out) == (0, "", ARM)


def test_the_tree_may_be_an_option_or_the_current_folder(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mini.call("explain", "--candle", str(mini.root), f"{DEVICE}:9").out == ARM
    monkeypatch.chdir(mini.root)
    assert mini.call("explain", f"{DEVICE}:9").out == ARM
    assert mini.call("explain", f"{mini.root}/{DEVICE}:9:3").out == ARM


@pytest.mark.parametrize("arguments", [["a", "b", "c:1"], ["--candle", "x", "y", "c:1"]])
def test_two_trees_are_a_usage_error(mini: Mini, arguments: list[str]) -> None:
    answer = mini.call("explain", *arguments)
    assert answer.code == 2
    assert "usage error: explain takes one place and one tree" in answer.err
    assert "candle-rocm explain 0.11.1 candle-core/src/device.rs:10" in answer.err


def test_a_place_that_is_none_and_a_file_that_is_not_there(mini: Mini) -> None:
    answer = mini.call("explain", str(mini.root), DEVICE)
    assert (answer.code, answer.out) == (2, "")
    assert f"usage error: '{DEVICE}' is not FILE:LINE" in answer.err
    answer = mini.call("explain", str(mini.root), "device.rs:1")
    assert answer.code == 2
    assert answer.err == (
        "usage error: the tree has no file device.rs\n  = help: did you mean candle-core/src/device.rs?\n"
    )


def test_a_line_without_a_site_names_the_nearest(mini: Mini) -> None:
    out = mini.call("explain", str(mini.root), f"{DEVICE}:1").out
    assert "no backend site covers this line\nnearest sites in this file:\n" in out
    assert "  candle-core/src/device.rs:3:5 enum Device::Cuda -> handled in phase 1" in out


def test_a_file_without_sites_says_why(mini: Mini) -> None:
    assert mini.call("explain", str(mini.root), f"{NOTES}:1").out.endswith(
        "no backend site covers this line\nthe file has no backend site\n"
    )
    foreign = mini.call("explain", str(mini.root), "candle-core/src/cuda_backend/mod.rs:1").out
    assert "file mod.rs, line 1" in foreign
    assert "  state   left alone\n  rule    candle.foreign" in foreign
    assert "  reason  the CUDA backend itself\n" in foreign
    beyond = mini.call("explain", str(mini.root), f"{NOTES}:99").out
    assert f"{NOTES}:99: pristine Candle 0.11.1 has no such line" in beyond


def test_sites_that_are_left_alone_or_wait_say_so(mini: Mini) -> None:
    left = mini.call("explain", str(mini.root), "candle-lab/src/lib.rs:1").out
    assert "  state   left alone\n  rule    candle.crates (specs/candle.yaml:5)\n" in left
    assert "  reason  a laboratory without AMD cards\n" in left
    waiting = mini.call("explain", str(mini.root), f"{DEVICE}:15").out
    assert "phase 2, not applied" in waiting
    assert "generated" not in waiting


def test_a_cargo_feature_is_explained(mini: Mini) -> None:
    out = mini.call("explain", str(mini.root), "candle-core/Cargo.toml:7").out
    assert "cargo-feature features::cuda" in out
    assert "  | rocm = []" in out


def test_lines_of_a_patched_file_are_found_again(mini: Mini) -> None:
    assert mini.call("apply", str(mini.root), "--allow-dirty").code == 0
    made = mini.call("explain", str(mini.root), f"{DEVICE}:4").out
    assert "candle-core/src/device.rs:4 in pristine Candle 0.11.1\n  4 | }\n" in made
    assert (
        "candle-core/src/device.rs:4 in the patched tree\n"
        "  written for the site candle-core/src/device.rs:3:5 enum Device::Cuda -> handled in phase 1 "
        "(core.variant, mirror)\n"
        "  generated, line 4 of the patched file (rule core.variant, specs/phases/1-core.yaml:6, mirrored from CUDA):\n"
        "  |     Rocm(u8),\n"
    ) in made
    moved = mini.call("explain", str(mini.root), f"{DEVICE}:9").out
    assert moved.startswith(ARM)
    assert "candle-core/src/device.rs:9 in the patched tree is line 8 of pristine Candle 0.11.1\n" in moved
    assert mini.call("explain", str(mini.root), f"{DEVICE}:1").out.count("patched tree") == 0


def test_a_phase_that_is_not_applied_moves_no_line_yet(mini: Mini) -> None:
    assert mini.call("apply", str(mini.root), "--phase", "0", "--allow-dirty").code == 0
    out = mini.call("explain", str(mini.root), f"{DEVICE}:12").out
    assert "patched tree" not in out
    assert mini.call("explain", str(mini.root), f"{DEVICE}:9").out == ARM


def test_an_unknown_site_is_explained_too(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    answer = mini.call("explain", str(mini.root), f"{NOTES}:3")
    assert (answer.code, answer.err) == (0, "")
    assert "  state   unknown\n  reason  no rule handles this site and no spec leaves it alone\n" in answer.out


def test_json_has_the_same(mini: Mini) -> None:
    document = mini.call("explain", str(mini.root), f"{DEVICE}:9", "--json").json
    assert (document["schema_version"], document["command"], document["applied"]) == (1, "explain", False)
    (site,) = document["sites"]
    assert (site["rule"], site["spec"]) == ("core.dispatch", "specs/phases/1-core.yaml:9")
    (text,) = site["generated"]
    assert (text["first"], text["last"]) == (12, 12)
    assert text["text"].strip() == 'Device::Rocm(_) => "rocm <card> & co",'
    assert text["site"] == f"{DEVICE}:8:9"
    assert document["nearest"] == []
