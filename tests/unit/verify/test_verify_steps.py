"""The list of steps, and which of them run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from some import some

from codegen.errors import ExitCode, UsageError
from codegen.paths import repository_root
from codegen.spec.kinds import Runtime
from codegen.spec.providers import PROVIDERS as DESCRIBED
from codegen.spec.providers import parse_providers
from codegen.verify.steps import OPTIONAL, STEPS, PassCriterion, choose_steps


def ids(phase: int, *, runtime: Runtime = Runtime.ROCM_RS, quick: bool = False) -> list[str]:
    return [step.id for step in choose_steps(phase, runtime=runtime, quick=quick)]


def test_ids_are_unique_and_titles_say_what_is_on() -> None:
    assert len({step.id for step in STEPS}) == len(STEPS)
    assert len({step.title for step in STEPS}) == len(STEPS)
    for step in STEPS:
        assert ("rocm" in step.features) == step.id.endswith(
            ("-on", "-and-rocm", "smoke", "smoke-tensors", "-basic", "-tests")
        )


def test_phase_0_builds_with_and_without_the_feature_and_runs_the_smoke_program() -> None:
    assert ids(0) == ["check-off", "check-on", "smoke"]


def test_phase_1_runs_everything_but_what_needs_tensors() -> None:
    assert ids(1) == [step.id for step in STEPS if step.phase <= 1]


def test_the_dynamic_runtime_has_a_smoke_program_as_soon_as_tensors_work() -> None:
    dynamic = partial(ids, runtime=Runtime.DYNAMIC)
    assert dynamic(0) == ["check-off", "check-on"]
    assert set(ids(1)) - set(dynamic(1)) == {"smoke"}
    assert "smoke-tensors" in set(dynamic(3)) - set(dynamic(1))


def test_candles_tests_run_on_the_device_once_it_computes() -> None:
    assert "rocm-tests" not in ids(2)
    assert [step.id for step in choose_steps(3) if step.phased] == ["rocm-tests"]
    assert [step.id for step in choose_steps(5) if step.phased] == ["rocm-tests", "rocm-nn-tests"]
    assert all(step.device and step.criterion is PassCriterion.TESTS for step in STEPS if step.phased)


def test_models_and_example_programs_run_once_the_examples_choose_rocm() -> None:
    last = {"rocm-models-tests", "rocm-examples-tests"}
    assert last & set(ids(6)) == set()
    assert last <= set(ids(7))


def test_optional_providers_are_linted_and_tested_once_there_are_any() -> None:
    providers = {"clippy-providers-on", "rocm-providers-tests"}
    assert providers & set(ids(2)) == set()
    for runtime in Runtime:
        assert providers <= set(ids(3, runtime=runtime))
        assert providers & set(ids(3, runtime=runtime, quick=True)) == set()


def test_every_optional_library_is_a_feature_of_those_steps() -> None:
    described = parse_providers((repository_root() / DESCRIBED).read_bytes())
    providers = {provider.feature for provider in described.providers.values() if provider.feature}
    # Nothing that a backend computes by itself needs RCCL.
    assert set(OPTIONAL) == providers | {"rocm-rccl"}


def test_hip_on_nvidia_leaves_out_what_needs_amds_compiler_or_a_library_that_it_lacks() -> None:
    lacking = {step.id for step in STEPS if "nvidia" in dict(step.not_on)}
    compiled_by_hipcc = {step.id for step in STEPS if "hipcc" in step.programs}
    with_providers = {step.id for step in STEPS if step.device and set(OPTIONAL) & set(step.features)}
    assert lacking == compiled_by_hipcc | with_providers == {"smoke", "rocm-providers-tests", "rocm-parallel-tests"}


def test_quick_leaves_out_what_takes_minutes() -> None:
    assert set(ids(1)) - set(ids(1, quick=True)) == {step.id for step in choose_steps(1) if step.slow}
    assert "cuda" in ids(1, quick=True)


def test_command_lines() -> None:
    lines = {step.id: " ".join(step.arguments()) for step in STEPS}
    core_nn_transformers = "-p candle-core -p candle-nn -p candle-transformers"
    assert lines["check-off"] == f"check {core_nn_transformers}"
    assert lines["check-on"] == f"check {core_nn_transformers} --features rocm"
    assert lines["all-targets-on"] == (
        f"clippy {core_nn_transformers} -p candle-examples --all-targets --features rocm "
        "-- --cap-lints warn --warn clippy::undocumented_unsafe_blocks"
    )
    assert lines["cuda-and-rocm"] == "check -p candle-core -p candle-nn --features cuda,rocm"
    assert lines["rocm-basic"] == "test -p candle-core --test rocm_basic --features rocm"
    assert lines["rocm-tests"] == "test -p candle-core --tests --no-fail-fast --features rocm"
    assert lines["clippy-providers-on"] == (
        "clippy -p candle-core -p candle-nn --tests --examples --features rocm,rocm-miopen,rocm-rccl,rocm-rocrand "
        "-- --cap-lints warn --warn clippy::undocumented_unsafe_blocks"
    )
    assert lines["rocm-providers-tests"] == (
        "test -p candle-core --test rocm_miopen --test rocm_rccl --test rocm_rocrand "
        "--features rocm,rocm-miopen,rocm-rccl,rocm-rocrand"
    )
    assert lines["rocm-parallel-tests"] == (
        "test -p candle-nn --test rocm_llama_parallel --features rocm,rocm-miopen,rocm-rccl,rocm-rocrand"
    )
    assert lines["rocm-own-products-tests"] == (
        "test -p candle-core --test conv_tests --test grad_tests --test matmul_tests --test rocm_matrix "
        "--test tensor_tests --features rocm"
    )
    assert lines["rocm-models-tests"] == "test -p candle-transformers --tests --no-fail-fast --features rocm"
    assert lines["rocm-examples-tests"] == (
        "test -p candle-examples --test rocm_examples --no-fail-fast --features rocm,candle-datasets"
    )
    assert lines["cpu-tests-on"] == "test -p candle-core --tests --no-fail-fast --features rocm -- --skip ::rocm"
    assert lines["smoke"] == "run -p candle-core --example rocm_smoke --features rocm"


def test_clippy_wants_a_safety_line_at_each_unsafe_block() -> None:
    for step in some(STEPS):
        assert ("clippy::undocumented_unsafe_blocks" in step.arguments()) == (step.subcommand == "clippy")


@pytest.mark.parametrize("name", ["all-targets", "gated-examples"])
def test_all_targets_are_the_same_with_the_feature_and_without(name: str) -> None:
    on, off = (next(step for step in STEPS if step.id == f"{name}-{end}") for end in ("on", "off"))
    assert replace(on, id=off.id, title=off.title, features=()) == off


def test_the_unpatched_tree_is_never_asked_for_rocm() -> None:
    compared = [step for step in STEPS if step.criterion in (PassCriterion.BUILDS, PassCriterion.LINT)]
    assert not any("rocm" in " ".join(step.arguments(baseline=True)) for step in compared)


def test_only_picks_steps_even_slow_ones() -> None:
    chosen = choose_steps(1, quick=True, only=["cpu-tests-off", "check-off"])
    assert [step.id for step in chosen] == ["check-off", "cpu-tests-off"]


def test_packages_narrow_the_steps() -> None:
    chosen = choose_steps(1, packages=["candle-nn"])
    assert {step.crates for step in chosen} == {("candle-nn",)}
    assert "clippy-on" in {step.id for step in chosen}
    assert "rocm-basic" not in {step.id for step in chosen}, "it is about candle-core only"


def test_a_package_that_no_step_is_about_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        choose_steps(1, packages=["candle-core", "candle-cores"])
    assert "no step is about `candle-cores`; did you mean 'candle-core'?" in str(caught.value)
    assert "candle-nn" in str(caught.value)


@pytest.mark.parametrize(("phase", "name"), [(1, "nope"), (0, "cuda")])
def test_an_unknown_or_later_step_is_a_usage_error(phase: int, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_steps(phase, only=[name])
    assert caught.value.exit_code is ExitCode.USAGE
    assert f"no step `{name}` for phase {phase}" in str(caught.value)
    assert "choose among check-off, check-on" in str(caught.value)


def test_python_is_tested_once_phase_6_is_there() -> None:
    assert not any(step.python for step in choose_steps(5))
    on, off = (step for step in choose_steps(6) if step.python and step.slow)
    on, off = (on, off) if on.device else (off, on)
    assert (on.id, " ".join(on.arguments())) == ("rocm-python-tests", "build -p candle-pyo3 --features rocm")
    assert (off.id, " ".join(off.arguments())) == ("python-tests-off", "build -p candle-pyo3")
