"""Dot and matrix instructions: counted in a disassembly, and missed where an op needs them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rocm_toolchain import real_disassembler, real_toolchain
from small_kernels import SPEC, loaded_family, source, sources

from codegen.errors import ExitCode, InputOutputError, KernelRejected
from codegen.kernels.architectures import ARCHITECTURES, architecture
from codegen.kernels.compile import CodeObject, compile_kernels
from codegen.kernels.instructions import (
    ObjectInstructions,
    check_instructions,
    count_instructions,
    needing,
    read_instructions,
)
from codegen.kernels.model import Need

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.kernels.loader import LoadedFamily

# As llvm-objdump writes it: a label and an instruction a line, with its address behind it.
DISASSEMBLY = """\

made_up.hsaco:\tfile format elf64-amdgpu

Disassembly of section .text:

0000000000001900 <twice_f32>:
\ts_load_b32 s6, s[0:1], 0x24                                // 000000001900: F4000180 F8000024
\tv_dot4_i32_iu8 v0, v1, v2, v0 neg_lo:[1,1,0]               // 000000001908: CC164000 1C020501
\tv_dot4_i32_iu8 v0, v3, v4, v0 neg_lo:[1,1,0]               // 000000001910: CC164000 1C020903
\tv_wmma_i32_16x16x16_iu8 v[0:7], v[8:11], v[12:15], v[0:7]  // 000000001918: CC444000 1C021908
\tv_dual_dot2acc_f32_f16 v1, v2, v3 :: v_dual_mov_b32 v0, v5 // 000000001920: CB100505 01000702
\ts_endpgm                                                   // 000000001928: BFB00000

<none_f32>:
\tv_mul_f32_e32 v0, v0, v1                                   // 000000001A00: 10000300
\tv_add_nc_u32_e32 v0, v0, v1                                // 000000001A04: 4A000300
\ts_endpgm                                                   // 000000001A08: BFB00000
"""


def objects(on: str, **kernels: dict[str, int]) -> ObjectInstructions:
    return ObjectInstructions("small", architecture(on), kernels)


def needs(need: Need, *symbols: str) -> LoadedFamily:
    """A family whose ops all need the same."""
    loaded = loaded_family(*symbols)
    ops = {op.name: op.model_copy(update={"needs": need}) for op in loaded.family.ops}
    family = loaded.family.model_copy(update={"ops": tuple(ops.values())})
    return replace(loaded, family=family, kernels=tuple(replace(k, op=ops[k.op.name]) for k in loaded.kernels))


def findings(found: ObjectInstructions, family: LoadedFamily) -> list[str]:
    with pytest.raises(KernelRejected) as raised:
        check_instructions([found], [family])
    assert raised.value.exit_code is ExitCode.VERIFICATION_FAILED
    return [str(problem) for problem in raised.value.problems]


def test_instructions_are_counted_by_kernel() -> None:
    assert count_instructions(DISASSEMBLY) == {
        "twice_f32": {"v_dot2acc_f32_f16": 1, "v_dot4_i32_iu8": 2, "v_wmma_i32_16x16x16_iu8": 1},
        "none_f32": {},
    }


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("v_dot4_i32_i8 v0, v1, v2, v0", "v_dot4_i32_i8"),
        ("v_dot4c_i32_i8_e32 v0, v1, v2", "v_dot4c_i32_i8"),
        ("v_dot4c_i32_i8_dpp v0, v1, v2 quad_perm:[0,1,2,3]", "v_dot4c_i32_i8"),
        ("v_dot2_f32_f16_e64_dpp v0, v1, v2, v3 row_mirror", "v_dot2_f32_f16"),
        ("v_dot8_u32_u4 v0, v1, v2, v3", "v_dot8_u32_u4"),
        ("v_mfma_i32_16x16x32_i8 v[0:3], v[4:5], v[6:7], v[0:3]", "v_mfma_i32_16x16x32_i8"),
        ("v_mfma_f32_16x16x16f16 a[0:3], v[4:5], v[6:7], a[0:3]", "v_mfma_f32_16x16x16f16"),
        ("v_smfmac_i32_16x16x64_i8 v[0:3], v[4:5], v[6:9], v1", "v_smfmac_i32_16x16x64_i8"),
        ("v_swmmac_i32_16x16x32_iu8 v[0:7], v[8:9], v[10:13], v1", "v_swmmac_i32_16x16x32_iu8"),
    ],
)
def test_names_are_those_of_the_instructions_without_encodings(line: str, name: str) -> None:
    assert count_instructions(f"<k>:\n\t{line} // 0: 0\n") == {"k": {name: 1}}


@pytest.mark.parametrize("line", ["v_fma_f32 v0, v1, v2, v3", "v_mad_i32_i24 v0, v1, v2, v3", "s_nop 0 ; v_dots", ""])
def test_nothing_else_counts(line: str) -> None:
    assert count_instructions(f"<k>:\n\t{line} // 0: 0\n") == {"k": {}}


@pytest.mark.parametrize(
    ("need", "on", "has"),
    [
        (Need.DOT4, "gfx906", "v_dot4_i32_i8"),
        (Need.DOT4, "gfx942", "v_dot4c_i32_i8"),
        (Need.DOT4, "gfx942", "v_mfma_i32_16x16x32_i8"),
        (Need.DOT4, "gfx1030", "v_dot4c_i32_i8"),
        (Need.DOT4, "gfx1201", "v_dot4_i32_iu8"),
        (Need.MATRIX, "gfx906", "v_dot4_i32_i8"),
        (Need.MATRIX, "gfx908", "v_mfma_i32_16x16x16i8"),
        (Need.MATRIX, "gfx1030", "v_dot4_i32_i8"),
        (Need.MATRIX, "gfx1151", "v_wmma_i32_16x16x16_iu8"),
    ],
)
def test_one_of_them_is_enough(need: Need, on: str, has: str) -> None:
    check_instructions([objects(on, twice_f32={has: 1})], [needs(need, "twice_f32")])


@pytest.mark.parametrize(
    ("need", "on", "has", "told"),
    [
        (Need.DOT4, "gfx906", {}, "v_dot4*_i32_i8"),
        (Need.DOT4, "gfx906", {"v_dot2_f32_f16": 9}, "v_dot4*_i32_i8"),
        (Need.DOT4, "gfx90a", {}, "v_dot4*_i32_i8 or v_mfma_i32_*i8"),
        (Need.DOT4, "gfx1100", {"v_dot4_u32_u8": 8}, "v_dot4_i32_iu8 or v_wmma_i32_*_iu8"),
        (Need.MATRIX, "gfx1100", {"v_dot4_i32_iu8": 96}, "v_wmma_i32_*_iu8"),
        (Need.MATRIX, "gfx1200", {"v_wmma_i32_16x16x16_iu4": 1, "v_wmma_f32_16x16x16_f16": 1}, "v_wmma_i32_*_iu8"),
        (Need.MATRIX, "gfx942", {"v_dot4c_i32_i8": 96}, "v_mfma_i32_*i8"),
        (Need.MATRIX, "gfx1030", {}, "v_dot4*_i32_i8"),
    ],
)
def test_a_kernel_that_lacks_them_is_named(need: Need, on: str, has: dict[str, int], told: str) -> None:
    (finding,) = findings(objects(on, twice_f32=has), needs(need, "twice_f32"))
    assert finding.startswith(f"{SPEC}:2:1: twice_f32 on {on} has no {told}\n")
    assert "- name: twice_f32" in finding


@pytest.mark.parametrize("need", Need)
def test_nothing_is_needed_of_an_architecture_that_has_neither(need: Need) -> None:
    assert [each.name for each in ARCHITECTURES if not each.dot4] == ["gfx1010"]
    check_instructions([objects("gfx1010", twice_f32={})], [needs(need, "twice_f32")])


def test_nothing_is_needed_of_an_op_that_does_not_say_so() -> None:
    check_instructions([objects("gfx1100", twice_f32={})], [loaded_family("twice_f32")])


def test_a_kernel_that_the_disassembly_lacks_is_missed() -> None:
    """A text that we cannot read must not look like kernels that have all they need."""
    assert len(findings(objects("gfx1100"), needs(Need.DOT4, "twice_f32", "other_f32"))) == 2


def test_families_that_need_something() -> None:
    assert needing([loaded_family("twice_f32")]) == frozenset()
    assert needing([needs(Need.MATRIX, "twice_f32")]) == {"small"}


def disassembler(folder: Path, script: str) -> Path:
    path = folder / "llvm-objdump"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_every_object_is_read_in_its_order(tmp_path: Path) -> None:
    program = disassembler(tmp_path, "for last; do :; done; printf '<%s>:\\n\\tv_dot4_i32_i8 v0\\n' ${last##*/}")
    codes = [CodeObject("small", on, tmp_path / f"{on}_f32", 0.0) for on in ("gfx906", "gfx1030", "gfx908")]
    found = read_instructions(codes, program)
    assert [each.architecture.name for each in found] == ["gfx906", "gfx1030", "gfx908"]
    assert [dict(each.kernels) for each in found] == [{f"{code.path.name}": {"v_dot4_i32_i8": 1}} for code in codes]


def test_a_disassembler_that_fails_is_quoted(tmp_path: Path) -> None:
    program = disassembler(tmp_path, "echo 'no such file' >&2; exit 1")
    with pytest.raises(InputOutputError, match=r"llvm-objdump cannot read .*small\.hsaco: no such file"):
        read_instructions([CodeObject("small", "gfx906", tmp_path / "small.hsaco", 0.0)], program)


def test_a_disassembler_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputOutputError, match="llvm-objdump: No such file"):
        read_instructions([CodeObject("small", "gfx906", tmp_path, 0.0)], tmp_path / "llvm-objdump")


@pytest.mark.parametrize(
    ("on", "expression", "name"),
    [
        ("gfx906", "__builtin_amdgcn_sdot4(x[0], x[1], x[2], false)", "v_dot4_i32_i8"),
        ("gfx1100", "__builtin_amdgcn_sudot4(true, x[0], true, x[1], x[2], false)", "v_dot4_i32_iu8"),
    ],
)
def test_real_kernels(on: str, expression: str, name: str, tmp_path: Path) -> None:
    text = "\n".join(
        f'extern "C" __global__ void {symbol}(int *y, const int *x) {{ y[threadIdx.x] = {what}; }}'
        for symbol, what in (("twice_f32", expression), ("plain_f32", "x[0] * x[1] + x[2]"))
    )
    codes = compile_kernels(
        sources(source(f'#include "candle_rocm/twice.h"\n{text}\n')), [on], real_toolchain(), tmp_path
    )
    (found,) = read_instructions(codes, real_disassembler())
    assert found.kernels == {"twice_f32": {name: 1}, "plain_f32": {}}
    (finding,) = findings(found, needs(Need.DOT4, "twice_f32", "plain_f32"))
    assert f"plain_f32 on {on} has no v_dot4" in finding
