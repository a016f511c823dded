"""Every kernel source through ROCm's own compilers: clang for all architectures, hipRTC as users compile them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from rocm_toolchain import ARCH, architectures, families_for_other_compilers, real_disassembler, real_toolchain

from codegen.errors import KernelRejected
from codegen.kernels.architectures import ARCHITECTURES
from codegen.kernels.code_object import read_kernels
from codegen.kernels.compile import compile_kernels
from codegen.kernels.instructions import check_instructions, needing, read_instructions
from codegen.kernels.loader import LoadedFamily, load_families
from codegen.kernels.model import Need
from codegen.kernels.render import Sources, render_sources
from codegen.kernels.resources import check_resources, read_resources
from codegen.paths import repository_root
from codegen.rocm.hiprtc import HipRtcRequest, compile_with_hiprtc

if TYPE_CHECKING:
    from pathlib import Path

WAVES = {"gfx1100": 32, "gfx90a": 64}
"""An architecture of each wave size."""
NAMED = [name for name in WAVES if ARCH == "all" or name in architectures()]
"""Those of them that are asked for."""


@cache
def families() -> tuple[LoadedFamily, ...]:
    return load_families()


@cache
def sources() -> Sources:
    return render_sources(families())


def symbols(loaded: LoadedFamily) -> set[str]:
    return {kernel.symbol for kernel in loaded.kernels}


def test_all_architectures_without_spills_and_within_budgets() -> None:
    """Into build/kernels, where what `make code-objects` has compiled is found again."""
    assert len(ARCHITECTURES) == 13
    names = architectures()

    objects = compile_kernels(sources(), names, real_toolchain())
    found = read_resources(objects)

    check_resources(found, families())
    assert len(found) == len(names) * sum(len(loaded.kernels) for loaded in families())


def test_kernels_have_the_dot_and_matrix_instructions_that_they_need() -> None:
    names = architectures()
    of_them = needing(families())
    halves = {loaded.name for loaded in families() if any(op.needs is Need.HALVES for op in loaded.family.ops)}
    assert of_them == {"conv", "expert_blocks", "quantized", "sdpa"}
    assert halves == {"conv", "sdpa"}

    objects = compile_kernels(
        render_sources([loaded for loaded in families() if loaded.name in of_them]), names, real_toolchain()
    )
    found = read_instructions(objects, real_disassembler())

    check_instructions(found, families())
    assert [(each.family, each.architecture.name) for each in found] == [(f, n) for f in sorted(of_them) for n in names]
    for each in found:
        used = {name for count in each.kernels.values() for name in count}
        there = each.architecture.halves if each.family in halves else each.architecture.dot4
        assert bool(used) is (there is not None), (each.family, each.architecture.name)


@pytest.mark.parametrize("loaded", families_for_other_compilers(), ids=lambda loaded: loaded.name)
@pytest.mark.parametrize("architecture", NAMED)
def test_hiprtc_compiles_every_family(architecture: str, loaded: LoadedFamily, tmp_path: Path) -> None:
    headers = {header.path: header.text for header in sources().headers}
    requests = [
        HipRtcRequest(
            source.path, source.text, architecture, tmp_path / f"{source.path}.hsaco", headers, ("-O3", "-std=c++17")
        )
        for source in render_sources([loaded]).families
    ]

    (result,) = compile_with_hiprtc(requests, real_toolchain())

    assert result.ok, result.log
    kernels = read_kernels(result.request.code)
    assert {kernel.symbol for kernel in kernels} == symbols(loaded)
    assert {kernel.wave_size for kernel in kernels} == {WAVES[architecture]}
    print(f"hipRTC, {architecture}: {result.seconds:.0f} s")


@pytest.mark.parametrize("architecture", WAVES)
def test_hiprtc_compiles_the_kernel_of_the_custom_op_example(architecture: str, tmp_path: Path) -> None:
    name = "layernorm_kernels.hip"
    folder = repository_root() / "templates/candle/7-examples/candle-examples/examples/custom-ops/kernels"
    text = (folder / name).read_text(encoding="utf-8")

    (result,) = compile_with_hiprtc(
        [HipRtcRequest(name, text, architecture, tmp_path / f"{name}.hsaco")], real_toolchain()
    )

    assert result.ok, result.log
    (kernel,) = read_kernels(result.request.code)
    assert (kernel.symbol, kernel.wave_size) == ("rms_f32", WAVES[architecture])


def test_a_broken_expression_names_the_line_of_its_spec(tmp_path: Path) -> None:
    loaded = next(loaded for loaded in families() if loaded.name == "unary")
    op = next(op for op in loaded.family.ops if op.name == "relu")
    broken_op = op.model_copy(update={"expressions": {"any": "no_such_function(x)"}})
    ops = tuple(broken_op if each is op else each for each in loaded.family.ops)
    kernels = tuple(replace(k, op=broken_op) for k in loaded.kernels if k.op is op)
    broken = replace(loaded, family=loaded.family.model_copy(update={"ops": ops}), kernels=kernels)

    with pytest.raises(KernelRejected) as caught:
        compile_kernels(render_sources([broken]), ["gfx1100"], real_toolchain(), tmp_path)

    line = 1 + loaded.text[: loaded.text.index("name: relu")].count("\n")
    assert f"specs/kernels/unary.yaml:{line}" in str(caught.value)
    assert "no_such_function" in str(caught.value)
