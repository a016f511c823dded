"""Figures of a benchmark: verdicts, table, plot, and the comparison of two runs."""

from __future__ import annotations

import json
import math
import signal
import xml.etree.ElementTree as ET
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from codegen.bench.model import Measured, Operand, Row
from codegen.bench.results import HEADINGS, Run, failure, plot, slower, verdict
from codegen.bench.rows import rows
from codegen.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine


def row(op: str = "relu", *, limit: str = "copy", tolerance: float = 0.0) -> Row:
    inputs = (Operand("f32", (1 << 20,)),)
    return Row(op, "f32", "2^20", inputs, lambda _, t: t[0], None, 8 << 20, 0.9, limit, tolerance)


def measured(
    own: Row, microseconds: float, *, rival: float | None = None, limit: float | None = None, error: float | None = None
) -> Measured:
    return Measured(own, microseconds, rival, limit, error)


def test_gigabytes_per_second_are_of_the_bytes_that_must_move() -> None:
    assert math.isclose(measured(row(), 10).gigabytes_per_second, (8 << 20) / 10e-6 / 1e9)


@pytest.mark.parametrize(
    ("microseconds", "error", "expected"),
    [(2.0, 0.0, "ok"), (2.5, 0.0, "below the goal"), (2.0, 1e-3, "WRONG"), (2.0, None, "ok, not compared")],
)
def test_a_row_is_held_against_its_limit_and_its_result(
    microseconds: float, error: float | None, expected: str
) -> None:
    assert verdict(measured(row(), microseconds, limit=4300, error=error)) == expected


def test_without_a_limit_there_is_no_verdict() -> None:
    assert verdict(measured(row(), 2, error=0.0)) == ""
    assert verdict(measured(row(), 2)) == "not compared"


def test_a_result_that_was_not_compared_is_not_correct() -> None:
    own = measured(row(), 2, limit=4300)
    assert own.is_correct is None
    assert json.loads(json.dumps(own.document()))["correct"] is None


@pytest.mark.parametrize("error", [math.inf, math.nan, 1e-3])
def test_no_error_but_a_small_one_is_correct(error: float) -> None:
    assert measured(row(tolerance=1e-4), 2, error=error).is_correct is False


def test_a_run_without_a_comparison_fails() -> None:
    right, wrong, unknown = (measured(row(), 2, error=error) for error in (0.0, 1.0, None))

    assert failure(Run("nvidia", "sm_90", (right, unknown))) is None
    assert failure(Run("nvidia", "sm_90", (right, wrong))) == "wrong: relu 2^20 f32"
    for measurements in ((unknown,), ()):
        assert (failure(Run("nvidia", "sm_90", measurements)) or "").startswith("not compared: ")


class WithoutPyTorch:
    """A GPU that PyTorch is not there for."""

    device = SimpleNamespace(target="nvidia", architecture="sm_90")
    torch = None

    def measured(self, own: Row) -> Measured:
        return measured(own, 2)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_bench_without_pytorch_fails_and_says_so(
    candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.setattr("codegen.bench.run.Bench", WithoutPyTorch)
    result = candle_rocm("bench", "--only", "relu", *form)

    assert result.code == ExitCode.VERIFICATION_FAILED
    assert "not compared: no result was held against another" in result.stderr
    if form:
        assert {own["correct"] for own in result.document["rows"]} == {None}
    else:
        assert "not compared" in result.stdout


class StoppedAtTheSecond(WithoutPyTorch):
    """One whose user has seen enough."""

    rows = 0

    def measured(self, own: Row) -> Measured:
        StoppedAtTheSecond.rows += 1
        if StoppedAtTheSecond.rows > 1:
            raise KeyboardInterrupt
        return super().measured(own)


def test_what_was_measured_before_an_interruption_is_reported(
    candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codegen.bench.run.Bench", StoppedAtTheSecond)
    result = candle_rocm("bench", "--only", "relu", "--json")

    assert [own["microseconds"] for own in result.document["rows"]] == [2]
    assert result.code == 128 + signal.SIGINT
    assert "interrupted" in result.stderr


def test_what_was_measured_is_said_before_an_earlier_run_is_read(
    candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("codegen.bench.run.Bench", WithoutPyTorch)
    result = candle_rocm("bench", "--only", "relu", "--json", "--against", tmp_path / "none.json")

    assert result.code == ExitCode.USAGE
    assert "cannot read" in result.stderr
    assert {own["microseconds"] for own in result.document["rows"]} == {2}


def test_where_pytorch_is_the_limit_the_share_is_of_its_speed() -> None:
    own = measured(row(limit="rival"), 10, rival=12, error=0.0)
    assert own.share == own.ratio == 1.2
    assert verdict(own) == "ok"


@pytest.mark.parametrize(("microseconds", "expected"), [(1.3, "ok"), (1.31, "below the goal")])
def test_a_small_row_is_held_against_a_time(microseconds: float, expected: str) -> None:
    own = measured(replace(row(limit="time"), goal=1.3), microseconds, rival=1.2, error=0.0)
    assert verdict(own) == expected
    cells = Run("nvidia", "sm_90", (own,)).cells()[0]
    assert (cells[1], cells[3], cells[4]) == (f"{microseconds:.2f}", "", "1.3 us")


def test_the_table_has_a_cell_for_each_heading() -> None:
    run = Run("nvidia", "sm_90", (measured(row(), 2, rival=3, limit=4300, error=0.0), measured(row("exp"), 5)))
    first, second = run.cells()
    assert len(first) == len(second) == len(HEADINGS)
    assert first == ("relu 2^20 f32", "2.0", "4194", "98%", "90%", "1.50", "0.0e+00", "ok")
    assert run.label == "HIP on NVIDIA, sm_90"


def test_the_plot_has_a_bar_for_each_row_with_a_limit() -> None:
    run = Run("nvidia", "sm_90", (measured(row("<a>"), 2, limit=4300), measured(row("exp"), 5)))
    parsed = ET.fromstring(plot(run))
    texts = [element.text for element in parsed if element.tag.endswith("text")]
    assert texts[1:] == ["<a> 2^20 f32"]


def test_rows_that_became_slower_are_named(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    old = Run("nvidia", "sm_90", (measured(row(), 10), measured(row("exp"), 10), measured(row("gone"), 1)))
    before.write_text(json.dumps(old.document()))
    new = Run("nvidia", "sm_90", (measured(row(), 10.9), measured(row("exp"), 12), measured(row("new"), 99)))

    assert [str(found) for found in slower(before, new, factor=1.1)] == [
        "exp 2^20 f32: 10.0 us, now 12.0 us (1.20 times)"
    ]


def test_runs_of_two_devices_are_not_compared(tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(json.dumps(Run("amd", "gfx1100", ()).document()))
    with pytest.raises(UsageError, match="amd gfx1100"):
        slower(before, Run("nvidia", "sm_90", ()), factor=1.1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 99}'])
def test_a_file_that_is_no_run_is_an_error(tmp_path: Path, text: str) -> None:
    before = tmp_path / "before.json"
    before.write_text(text)
    with pytest.raises(UsageError, match=r"before\.json"):
        slower(before, Run("nvidia", "sm_90", ()), factor=1.1)


def test_rows_have_names_of_their_own_and_goals_that_can_be_reached() -> None:
    names = [own.name for own in rows()]
    assert len(names) == len(set(names)) > 120
    assert all(own.goal > 0 and (own.goal <= 1 or own.limit == "time") and own.moved > 0 for own in rows())


def test_every_tolerance_is_small() -> None:
    """A relative error of 1 is what a result of zeros has."""
    assert [own.name for own in rows() if not 0 <= own.tolerance < 0.2] == []


def test_a_row_that_there_is_not_is_an_error(candle_rocm: CommandLine) -> None:
    result = candle_rocm("bench", "--only", "no such row")
    assert result.code == 2
    assert "no row is called no such row" in result.stderr
