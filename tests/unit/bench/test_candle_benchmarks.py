"""benchmarks/candle.py: what it reads from criterion, and the table it makes of it. Nothing is timed here."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY

from codegen.verify.cargo import CargoRun

sys.path.append(str(REPOSITORY))
from benchmarks.candle import (
    CPU,
    DISCLAIMER,
    EMULATED,
    Failure,
    duration,
    groups_of,
    one_group,
    read_times,
    table,
    why,
)

if TYPE_CHECKING:
    from pathlib import Path

BENCH_MAIN = """\
mod benchmarks;
criterion_main!(
    benchmarks::affine::benches,
    benchmarks::qmatmul::benches
);
"""


def estimate(folder: Path, name: str, mean: float, slope: float | None = None) -> None:
    """What criterion writes about a benchmark, in nanoseconds."""
    file = folder / name / "new" / "estimates.json"
    file.parent.mkdir(parents=True)
    point = {"mean": {"point_estimate": mean}, "slope": slope and {"point_estimate": slope}}
    file.write_text(json.dumps(point), encoding="utf-8")


def test_the_slope_counts_where_there_is_one_and_else_the_mean(tmp_path: Path) -> None:
    estimate(tmp_path, "rocm_affine_f32/iter", mean=5e6, slope=4e6)
    estimate(tmp_path, "rocm_affine_f16/iter", mean=7e6)
    assert read_times(tmp_path, "rocm_") == {"affine_f16": 7e-3, "affine_f32": 4e-3}


def test_benchmarks_of_another_device_do_not_count(tmp_path: Path) -> None:
    """Candle measures `vec_dot` on the CPU, whatever the device."""
    estimate(tmp_path, "cpu_vec_dot/iter", mean=5.0)
    assert read_times(tmp_path, "rocm_") == {}
    assert read_times(tmp_path, "cpu_") == {"vec_dot": 5e-9}


def test_only_the_newest_estimates_are_read(tmp_path: Path) -> None:
    """criterion keeps those of the run before in `base`."""
    estimate(tmp_path, "cpu_a/iter", mean=1e3)
    (tmp_path / "cpu_a/iter/base").mkdir()
    (tmp_path / "cpu_a/iter/base/estimates.json").write_text("{}", encoding="utf-8")
    assert read_times(tmp_path, "cpu_") == {"a": 1e-6}


def test_a_folder_without_results_has_no_times(tmp_path: Path) -> None:
    assert read_times(tmp_path / "nothing", "cpu_") == {}


def test_the_table_names_what_did_not_run_and_says_what_the_times_are_not() -> None:
    cpu = {"affine": {"affine_f32": 2e-3}, "qmatmul": {"qmatmul_F32": 3e-6}, "vec_dot": {"vec_dot": 8e-9}}
    emulated: dict[str, dict[str, float]] = {"affine": {"affine_f32": 0.5}, "qmatmul": {}, "vec_dot": {}, "random": {}}
    failures = [Failure("qmatmul", EMULATED.title, "quantize waits for phase 2"), Failure("random", CPU.title, "oh")]

    lines = table(cpu, emulated, failures).splitlines()

    assert [line.split() for line in lines[:5]] == [
        ["CPU", "emulated"],
        ["affine_f32", "2", "ms", "500", "ms"],
        ["qmatmul_F32", "3", "us", "failed"],
        ["vec_dot", "8", "ns", "none"],
        ["random", "failed", "none"],
    ]
    assert lines[5:7] == ["qmatmul failed (emulated): quantize waits for phase 2", "random failed (CPU): oh"]
    assert "\n".join(lines).endswith(DISCLAIMER)
    assert "say nothing about a GPU" in DISCLAIMER


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(8.25e-9, "8.25 ns"), (1e-6, "1 us"), (1.2345e-3, "1.23 ms"), (0.25, "250 ms"), (1.0, "1 s"), (41.3, "41.3 s")],
)
def test_durations_have_three_digits_and_a_unit(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_each_group_has_an_arm_of_its_own() -> None:
    assert groups_of(BENCH_MAIN) == ("affine", "qmatmul")
    main = one_group(groups_of(BENCH_MAIN))
    assert 'Ok("affine") => benchmarks::affine::benches(),' in main
    assert 'Ok("qmatmul") => benchmarks::qmatmul::benches(),' in main
    assert "{{" not in main


@pytest.mark.parametrize(
    ("log", "complaint", "reason"),
    [
        (
            "thread 'main' panicked at a.rs:1:2:\nno such kernel\nnote: run with",
            "error: bench failed",
            "no such kernel",
        ),
        (
            "error[E0001]: broken",
            "error: could not compile `candle-core`\nmore",
            "error: could not compile `candle-core`",
        ),
        ("", "", "cargo ended with 101"),
    ],
)
def test_a_failure_gives_the_panic_or_what_cargo_says(tmp_path: Path, log: str, complaint: str, reason: str) -> None:
    file = tmp_path / "x.log"
    file.write_text(log, encoding="utf-8")
    run = CargoRun(("bench",), 101, (), complaint, 1.0, file)
    assert why(run) == reason


def test_a_group_that_is_ended_says_after_how_long(tmp_path: Path) -> None:
    run = CargoRun(("bench",), -15, (), "", 300.0, tmp_path / "x.log", timed_out=True)
    assert why(run) == "not done after 300 s"
