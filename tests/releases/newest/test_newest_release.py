"""What takes minutes and is done for the newest release only: tests on the device, examples, the CPU's tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from codegen.kernels.asked import asked_though_listed, missing_kernels
from releases.command_line import kernels_asked_for, verified
from releases.cover import FULL, NAMED

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

EXAMPLES = pytest.mark.skipif(
    bool(NAMED) and "EXAMPLES" not in os.environ,
    reason="builds all that examples depend on: not in the share that RELEASES leaves, unless EXAMPLES=1 asks for it",
)

MODEL_CARDS = [card for card in ("gfx1100", "gfx942") if card in os.environ.get("MODEL_CARDS", card).split()]


@EXAMPLES
def test_gated_examples_build_and_all_targets_without_the_feature(newest: str, work: Path) -> None:
    verified(newest, ("all-targets-off", "gated-examples-off", "gated-examples-on"), work)


def test_all_tests_pass_on_the_device_and_ask_for_every_kernel(newest: str, work: Path) -> None:
    """Candle's own tests, every operation and whole models compared with the CPU.

    What no test makes the backend launch could be launched wrongly, or not at all. CI's share leaves out models, rings
    of devices and products by our own kernels, and with them some kernels; and optional libraries, which tests/backend
    asks there.
    """
    usual = ("rocm-tests", "rocm-nn-tests")
    others = ("rocm-providers-tests", "rocm-own-products-tests", "rocm-parallel-tests", "rocm-models-tests")
    steps = verified(newest, usual if NAMED else (*usual, *others), work)
    asked = kernels_asked_for(steps.values())
    missing = missing_kernels(asked)
    print(f"{newest}: the backend asked for {len(asked)} kernels, and not for {len(missing)}")
    if not NAMED:
        assert sorted(missing) == []
    assert sorted(asked_though_listed(asked)) == []


@pytest.mark.parametrize("card", MODEL_CARDS)
def test_the_first_tests_pass_on_amds_runtime_and_a_modelled_gpu(newest: str, work: Path, card: str) -> None:
    """With libamdhip64, ROCr and hipRTC as AMD makes them; the model tells which kernels it has executed."""
    step = verified(newest, ("rocm-basic",), work, "--target", f"model:{card}")["rocm-basic"]
    assert step["ran_on"] == f"AMD's runtime on a modelled {card}"
    assert kernels_asked_for([step]) == {"fill_b128"}


@FULL
def test_candle_pyo3s_tests_pass_on_the_device(newest: str, work: Path) -> None:
    """The extension module in Python: our tests on devices `rocm` and `rocm:1`, and candle-pyo3's own."""
    verified(newest, ("rocm-python-tests",), work)


@EXAMPLES
def test_example_programs_agree_with_the_cpu(newest: str, work: Path) -> None:
    """custom-ops, mnist-training, llama2-c, mamba and resnet, as a user runs them."""
    verified(newest, ("rocm-examples-tests",), work)


@FULL
def test_cpu_tests_pass_without_the_feature(newest: str, work: Path) -> None:
    """Candle's own CPU tests, feature off; on the newest release, because building them takes minutes."""
    step = verified(newest, ("cpu-tests-off",), work)["cpu-tests-off"]
    assert "SKIPPED" not in step["detail"]


@FULL
def test_steps_that_others_contain_pass_by_themselves(newest: str, work: Path) -> None:
    """Each does what a wider step does as well, with another command."""
    verified(newest, ("check-off", "check-on", "rocm-basic", "cpu-tests-on"), work)


@FULL
def test_candle_pyo3s_tests_pass_without_the_feature(newest: str, work: Path) -> None:
    verified(newest, ("python-tests-off",), work)


@FULL
def test_the_smoke_program_ends_well(newest: str, work: Path) -> None:
    """That of the other runtime needs hipcc and an AMD GPU."""
    verified(newest, ("smoke-tensors",), work)
