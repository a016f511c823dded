"""What MIOpen and rocRAND are asked for, and what becomes of it when they cannot; on the emulated device."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.conftest import Probe, Program
from codegen.verify.steps import FEATURE, OPTIONAL

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
    return Program("candle-core", "providers", SOURCES, (FEATURE, *OPTIONAL)).built(work, emulator)


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
    assert len(lines) == 9
    for line in lines:
        function, _, error = line.partition(": ")
        assert error.startswith(f"{function} failed with "), line
        assert "ROCRAND_STATUS_INTERNAL_ERROR (108)" in error or "miopenStatusInternalError (5)" in error, line


def test_what_miopen_has_no_solution_for_is_computed_by_own_kernels(providers: Probe) -> None:
    """Whatever it answers, the first time, and later without being searched for again; it is said once."""
    done = providers("unsupported")
    assert done.stdout.splitlines() == ["[0, 1] 0"] * 6, done.stderr
    assert done.stderr.count("computed by Candle's own kernels instead") == 1
    assert "miopenStatusUnsupportedOp (8)" in done.stderr


def test_a_search_takes_no_more_memory_than_there_is(providers: Probe) -> None:
    assert providers.lines("room-for-a-search") == [str(64 * 9)]


TYPES = ("BF16", "F16", "F32", "F64")


@pytest.fixture
def other_gpus_kernels(tmp_path: Path) -> dict[str, str]:
    """rocBLAS with kernels for another GPU of the same generation only."""
    (tmp_path / "TensileLibrary_lazy_gfx1101.dat").touch()
    return {"ROCBLAS_TENSILE_LIBPATH": str(tmp_path), "CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100"}


def test_rocblas_multiplies_where_it_has_kernels(providers: Probe) -> None:
    done = providers("products")
    assert done.stdout.splitlines() == [f"{t} [{int(t == 'BF16')}, 1] 0" for t in TYPES]
    assert done.stderr == ""


def test_rocblas_is_never_called_on_a_gpu_that_it_has_no_kernels_for(
    providers: Probe, other_gpus_kernels: dict[str, str]
) -> None:
    """It would end the process, and so would the emulated one."""
    done = providers("products", **other_gpus_kernels)
    assert done.stdout.splitlines() == [f"{t} [0, 0] 0" for t in TYPES], done.stderr
    (said,) = done.stderr.splitlines()
    assert "rocBLAS has no kernels for gfx1100: " in said
    assert "has those for gfx1101; set HSA_OVERRIDE_GFX_VERSION=11.0.1 to use those for gfx1101" in said
    # MIOpen would multiply with rocBLAS.
    assert providers.lines("unsupported", **other_gpus_kernels) == ["[0, 1] 0"] * 6


def test_a_user_who_insists_on_rocblas_gets_an_error(providers: Probe, other_gpus_kernels: dict[str, str]) -> None:
    done = providers("products", CANDLE_ROCM_BLAS="rocblas", **other_gpus_kernels)
    lines = done.stdout.splitlines()
    assert len(lines) == len(TYPES)
    for line, dtype in zip(lines, TYPES, strict=True):
        assert line.startswith(f"{dtype} [0, 0] rocBLAS has no kernels for gfx1100: "), line
        assert "HSA_OVERRIDE_GFX_VERSION=11.0.1" in line
    assert done.stderr == ""


@pytest.mark.parametrize("devices", ["gfx1100", "gfx90a"])
def test_own_kernels_multiply_anywhere_where_they_are_asked_for(providers: Probe, devices: str) -> None:
    done = providers("products", CANDLE_ROCM_BLAS="own", CANDLE_ROCM_EMULATOR_DEVICES=devices)
    assert done.stdout.splitlines() == [f"{t} [0, 0] 0" for t in TYPES]
    assert done.stderr == ""


def test_libraries_that_find_no_memory_get_what_is_cached(providers: Probe) -> None:
    lines = providers.lines("room")
    assert len(lines) == 8
    for line in lines:
        assert line.endswith(": ok, memory given back: true"), line


def test_what_rocblas_works_in_is_in_the_figures_and_within_the_limit(providers: Probe) -> None:
    refused, grown = providers.lines("figures")
    assert "memory limit on ROCm: " in refused
    assert int(grown) == 32


def test_errors_that_are_made_up_for_do_not_come_back_from_rocrand(providers: Probe) -> None:
    variables = {"CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100,gfx1100", "CANDLE_ROCM_ALLOCATOR": "direct"}
    assert providers.lines("left-behind", **variables) == ["peers: Ok(())", "memory: Ok(())"]


def test_a_source_is_loaded_once_for_a_gpu(providers: Probe) -> None:
    assert providers.lines("modules") == ["[1, 0]", "[1, 0]"]


def test_errors_have_a_backtrace_if_one_is_asked_for(providers: Probe) -> None:
    (first, *rest) = providers.lines("backtrace", RUST_BACKTRACE="1")
    assert "ROCm device 77 not found" in first
    assert any("new_rocm" in line or "main" in line for line in rest), rest
    assert len(providers.lines("backtrace", RUST_BACKTRACE="0")) == 1


def test_without_a_device_no_function_of_rocrand_or_miopen_is_called(providers: Probe, tmp_path: Path) -> None:
    trace = tmp_path / "calls"
    first, *others = providers.lines("no-device", CANDLE_ROCM_EMULATOR_TRACE=str(trace))
    assert "hipErrorNoDevice" in first
    assert others == ["Cpu", "[5]", "[5]"]
    calls = trace.read_text(encoding="utf-8")
    assert "hipGetDeviceCount(" in calls
    assert "rocrand_" not in calls
    assert "miopen" not in calls
