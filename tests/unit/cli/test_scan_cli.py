"""`candle-rocm scan`: tables, lists, documents and exit codes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import jsonschema
import pytest
from mini_candle import CANDLE_SPEC, CORE_SPEC, DEVICE, NOTES, UNDECIDED, Mini, make_mini

from codegen.report.scan_schema import SCAN_SCHEMA
from codegen.spec.model import CandleSpec, Pin
from codegen.verify.oracle import RustcSite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOREIGN = "candle-core/src/cuda_backend/mod.rs"
UNFORESEEN = """\
pub fn odd(device: &crate::device::Device) -> bool {
    use crate::device::Device;
    if let Device::Cuda(_) = device {
        return matches!(device, Device::Cuda(1));
    }
    false
}
"""
UNKNOWN_TEXT = (
    "unhandled backend site: candle-core/src/notes.rs:3:5: no rule handles this site and no spec leaves it alone "
    "(if-let in odd)\n"
    "  3 |     if let Device::Cuda(_) = device {\n"
    "    |     ^\n"
    "  = help: decide each site in candle-rocm.yaml at the root of the tree "
    "(`candle-rocm scan CANDLE --suggest` writes a draft), or leave them for later: `apply --leave-unknown`\n"
)


@pytest.fixture
def mini(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mini:
    return make_mini(tmp_path, capsys, monkeypatch)


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_table_has_phases_crates_reasons_and_a_closing_line(mini: Mini) -> None:
    answer = mini.call("scan", str(mini.root))
    assert (answer.code, answer.err) == (0, "")
    rows = words(answer.out)
    assert ["0", "setup", "1"] in rows
    assert ["1", "core", "2"] in rows
    assert ["2", "later", "1"] in rows
    assert ["candle-core", "1", "2", "1", "1", "5"] in rows
    assert ["candle-lab", "1", "1"] in rows
    assert ["candle.crates", "1", "a", "laboratory", "without", "AMD", "cards"] in rows
    assert ["candle.foreign", "1", "the", "CUDA", "backend", "itself"] in rows
    assert answer.out.endswith("\n6 sites: 3 handled, 1 not applied, 2 left alone, 0 unknown\n")


def test_what_is_no_terminal_gets_no_colour_and_no_trailing_blanks(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    for arguments in ([], ["--list"]):
        answer = mini.call("scan", str(mini.root), *arguments)
        assert "\x1b" not in answer.out
        assert not any(line.endswith(" ") for line in answer.out.splitlines())


def test_a_terminal_gets_colour_unless_no_color_is_set(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[32m" not in mini.call("scan", str(mini.root), "--list").out
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b[32m" in mini.call("scan", str(mini.root), "--list").out


def test_a_list_has_one_line_per_site(mini: Mini) -> None:
    assert mini.call("scan", str(mini.root), "--list").out.splitlines() == [
        f"{FOREIGN}:1:1 file mod.rs -> left alone (candle.foreign, leave; the CUDA backend itself)",
        "candle-core/src/device.rs:3:5 enum Device::Cuda -> handled in phase 1 (core.variant, mirror)",
        "candle-core/src/device.rs:8:9 match Device::name -> handled in phase 1 (core.dispatch, mirror)",
        "candle-core/src/device.rs:15:9 matches! Device::fast -> phase 2, not applied (later.fast, or-in)",
        "candle-lab/src/lib.rs:1:1 fn cuda_lab -> left alone (candle.crates, leave; a laboratory without AMD cards)",
        "candle-core/Cargo.toml:7:1 cargo-feature features::cuda -> handled in phase 0 (setup.feature, mirror)",
    ]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["--state", "left-alone"], [f"{FOREIGN}:1:1", "candle-lab/src/lib.rs:1:1"]),
        (
            ["--state", "left-alone", "--state", "not-applied"],
            [f"{FOREIGN}:1:1", f"{DEVICE}:15:9", "candle-lab/src/lib.rs:1:1"],
        ),
        (["--phase", "1"], [f"{DEVICE}:3:5", f"{DEVICE}:8:9"]),
        (["--kind", "match"], [f"{DEVICE}:8:9"]),
        (["--path", "candle-core/*"], ["candle-core/Cargo.toml:7:1"]),
        (["--state", "unknown"], []),
    ],
)
def test_filters_make_a_list(mini: Mini, arguments: list[str], lines: list[str]) -> None:
    answer = mini.call("scan", str(mini.root), *arguments)
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()] == lines


def test_a_kind_that_does_not_exist_is_a_usage_error(mini: Mini) -> None:
    answer = mini.call("scan", str(mini.root), "--kind", "arm")
    assert answer.code == 2
    assert answer.err.startswith(
        "usage error: there is no site of kind 'arm'\n  = help: kinds are: call, cargo-feature"
    )


def test_an_unknown_site_is_shown_and_exits_4(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    answer = mini.call("scan", str(mini.root))
    assert answer.code == 4
    assert answer.err == UNKNOWN_TEXT
    assert "candle-core/src/notes.rs:3:5 if-let odd -> unknown (no rule handles this site" in answer.out
    assert answer.out.endswith("7 sites: 3 handled, 1 not applied, 2 left alone, 1 unknown\n")


def test_the_same_site_left_alone_by_a_spec_passes(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    rule = "  - {id: later.odd, sites: {kind: if-let}, verb: leave, reason: odd code is CUDA's own}\n"
    mini.spec("phases/2-later.yaml", (mini.home / "specs/phases/2-later.yaml").read_text() + rule)
    answer = mini.call("scan", str(mini.root))
    assert (answer.code, answer.err) == (0, "")
    assert "3 left alone, 0 unknown" in answer.out


def test_a_renamed_enum_exits_4(mini: Mini) -> None:
    mini.write(DEVICE, (mini.root / DEVICE).read_text().replace("enum Device", "enum Hardware"))
    answer = mini.call("scan", str(mini.root))
    assert answer.code == 4
    assert "has no `enum Device` with a Cuda variant in candle-core (renamed, or moved?)" in answer.err
    assert mini.call("scan", str(mini.root), "--json").json["problems"][0]["path"] is None


def test_json_follows_the_schema_and_lists_what_was_asked_for(mini: Mini) -> None:
    answer = mini.call("scan", str(mini.root), "--json")
    assert (answer.code, answer.err) == (0, "")
    jsonschema.validate(answer.json, SCAN_SCHEMA)
    text = (mini.root / DEVICE).read_bytes()
    match = next(site for site in answer.json["sites"] if site["kind"] == "match")
    assert text[match["start"] : match["end"]].startswith(b"match self {")
    assert text[match["start"] : match["end"]].endswith(b"}")
    assert (match["enums"], match["spec"]) == (["Device"], "specs/phases/1-core.yaml:9")
    fewer = mini.call("scan", str(mini.root), "--json", "--kind", "match").json
    assert (len(fewer["sites"]), fewer["summary"]["total"]) == (1, 6)


def test_json_with_an_unknown_site_is_complete_and_exits_4(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    answer = mini.call("scan", str(mini.root), "--json")
    assert (answer.code, answer.err) == (4, "")
    jsonschema.validate(answer.json, SCAN_SCHEMA)
    assert answer.json["summary"]["states"]["unknown"] == 1
    (problem,) = answer.json["problems"]
    assert (problem["path"], problem["line"], problem["column"]) == (NOTES, 3, 5)


def test_sarif_and_annotations(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    sarif = mini.call("scan", str(mini.root), "--sarif")
    assert (sarif.code, sarif.err) == (4, UNKNOWN_TEXT)
    assert [result["level"] for result in sarif.json["runs"][0]["results"]] == ["note", "note", "error", "note"]
    github = mini.call("scan", str(mini.root), "--github")
    assert github.code == 4
    assert github.out.startswith("::error file=candle-core/src/notes.rs,line=3,col=5,title=unhandled backend site::")
    assert github.out.count("\n") == 1


def test_an_untried_release_is_said_to_be_and_scanned(mini: Mini) -> None:
    mini.spec("candle.yaml", CANDLE_SPEC.replace("version: 0.11.1", "version: 0.9.1"))
    answer = mini.call("scan", str(mini.root), "--json")
    assert answer.code == 0
    assert answer.err == "this version of candle-rocm was not tested with Candle 0.11.1 (tested: 0.9.1); continuing\n"
    assert answer.json["candle"] == {"release": "0.11.1", "tried": False}


@pytest.mark.parametrize("arguments", [["scan"], ["generate"], ["apply", "--allow-dirty"]])
def test_a_site_that_only_a_fallback_rule_knows_is_named(
    mini: Mini, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The match inside it goes with it."""
    monkeypatch.chdir(mini.home)
    mini.write(NOTES, UNFORESEEN)
    fallback = "  - {id: core.unseen, sites: {kind: if-let}, fallback: true, verb: leave, reason: nobody has seen it}\n"
    mini.spec("phases/1-core.yaml", CORE_SPEC + fallback)
    answer = mini.call(*arguments, str(mini.root))
    assert answer.code == 0, answer.err
    assert answer.err == (
        "new to the specs, please review: candle-core/src/notes.rs:3:5 if-let odd -> left alone "
        "(core.unseen, leave; nobody has seen it)\n"
    )


def test_the_scan_of_an_applied_tree_is_that_of_the_pristine_one(mini: Mini) -> None:
    before = mini.call("scan", str(mini.root), "--json").json
    assert mini.call("apply", str(mini.root), "--allow-dirty").code == 0
    assert mini.call("scan", str(mini.root), "--json").json == before


def test_a_folder_that_is_no_candle_is_refused(mini: Mini, tmp_path: Path) -> None:
    answer = mini.call("scan", str(tmp_path / "home"))
    assert answer.code == 2
    assert answer.err.startswith("not a Candle tree: ")


def oracle_says(monkeypatch: pytest.MonkeyPatch, *lines: int) -> None:
    found = tuple(RustcSite(DEVICE, line, 15, "`&Device::Probe` not covered") for line in lines)
    monkeypatch.setattr("codegen.verify.oracle.exhaustive_matches", lambda *_args, **_options: found)
    monkeypatch.setattr("codegen.verify.cargo.require_programs", lambda _programs: None)


def test_an_oracle_that_agrees_is_reported(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle_says(monkeypatch, 8)
    answer = mini.call("scan", str(mini.root), "--oracle")
    assert answer.code == 0
    assert answer.out.endswith("rustc 1, scan 1 exhaustive matches in candle-core (1 expected): they agree\n")
    document = mini.call("scan", str(mini.root), "--oracle", "--json").json
    jsonschema.validate(document, SCAN_SCHEMA)
    assert document["oracle"]["agrees"] is True


def test_an_oracle_gets_the_pins_of_the_release_and_its_notes_are_shown(
    mini: Mini, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = Pin(crate="float8", version="0.5.0", reason="0.5.1 is for another cudarc")
    monkeypatch.setattr(CandleSpec, "pins_of", lambda _spec, release: (pin,) if release == "0.11.1" else ())
    oracle_says(monkeypatch, 8)

    def matches(*_arguments: object, pins: object, on_note: Callable[[str], None], **_more: object) -> object:
        assert pins == (pin,)
        on_note("built with float8 0.5.0")
        return (RustcSite(DEVICE, 8, 15, "`&Device::Probe` not covered"),)

    monkeypatch.setattr("codegen.verify.oracle.exhaustive_matches", matches)
    answer = mini.call("scan", str(mini.root), "--oracle")
    assert answer.code == 0
    assert "built with float8 0.5.0\n" in answer.err


def test_an_oracle_that_disagrees_exits_4_and_names_each_difference(
    mini: Mini, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle_says(monkeypatch, 8, 15)
    answer = mini.call("scan", str(mini.root), "--oracle")
    assert answer.code == 4
    assert f"{DEVICE}:15:1: rustc demands an arm here; the scan does not list it" in answer.err
    silent = mini.call("scan", str(mini.root), "--oracle", "--json")
    assert (silent.code, silent.err.count("\n")) == (4, 1)
    assert silent.err.startswith("--oracle builds the tree, and so runs its code as you: ")
    assert silent.json["oracle"]["only_rustc"] == [{"path": DEVICE, "line": 15}]


def test_json_needs_no_rich() -> None:
    program = (
        "import sys\n"
        "import codegen.cli.scan, codegen.report.scan_document, codegen.report.requested_plan\n"
        "import codegen.report.findings, codegen.report.summary, codegen.report.site_filter\n"
        "import codegen.workspace.workspace\n"
        "print('rich' in sys.modules, 'pygments' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
