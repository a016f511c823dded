"""The list of steps, and which of them run."""

from __future__ import annotations

import pytest

from codegen.errors import ExitCode, UsageError
from codegen.verify.steps import STEPS, Judge, choose_steps


def ids(phase: int, *, quick: bool = False) -> list[str]:
    return [step.id for step in choose_steps(phase, quick=quick)]


def test_ids_are_unique_and_titles_say_what_is_on() -> None:
    assert len({step.id for step in STEPS}) == len(STEPS)
    assert len({step.title for step in STEPS}) == len(STEPS)
    for step in STEPS:
        assert ("rocm" in step.features) == step.id.endswith(("-on", "-and-rocm", "smoke", "rocm-basic"))


def test_phase_0_builds_with_and_without_the_feature_and_runs_the_smoke_program() -> None:
    assert ids(0) == ["check-off", "check-on", "smoke"]


def test_phase_1_runs_everything() -> None:
    assert ids(1) == [step.id for step in STEPS]


def test_quick_leaves_out_what_takes_minutes() -> None:
    assert set(ids(1)) - set(ids(1, quick=True)) == {step.id for step in STEPS if step.slow}
    assert "cuda" in ids(1, quick=True)


def test_command_lines() -> None:
    lines = {step.id: " ".join(step.arguments()) for step in STEPS}
    core_nn_transformers = "-p candle-core -p candle-nn -p candle-transformers"
    assert lines["check-off"] == f"check {core_nn_transformers}"
    assert lines["check-on"] == f"check {core_nn_transformers} --features rocm"
    assert lines["all-targets-on"] == (
        "check -p candle-core -p candle-nn -p candle-examples --all-targets --features rocm"
    )
    assert lines["cuda-and-rocm"] == "check -p candle-core -p candle-nn --features cuda,rocm"
    assert lines["rocm-basic"] == "test -p candle-core --test rocm_basic --features rocm"
    assert lines["smoke"] == "run -p candle-core --example rocm_smoke --features rocm"


def test_the_unpatched_tree_is_never_asked_for_rocm() -> None:
    assert not any("rocm" in " ".join(step.arguments(baseline=True)) for step in STEPS if step.judge is Judge.BUILDS)


def test_only_picks_steps_even_slow_ones() -> None:
    chosen = choose_steps(1, quick=True, only=["cpu-tests-off", "check-off"])
    assert [step.id for step in chosen] == ["check-off", "cpu-tests-off"]


@pytest.mark.parametrize(("phase", "name"), [(1, "nope"), (0, "cuda")])
def test_an_unknown_or_later_step_is_a_usage_error(phase: int, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_steps(phase, only=[name])
    assert caught.value.exit_code is ExitCode.USAGE
    assert f"no step `{name}` for phase {phase}" in str(caught.value)
    assert "choose among check-off, check-on" in str(caught.value)
