"""Results that runs leave behind, and the record that is made of them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from codegen.errors import ExitCode, InputOutputError
from codegen.paths import repository_root
from codegen.spec.kinds import DEFAULT_RUNTIME
from codegen.spec.loader import load_specs
from codegen.verify import record
from codegen.verify.acceptance import Acceptance, Line, Seed
from codegen.verify.account import DOCUMENTED
from codegen.verify.record import RECORD, Record, read_record, renewed, results_below
from codegen.verify.results import FileRun, Found, FoundByPytest, FoundByVerify, StepRun, append, last_seconds, read
from codegen.verify.target import Device

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.plan.model import Plan

ROOT = "/here"
FILE = "tests/unit/test_some.py"
LINE = Line(asks="it is there", verify=("rocm-tests", "clippy-on"), pytest=(FILE,))
SPEC = Acceptance(seeds=(Seed(document="000", about="all", lines=(LINE,)),))


def step(*, root: str = ROOT, candle: str = "0.11.1", **more: Any) -> FoundByVerify:
    run = {
        "step": "rocm-tests",
        "release": "0.11.1",
        "gating": "dummy",
        "runtime": DEFAULT_RUNTIME,
        "device": "emulator",
        "phase": 7,
        "at": "2026-11-20T10:00:00Z",
        "tool": "0.1.0",
        "verdict": "passed",
        "ran_on": "emulator (gfx1100)",
        "detail": "3 passed, 0 failed, 0 ignored",
    }
    return FoundByVerify(root=root, candle=candle, found=StepRun.model_validate(run | more))


def file(*, root: str = ROOT, **more: Any) -> FoundByPytest:
    run = {"file": FILE, "at": "2026-11-20T10:00:00Z", "passed": 2, "failed": 0, "skipped": 1}
    return FoundByPytest(root=root, found=FileRun.model_validate(run | more))


def made(*found: Found, before: Record | None = None) -> Record:
    return renewed(before or Record(), found, SPEC, load_specs(), ROOT)


def test_lines_are_added_and_read_again(tmp_path: Path) -> None:
    target = tmp_path / "new" / "results.jsonl"
    assert append(target, [step(), file()]) is None
    assert append(target, [step(verdict="FAILED")]) is None
    assert read(target) == [step(), file(), step(verdict="FAILED")]


def test_a_file_that_cannot_be_written_is_said_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file\n", encoding="utf-8")
    said = append(tmp_path / "taken" / "results.jsonl", [step()])
    assert said is not None
    assert said.endswith("`make acceptance` will not know of this run")


def test_a_line_that_is_no_result_is_named(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"
    append(target, [step()])
    with target.open("a", encoding="utf-8") as out:
        out.write('{"kind": "step"}\n')
    with pytest.raises(InputOutputError, match=r"results\.jsonl:2 is no result of a run"):
        read(target)


def test_the_last_run_of_each_build_counts() -> None:
    later = step(verdict="FAILED", at="2026-11-21T10:00:00Z", detail="/a/path of a machine")
    older = step(release="0.9.1", candle="0.9.1")
    found = made(later, step(), older)
    assert [(run.release, run.verdict.value, run.detail) for run in found.steps] == [
        ("0.9.1", "passed", "3 passed, 0 failed, 0 ignored"),
        ("0.11.1", "FAILED", ""),
    ]
    assert made(step(at="2026-11-22T10:00:00Z"), before=found).steps[-1].verdict.value == "passed"
    assert made(step(), before=found) == found, "what the record knows is newer"


def test_what_was_not_run_since_keeps_its_day() -> None:
    before = made(step(), file())
    after = made(step(at="2026-11-23T10:00:00Z"), before=before)
    assert ([run.day for run in after.steps], [run.day for run in after.files]) == (["2026-11-23"], ["2026-11-20"])


@pytest.mark.parametrize(
    "found",
    [
        step(root="/a/copy/with/faults"),
        file(root="/a/copy/with/faults"),
        step(candle="/a/folder/that/somebody/changed"),
        step(phase=3),
        step(release="0.8.0", candle="0.8.0"),
        step(step="doc-on"),
        file(file="tests/unit/test_other.py"),
        step(packages=("candle-core",)),
        step(programs=("rocm_matrix",)),
    ],
)
def test_what_shows_nothing_of_the_repository_or_is_not_asked_for_is_left_out(found: Found) -> None:
    assert made(found) == Record()


def test_a_crate_by_itself_shows_failures_only_until_it_passes() -> None:
    failed = step(packages=("candle-nn",), verdict="FAILED")
    before = made(failed)
    assert [run.packages for run in before.steps] == [("candle-nn",)]
    assert made(step(packages=("candle-nn",), at="2026-11-21T10:00:00Z"), before=before) == Record()


def test_how_long_a_step_takes_is_known_of_whole_runs_only(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"
    runs = [step(seconds=90.0), step(seconds=5.0, programs=("lib",)), step(seconds=7.0, packages=("candle-core",))]
    append(target, [*runs, step(step="clippy-on", device=None, seconds=30.0), step(seconds=4.0, gating="cfg")])
    plan = cast("Plan", SimpleNamespace(release="0.11.1", gating="dummy", runtime=DEFAULT_RUNTIME))

    assert last_seconds(target, plan, Device("emulator")) == {"rocm-tests": 90.0, "clippy-on": 30.0}
    assert last_seconds(target, plan, Device("ROCm (gfx1100)")) == {"clippy-on": 30.0}


def test_a_device_is_asked_apart_from_another() -> None:
    found = made(step(), step(device="ROCm (gfx1100)", ran_on="ROCm (gfx1100)"))
    assert [run.device for run in found.steps] == ["ROCm (gfx1100)", "emulator"]


def test_the_text_is_stable_and_read_again(tmp_path: Path) -> None:
    found = made(file(), step(), step(step="clippy-on", device=None, ran_on=None))
    assert found == made(step(step="clippy-on", device=None, ran_on=None), step(), file())
    (tmp_path / "docs").mkdir()
    (tmp_path / RECORD).write_text(found.text, encoding="utf-8")
    assert read_record(tmp_path) == found
    assert json.loads(found.text)["files"][0]["file"] == FILE
    assert found.text.count("\n") == 10
    with pytest.raises(InputOutputError, match=r"cannot read docs/acceptance-record\.json"):
        read_record(tmp_path / "docs")


def test_make_acceptance_writes_record_and_page(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CANDLE_ROCM_FETCH_DIR", str(tmp_path / "cache"))
    (home / "docs").mkdir(exist_ok=True)
    (home / RECORD).write_text(Record().text, encoding="utf-8")
    append(home / "build" / "verify" / "results.jsonl", [step(root=str(home)), step(root="/elsewhere", phase=7)])
    append(home / "build" / "pytest-results.jsonl", [file(root=str(home), file="tests/kernels/test_fill.py")])
    append(tmp_path / "more" / "results.jsonl", [step(root=str(home), release="0.9.1", candle="0.9.1")])
    assert repository_root() == home

    assert record.main([str(tmp_path / "more")]) == ExitCode.OK

    assert capsys.readouterr().out == "2 runs of steps, 1 files with tests; 3 of them renewed\n"
    assert [run.release for run in read_record(home).steps] == ["0.9.1", "0.11.1"]
    page = (home / DOCUMENTED).read_text(encoding="utf-8")
    assert "`candle-rocm verify 0.11.1 --only rocm-tests`: passed on 2026-11-20, emulator (gfx1100)" in page
    assert len(results_below([home / "build"])) == 1

    (home / "build" / "pytest-results.jsonl").write_text("{}\n", encoding="utf-8")
    assert record.main([]) == ExitCode.IO
    assert "pytest-results.jsonl:1 is no result" in capsys.readouterr().err
