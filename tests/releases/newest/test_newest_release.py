"""What takes minutes and is done for the newest release only: every target, candle-nn's tests, the CPU's tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from releases.command_line import LEAST_TESTS, passed_tests, verified

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

EXAMPLES = pytest.mark.skipif(
    "RELEASES" in os.environ and "EXAMPLES" not in os.environ,
    reason="builds all that examples depend on: not in the share that RELEASES leaves, unless EXAMPLES=1 asks for it",
)
LEAST_PYTHON_TESTS = 78
"""How many of candle-pyo3's, all but four for CUDA and two that let arithmetic overflow; 26 are our own."""


def test_every_target_builds(newest: str, work: Path) -> None:
    """clippy of tests, examples and benches with `rocm`."""
    verified(newest, ("all-targets-on",), work)


@EXAMPLES
def test_gated_examples_build_and_all_targets_without_the_feature(newest: str, work: Path) -> None:
    verified(newest, ("all-targets-off", "gated-examples-off", "gated-examples-on"), work)


def test_candle_nns_tests_pass_on_the_device(newest: str, work: Path) -> None:
    """The fused operations on ROCm compared with the CPU, attention with a naive one, and candle-nn's own tests."""
    steps = verified(newest, ("rocm-nn-tests",), work)
    assert passed_tests(steps["rocm-nn-tests"]) >= 40


def test_candle_pyo3s_tests_pass_on_the_device(newest: str, work: Path) -> None:
    """The extension module in Python: our tests on devices `rocm` and `rocm:1`, and candle-pyo3's own."""
    steps = verified(newest, ("rocm-python-tests",), work)
    assert passed_tests(steps["rocm-python-tests"]) >= LEAST_PYTHON_TESTS


def test_whole_models_agree_with_the_cpu(newest: str, work: Path) -> None:
    """A llama, token generation and the training of a convolutional net; and candle-transformers' own tests."""
    steps = verified(newest, ("rocm-models-tests",), work)
    assert passed_tests(steps["rocm-models-tests"]) >= 30


@EXAMPLES
def test_example_programs_agree_with_the_cpu(newest: str, work: Path) -> None:
    """custom-ops, mnist-training, llama2-c, mamba and resnet, as a user runs them."""
    steps = verified(newest, ("rocm-examples-tests",), work)
    assert passed_tests(steps["rocm-examples-tests"]) == 7


def test_cpu_tests_pass_without_the_feature(newest: str, work: Path) -> None:
    """Candle's own CPU tests, feature off; on the newest release, because building them takes minutes."""
    step = verified(newest, ("cpu-tests-off",), work)["cpu-tests-off"]
    assert "SKIPPED" not in step["detail"]
    assert passed_tests(step) >= LEAST_TESTS
