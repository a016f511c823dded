"""Budgets: what a kernel needs too much of is named with kernel, architecture, numbers and line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rocm_toolchain import real_toolchain
from small_kernels import SPEC, TWICE, loaded_family, source, sources

from codegen.errors import ExitCode, KernelRejected
from codegen.kernels.architectures import architecture
from codegen.kernels.code_object import KernelMetadata
from codegen.kernels.compile import compile_kernels
from codegen.kernels.model import Budget
from codegen.kernels.resources import KernelResources, check_resources, read_resources

if TYPE_CHECKING:
    from pathlib import Path

GOOD = KernelMetadata(
    symbol="twice_f32",
    vgprs=16,
    agprs=0,
    sgprs=20,
    lds=0,
    scratch=0,
    vgpr_spills=0,
    sgpr_spills=0,
    wave_size=32,
    max_block=256,
    dynamic_stack=False,
)

# More live values than 1024 threads of a block can have registers for.
SPILLING = """\
#include "candle_rocm/twice.h"
extern "C" __global__ void __launch_bounds__(1024) twice_f32(float *y, const float *x, unsigned count) {
  float v[180];
#pragma unroll
  for (unsigned i = 0; i < 180; ++i) v[i] = x[threadIdx.x + i * 1024];
  for (unsigned k = 0; k < count; ++k) {
#pragma unroll
    for (unsigned i = 0; i < 180; ++i) v[i] = v[i] * v[(i + 1) % 180] + 1.0f;
  }
#pragma unroll
  for (unsigned i = 0; i < 180; ++i) y[threadIdx.x + i * 1024] = v[i];
}
"""


def needing(on: str = "gfx1100", **needs: object) -> KernelResources:
    kernel = replace(GOOD, **needs)  # type: ignore[arg-type]  # the keys are KernelMetadata's own
    return KernelResources("small", architecture(on), kernel)


def findings(*resources: KernelResources) -> list[str]:
    with pytest.raises(KernelRejected) as raised:
        check_resources(resources, [loaded_family("twice_f32", vgprs=64, lds=1024)])
    assert raised.value.exit_code is ExitCode.VERIFICATION_FAILED
    return [str(problem) for problem in raised.value.problems]


def test_within_the_budget() -> None:
    check_resources([needing(), needing(vgprs=64, lds=1024)], [loaded_family("twice_f32", vgprs=64, lds=1024)])


def test_registers_that_cost_no_wave_are_free() -> None:
    """gfx1100 has 16 waves up to 96 registers."""
    check_resources([needing(vgprs=96)], [loaded_family("twice_f32", vgprs=64, lds=1024)])
    (finding,) = findings(needing(vgprs=97))
    assert "needs 97 VGPRs of 64 allowed" in finding


def test_a_variant_may_have_a_budget_of_its_own() -> None:
    family = loaded_family("twice_f32", vgprs=32, lds=0, plain=Budget(vgprs=100, lds=2048))
    check_resources([needing(on="gfx90a", vgprs=100, lds=2048)], [family])
    with pytest.raises(KernelRejected, match="needs 101 VGPRs of 100 allowed"):
        check_resources([needing(on="gfx90a", vgprs=101)], [family])


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ({"vgpr_spills": 3, "sgpr_spills": 2}, "spills 3 VGPRs and 2 SGPRs"),
        ({"sgpr_spills": 1}, "spills 0 VGPRs and 1 SGPRs"),
        ({"scratch": 48}, "keeps 48 bytes per lane in scratch memory"),
        ({"dynamic_stack": True}, "keeps 0 bytes per lane in scratch memory, and its stack can grow"),
        ({"vgprs": 65}, "needs 65 VGPRs of 64 allowed"),
        ({"lds": 1025}, "needs 1025 bytes of LDS of 1024 allowed"),
    ],
)
def test_too_much(needs: dict[str, object], told: str) -> None:
    (finding,) = findings(needing(on="gfx90a", **needs))
    assert finding.startswith(f"{SPEC}:2:1: twice_f32 on gfx90a {told}")
    assert "- name: twice_f32" in finding


def test_each_excess_is_told_on_each_architecture() -> None:
    needs = {"vgprs": 100, "lds": 2000}
    assert len(findings(needing(on="gfx90a", **needs), needing(on="gfx1100", **needs))) == 4


def test_a_kernel_that_the_hardware_cannot_hold() -> None:
    assert any("occupancy 0" in finding for finding in findings(needing(lds=70000)))


def test_a_kernel_that_is_not_in_the_code_object() -> None:
    (finding,) = findings(needing(symbol="other_f32"))
    assert finding.startswith(f"{SPEC}:2:1: twice_f32 is not in the code object for gfx1100")


def test_a_family_that_was_not_compiled_is_not_judged() -> None:
    check_resources([], [loaded_family("twice_f32")])


def test_occupancy_is_of_the_largest_block() -> None:
    assert needing().occupancy == 16
    assert needing(vgprs=128).occupancy == 10
    assert needing(lds=32768).occupancy == 8


def test_a_real_kernel_is_within(tmp_path: Path) -> None:
    objects = compile_kernels(sources(source(TWICE)), ["gfx906"], real_toolchain(), tmp_path)
    (found,) = read_resources(objects)
    assert (found.family, found.kernel.symbol, found.architecture.name) == ("small", "twice_f32", "gfx906")
    assert found.occupancy == 10
    check_resources([found], [loaded_family("twice_f32")])


def test_a_real_spill_is_found(tmp_path: Path) -> None:
    objects = compile_kernels(sources(source(SPILLING)), ["gfx906"], real_toolchain(), tmp_path)
    finding, *_ = findings(*read_resources(objects))
    assert finding.startswith(f"{SPEC}:2:1: twice_f32 on gfx906 spills ")
    assert "spills 0 VGPRs" not in finding
