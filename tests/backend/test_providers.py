"""What MIOpen and rocRAND are asked for, and what becomes of it when they cannot; on the emulated device."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.conftest import Probe, Program
from codegen.verify.steps import FEATURE, PROVIDERS

pytestmark = [pytest.mark.cargo, pytest.mark.network]

HERE = Path(__file__).parent
SOURCES = (HERE / "providers/main.rs", HERE / "probe/emulator.rs")
GENERATOR = {"rocrand_create_generator": 1, "rocrand_set_stream": 1, "rocrand_set_seed": 1}
CALLS = {
    "a device and a sum": {},
    "rand of the first f32": {**GENERATOR, "rocrand_generate_uniform": 1},
    "rand of f32": {"rocrand_generate_uniform": 1},
    "rand of f16": {"rocrand_generate_uniform": 1},
    "rand of f64": {"rocrand_generate_uniform_double": 1},
    "rand of f8e4m3": {},
    "rand of no f32": {},
    "randn of even f32": {"rocrand_generate_normal": 1},
    "randn of odd f32": {"rocrand_generate_normal": 1},
    "randn of bf16": {"rocrand_generate_normal": 1},
    "randn of odd f64": {"rocrand_generate_normal_double": 1},
    "a seed": {},
    "rand after a seed": {"rocrand_set_seed": 1, "rocrand_generate_uniform": 1},
    "rand of another device": {**GENERATOR, "rocrand_generate_uniform": 1, "rocrand_destroy_generator": 1},
    "the first conv2d": {
        "miopenCreateWithStream": 1,
        "miopenFindConvolutionForwardAlgorithm": 1,
        "miopenConvolutionForward": 1,
    },
    "conv2d": {"miopenConvolutionForward": 1},
    "conv2d of another size": {"miopenFindConvolutionForwardAlgorithm": 1, "miopenConvolutionForward": 1},
    "conv2d of a view": {},
    "conv2d of f64": {},
    "relu": {},
    "relu by MIOpen": {
        "miopenActivationForward": 1,
        "miopenDestroyTensorDescriptor": 1,
        "miopenDestroyActivationDescriptor": 1,
    },
    "elu by MIOpen": {
        "miopenActivationForward": 1,
        "miopenDestroyTensorDescriptor": 1,
        "miopenDestroyActivationDescriptor": 1,
    },
    "gelu": {},
    "relu of a view": {},
    # Two convolutions were kept, with three tensors each.
    "the end": {
        "rocrand_destroy_generator": 1,
        "miopenDestroy": 1,
        "miopenDestroyTensorDescriptor": 6,
        "miopenDestroyConvolutionDescriptor": 2,
    },
}
"""Calls of rocRAND and MIOpen by each piece of work."""
LAUNCHES = {"rand of f16": 1, "randn of even f32": 0, "randn of odd f32": 1, "randn of bf16": 1, "conv2d": 0, "gelu": 1}


@pytest.fixture(scope="module")
def providers(work: Path, emulator: dict[str, str]) -> Probe:
    """The program, on the newest release."""
    return Program("candle-core", "providers", SOURCES, (FEATURE, *PROVIDERS)).built(work, emulator)


def test_providers_are_asked_for_what_they_compute(providers: Probe) -> None:
    found = {}
    for line in providers.lines("counts"):
        name, _, calls = line.partition(":")
        pairs = (call.split("=") for call in calls.split())
        found[name] = {function: int(number) for function, number in pairs}
    launches = {name: calls.pop("hipModuleLaunchKernel", 0) for name, calls in found.items()}

    assert found == CALLS
    assert {name: launches[name] for name in LAUNCHES} == LAUNCHES


def test_a_call_that_fails_is_an_error_that_names_it_and_the_next_one_works(providers: Probe) -> None:
    lines = providers.lines("faults")
    assert len(lines) == 10
    for line in lines:
        function, _, error = line.partition(": ")
        assert error.startswith(f"{function} failed with "), line
        assert "ROCRAND_STATUS_INTERNAL_ERROR (108)" in error or "miopenStatusInternalError (5)" in error, line


def test_what_miopen_has_no_solution_for_is_computed_by_own_kernels(providers: Probe) -> None:
    """The first time, and later without being searched for again."""
    assert providers.lines("unsupported") == ["[0, 1] 0", "[0, 1] 0"]


def test_without_a_device_no_function_of_rocrand_or_miopen_is_called(providers: Probe, tmp_path: Path) -> None:
    trace = tmp_path / "calls"
    first, *others = providers.lines("no-device", CANDLE_ROCM_EMULATOR_TRACE=str(trace))
    assert "hipErrorNoDevice" in first
    assert others == ["Cpu", "[5]", "[5]"]
    calls = trace.read_text(encoding="utf-8")
    assert "hipGetDeviceCount(" in calls
    assert "rocrand_" not in calls
    assert "miopen" not in calls
