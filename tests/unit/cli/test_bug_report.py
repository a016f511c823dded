"""`bug-report`: what it holds, what it must never hold, and that nothing is written before somebody could look."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from codegen.verify.bug_report import HIDDEN, LINES, LOGS, Scrubber, archive, logs_below, names_here, variables_text

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

TOKENS = (
    *("ghp_0123456789abcdefABCD", "github_pat_11ABCDEFG0123456789", "hf_abcdefghijklmnop", "AKIA0123456789ABCDEF"),
    *("cio0123456789abcdefghij", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl"),
)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user and a machine with names of their own."""
    home = tmp_path / "home" / "gertrud"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("getpass.getuser", lambda: "gertrud")
    monkeypatch.setattr("platform.node", lambda: "heliotrop.example.org")
    return home


def logged(work: Path, text: str, name: str = "logs/0.11.1/check-on.log") -> Path:
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(text, encoding="utf-8")
    return work


@pytest.mark.parametrize("token", TOKENS)
def test_no_secret_is_in_it_wherever_it_came_from(
    candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("CARGO_REGISTRIES_MINE_TOKEN", token)
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("CARGO_HTTP_PROXY", f"http://me:{token}@proxy.example")
    work = logged(tmp_path / "work", f"cloning https://{token}@host.example/x\nAuthorization: Bearer {token}\n")
    document = candle_rocm.ok("bug-report", "--work", work, "--json").document
    everything = "".join(document["files"].values())
    assert token not in everything
    assert f"CARGO_REGISTRIES_MINE_TOKEN={HIDDEN}\n" in document["files"]["variables.txt"]
    assert "HF_TOKEN" not in everything
    assert f"https://{HIDDEN}@host.example/x" in document["files"]["logs/0.11.1/check-on.log"]
    assert document["taken_out"]["secrets"] >= 3


def test_names_of_the_user_and_the_machine_are_taken_out(
    candle_rocm: CommandLine, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_PATH", str(machine / "rocm"))
    log = f"   Compiling x ({machine}/src)\nby gertrud@heliotrop on heliotrop.example.org\ngertrude stays\n"
    files = candle_rocm.ok("bug-report", "--work", logged(tmp_path / "work", log), "--json").document["files"]
    assert files["logs/0.11.1/check-on.log"] == "   Compiling x (~/src)\nby USER@HOST on HOST\ngertrude stays\n"
    assert "ROCM_PATH=~/rocm\n" in files["variables.txt"]


def test_nothing_is_written_until_a_file_is_named(
    candle_rocm: CommandLine, candle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    work = logged(tmp_path / "work", "an error\n")
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "home")}
    shown = candle_rocm.ok("bug-report", candle, "--work", work)
    listed = [line.split()[-1] for line in shown.stdout.splitlines()[:-1]]
    assert listed == ["about.json", "doctor.json", "logs/0.11.1/check-on.log", "status.json", "variables.txt"]
    assert shown.stdout.splitlines()[-1].startswith("taken out: ")
    assert "nothing is written" in shown.stderr
    assert candle_rocm.ok("bug-report", "--work", work, "--show", "logs/0.11.1/check-on.log").stdout == "an error\n"
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "home")} == before

    candle_rocm.ok("bug-report", candle, "--work", work, "--to", "report.zip")
    with zipfile.ZipFile(tmp_path / "report.zip") as packed:
        assert packed.namelist() == listed
        assert packed.read("logs/0.11.1/check-on.log") == b"an error\n"
        assert b'"release": "0.11.1"' in packed.read("status.json")


def test_a_file_that_is_there_is_not_overwritten(candle_rocm: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    refused = candle_rocm("bug-report", "--to", tmp_path / "mine")
    assert (refused.code, (tmp_path / "mine").read_text(encoding="utf-8")) == (6, "mine")
    assert "File exists" in refused.stderr


def test_a_name_that_there_is_not_is_answered_with_those_that_there_are(candle_rocm: CommandLine) -> None:
    refused = candle_rocm("bug-report", "--show", "x")
    assert refused.code == 2
    assert "choose among about.json, doctor.json, variables.txt" in refused.stderr


def test_a_tree_that_cannot_be_read_is_in_the_report(candle_rocm: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "no-candle").mkdir()
    status = candle_rocm.ok("bug-report", tmp_path / "no-candle", "--show", "status.json").stdout
    assert '"error": "' in status


def test_only_the_ends_of_the_newest_logs_are_taken(tmp_path: Path) -> None:
    for number in range(LOGS + 3):
        logged(tmp_path, "".join(f"line {line}\n" for line in range(LINES + 5)), f"logs/r/{number:02}.log")
    found = logs_below(tmp_path)
    assert len(found) == LOGS
    lines = next(iter(found.values())).splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("... 5 lines before", "line 5", f"line {LINES + 4}")
    assert logs_below(tmp_path / "nothing") == {}


def test_variables_that_nothing_asks_for_are_not_even_named() -> None:
    text = variables_text({"MY_DIARY": "dear", "PATH": "/bin", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"})
    assert text == "HSA_OVERRIDE_GFX_VERSION=11.0.0\nPATH=/bin\n"


def test_roots_name_is_no_name_and_short_ones_take_nothing_out() -> None:
    assert names_here(home="/root", user="root", host="localhost") == {"/root": "~"}
    assert names_here(home="/", user="x", host="") == {}
    assert Scrubber({})("text") == "text"


def test_the_same_files_make_the_same_archive() -> None:
    assert archive({"a": "1", "b": "2"}) == archive({"b": "2", "a": "1"})
