"""`bench --check`: results are compared with PyTorch's on the CPU, and nothing is timed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from codegen.bench.model import Checked, Operand, Row
from codegen.bench.results import CheckedRun, failure
from codegen.errors import ExitCode

if TYPE_CHECKING:
    from in_process import CommandLine

OPERAND = Operand("f32", (1 << 20,))
ROW = Row("relu", "f32", "2^20", (OPERAND,), lambda _, t: t[0], None, 8 << 20, 0.9, "copy", 1e-6)


FAILED = ExitCode.VERIFICATION_FAILED


class Device:
    """In place of `codegen.bench.check.Check`."""

    device = SimpleNamespace(target="model", architecture="gfx942")
    error: float | None = 0.0

    def checked(self, row: Row) -> Checked:
        return Checked(row, self.error)


def test_lines_say_what_is_right_and_how_many_are() -> None:
    rows = (Checked(ROW, 0.0), Checked(replace(ROW, op="exp"), 1.0), Checked(replace(ROW, op="log"), None))
    run = CheckedRun("model", "gfx942", rows, ("sqr: it ended",), 7)
    assert run.lines() == [
        "AMD's runtime on a modelled GPU, gfx942",
        "right         0.0e+00  relu 2^20 f32",
        "WRONG         1.0e+00  exp 2^20 f32",
        "not compared           log 2^20 f32",
        "4 rows of seed 7: 1 right, 1 ended with an error",
    ]
    assert failure(run) == "ended with an error: sqr: it ended"
    assert failure(replace(run, failed=())) == "wrong: exp 2^20 f32"
    assert (failure(replace(run, failed=(), rows=rows[2:])) or "").startswith("not compared: ")
    assert failure(replace(run, failed=(), rows=rows[::2])) is None


@pytest.mark.parametrize(
    ("error", "correct", "code"),
    [(0.0, True, ExitCode.OK), (1.0, False, FAILED), (float("nan"), False, FAILED), (None, None, FAILED)],
)
def test_a_wrong_result_and_none_at_all_fail(
    candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, error: float | None, correct: Any, code: int
) -> None:
    monkeypatch.setattr("codegen.bench.check.Check", Device)
    monkeypatch.setattr(Device, "error", error)
    result = candle_rocm("bench", "--check", "--random", "2", "--seed", "5", "--json")
    assert result.code == code
    assert (result.document["target"], result.document["seed"]) == ("model", 5)
    assert [row["correct"] for row in result.document["rows"]] == [correct] * 2


def test_what_needs_times_is_refused(candle_rocm: CommandLine) -> None:
    result = candle_rocm("bench", "--check", "--plot", "plot.svg")
    assert result.code == ExitCode.USAGE
    assert "nothing is timed with --check" in result.stderr


def test_pytorch_is_needed(candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    result = candle_rocm("bench", "--check", "--only", "relu")
    assert result.code == ExitCode.TOOLCHAIN_MISSING
    assert "PyTorch is not installed" in result.stderr


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "u8", "u32", "i64"])
def test_tensors_are_copied_as_they_are(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from codegen.bench.clock import TimedDevice
    from codegen.bench.operands import cpus, ours_of_cpu, torch_input

    held = torch_input(torch, Operand(kind, (3, 5), "normal" if "f" in kind else "below:200"), "cpu")
    found = cpus(torch, ours_of_cpu(TimedDevice(), torch, held, kind))
    assert found.dtype == held.dtype
    assert torch.equal(found, held)
    assert len(np.unique(held.float().numpy())) > 1


@pytest.mark.parametrize(("tolerance", "correct"), [(0.0, True), (-1.0, False)])
def test_a_row_is_compared_on_the_device(tolerance: float, *, correct: bool) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from codegen.bench.check import Check
    from codegen.bench.rows import rows

    row = next(row for row in rows() if row.name.startswith("relu"))
    small = replace(row, inputs=tuple(replace(own, shape=(1000,), views=()) for own in row.inputs))
    assert Check().checked(replace(small, tolerance=tolerance)).is_correct is correct
