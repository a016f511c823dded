"""`candle-rocm diff`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mini_candle import DEVICE, NOTES, UNDECIDED, Mini, make_mini

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def mini(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mini:
    return make_mini(tmp_path, capsys, monkeypatch)


def files_of(diff: str) -> list[str]:
    return [line.removeprefix("+++ b/") for line in diff.splitlines() if line.startswith("+++ ")]


def test_stdout_is_a_diff_that_git_applies(mini: Mini, tmp_path: Path) -> None:
    answer = mini.call("diff", str(mini.root))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("diff --git a/candle-core/Cargo.toml b/candle-core/Cargo.toml\n")
    patch = tmp_path / "all.patch"
    patch.write_text(answer.out)
    subprocess.run(["git", "apply", "--check", str(patch)], cwd=mini.root, check=True)
    before = (mini.root / DEVICE).read_text()
    assert "Rocm" not in before


def test_a_phase_on_top_of_those_that_are_applied(mini: Mini) -> None:
    assert files_of(mini.call("diff", str(mini.root), "--phase", "0").out) == ["candle-core/Cargo.toml"]
    refused = mini.call("diff", str(mini.root), "--phase", "1")
    assert (refused.code, refused.out) == (2, "")
    assert "usage error: phase 1 needs phase 0" in refused.err
    assert mini.call("apply", str(mini.root), "--phase", "0", "--allow-dirty").code == 0
    assert files_of(mini.call("diff", str(mini.root), "--phase", "1").out) == [DEVICE]


def test_the_diff_of_an_applied_tree_is_that_of_the_pristine_one(mini: Mini) -> None:
    before = mini.call("diff", str(mini.root)).out
    assert mini.call("apply", str(mini.root), "--allow-dirty").code == 0
    assert mini.call("diff", str(mini.root)).out == before


def test_the_gating_is_that_of_the_tree_unless_named(mini: Mini) -> None:
    gated = '#[cfg(feature = "rocm")]'
    assert gated not in mini.call("diff", str(mini.root)).out
    assert gated in mini.call("diff", str(mini.root), "--gating", "cfg").out
    assert mini.call("apply", str(mini.root), "--gating", "cfg", "--allow-dirty").code == 0
    assert gated in mini.call("diff", str(mini.root)).out
    assert gated not in mini.call("diff", str(mini.root), "--gating", "dummy").out


def test_stat_counts_lines(mini: Mini) -> None:
    assert mini.call("diff", str(mini.root), "--stat").out.splitlines() == [
        "candle-core/Cargo.toml    | +1 -0",
        "candle-core/src/device.rs | +2 -0",
        "2 files changed (0 new), 3 lines added, 0 removed",
    ]


def test_colour_is_for_terminals_and_for_those_who_ask(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" not in mini.call("diff", str(mini.root)).out
    assert "\x1b[32m+rocm = []" in mini.call("diff", str(mini.root), "--color", "always").out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[32m+rocm = []" in mini.call("diff", str(mini.root)).out
    assert "\x1b[" not in mini.call("diff", str(mini.root), "--color", "never").out
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[" not in mini.call("diff", str(mini.root)).out
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in mini.call("diff", str(mini.root)).out


def test_json_has_files_lines_and_rules(mini: Mini) -> None:
    document = mini.call("diff", str(mini.root), "--json").json
    assert (document["schema_version"], document["command"], document["gating"]) == (1, "diff", "dummy")
    assert [phase["phase"] for phase in document["phases"]] == [0, 1]
    (file,) = document["phases"][1]["files"]
    assert (file["path"], file["added"], file["removed"]) == (DEVICE, 2, 0)
    assert [region["rule"] for region in file["regions"]] == ["core.variant", "core.dispatch"]


def test_an_unknown_site_leaves_stdout_empty(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    answer = mini.call("diff", str(mini.root))
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.startswith("unhandled backend site: candle-core/src/notes.rs:3:5")
