"""The table of architectures agrees with what clang reports of real code objects."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocm_toolchain import real_toolchain

from codegen.errors import UsageError
from codegen.kernels.architectures import ARCHITECTURES, Architecture, architecture, occupancy, parse_architectures
from codegen.kernels.code_object import KernelMetadata, read_kernels

if TYPE_CHECKING:
    from pathlib import Path

GCN_AND_CDNA = ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"]
RDNA = ["gfx1010", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1151", "gfx1200", "gfx1201"]

# Kernels that use the VGPR and SGPR of those numbers, LDS bytes and blocks of up to BLOCK threads; without HIP's
# headers, which cost a second. clang's estimate does not round SGPRs and LDS up to what the hardware hands out, as the
# ISA guides and ours do: the numbers are such that it makes no difference.
SOURCE = """\
#define LANE __builtin_amdgcn_workitem_id_x()
#define KERNEL(VGPR, SGPR, LDS, BLOCK) \\
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, BLOCK))) \\
  void k_##VGPR##_##SGPR##_##LDS##_##BLOCK(float *y) { \\
    __attribute__((shared)) static float lds[LDS / 4 + !LDS]; \\
    asm volatile("" ::: "v" #VGPR, "s" #SGPR); \\
    if (LDS) { \\
      lds[LANE] = y[LANE]; \\
      __builtin_amdgcn_s_barrier(); \\
      y[LANE] = lds[LANE + 1]; \\
    } \\
  }
KERNEL(1, 1, 0, 64) KERNEL(31, 1, 0, 256) KERNEL(32, 1, 0, 256) KERNEL(47, 1, 0, 256) KERNEL(75, 1, 0, 256)
KERNEL(96, 1, 0, 256) KERNEL(120, 1, 0, 256) KERNEL(130, 1, 0, 64) KERNEL(200, 1, 0, 256) KERNEL(255, 1, 0, 64)
KERNEL(1, 75, 0, 256) KERNEL(1, 89, 0, 256) KERNEL(1, 99, 0, 64)
KERNEL(4, 1, 5120, 64) KERNEL(4, 1, 10240, 256) KERNEL(4, 1, 30720, 256) KERNEL(4, 1, 61440, 1024)
KERNEL(4, 1, 20480, 512)
"""

PRODUCTS = (
    "v_dot4_i32_i8 v0, v1, v2, v3",
    "v_dot4_i32_iu8 v0, v1, v2, v3 neg_lo:[1,1,0]",
    "v_mfma_i32_16x16x16i8 a[0:3], v0, v1, a[0:3]",
    "v_mfma_i32_16x16x32_i8 a[0:3], v[0:1], v[2:3], a[0:3]",
    "v_wmma_i32_16x16x16_iu8 v[0:7], v[8:11], v[12:15], v[0:7]",
    "v_wmma_i32_16x16x16_iu8 v[0:7], v[8:9], v[10:11], v[0:7]",
    "v_mfma_f32_16x16x16f16 a[0:3], v[0:1], v[2:3], a[0:3]",
    "v_mfma_f32_16x16x8bf16 a[0:3], v0, v1, a[0:3]",
    "v_mfma_f32_16x16x16bf16_1k a[0:3], v[0:1], v[2:3], a[0:3]",
    "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]",
    "v_wmma_f32_16x16x16_bf16 v[0:7], v[8:15], v[16:23], v[0:7]",
    "v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[12:15], v[0:7]",
    "v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[12:15], v[0:7]",
)
"""Products of signed bytes, and of matrices of 16-bit floats, in every form that one of the architectures has; the last
two of each are RDNA 3's and RDNA 4's."""

REMARK = re.compile(r"remark: +([A-Za-z ]+?)(?: \[[^\]]*\])?: (\w+)")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as its code object and as clang's remarks describe it."""

    kernel: KernelMetadata
    remarks: dict[str, str]


def compiled(on: Architecture, folder: Path) -> list[Compiled]:
    (folder / "k.hip").write_text(SOURCE, encoding="utf-8")
    options = ["-O3", "-nogpuinc", "-nogpulib", "-Rpass-analysis=kernel-resource-usage", "k.hip", "-o", "k.hsaco"]
    command = [*real_toolchain().command(on.name), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    remarks: dict[str, dict[str, str]] = {}
    for key, value in REMARK.findall(done.stderr):
        if key == "Function Name":
            current = remarks.setdefault(value, {})
        else:
            current[key] = value
    return [Compiled(kernel, remarks[kernel.symbol]) for kernel in read_kernels(folder / "k.hsaco")]


@pytest.mark.parametrize("on", ARCHITECTURES, ids=lambda on: on.name)
def test_clang_agrees(on: Architecture, tmp_path: Path) -> None:
    found = compiled(on, tmp_path)
    assert len(found) == 18
    for each in found:
        kernel, told = each.kernel, each.remarks
        assert kernel.wave_size == on.wave_size
        assert kernel.lds == int(told["LDS Size"]) == int(kernel.symbol.split("_")[3])
        assert kernel.scratch == int(told["ScratchSize"])
        assert kernel.vgpr_spills == int(told["VGPRs Spill"])
        assert kernel.sgpr_spills == int(told["SGPRs Spill"])
        assert kernel.sgprs == int(told["TotalSGPRs"])
        assert kernel.vgprs > int(kernel.symbol.split("_")[1])
        ours = occupancy(on, vgprs=kernel.vgprs, sgprs=kernel.sgprs, lds=kernel.lds, block=kernel.max_block)
        assert ours == int(told["Occupancy"]), kernel


def test_the_kernels_reach_different_occupancies(tmp_path: Path) -> None:
    """Else the comparison above would say little."""
    assert len({each.remarks["Occupancy"] for each in compiled(architecture("gfx1100"), tmp_path)}) > 4


@pytest.mark.parametrize("on", ARCHITECTURES, ids=lambda on: on.name)
def test_clang_assembles_the_products_of_the_table_and_no_others(on: Architecture, tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text("\n".join(PRODUCTS) + "\n", encoding="utf-8")
    target = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={on.name}", "-nogpulib"]
    command = [str(real_toolchain().compiler), *target, "-x", "assembler", "-c", "k.s", "-o", "k.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    refused = {int(line) for line in re.findall(r"^k\.s:(\d+):\d+: error:", done.stderr, re.MULTILINE)}
    names = {text.split()[0] for line, text in enumerate(PRODUCTS, 1) if line not in refused}
    assert (done.returncode == 0) is (not refused)
    if "v_dot4_i32_iu8" in names:
        names.discard("v_dot4_i32_i8")  # is another name of it there
    for pattern, kind in ((on.dot4, "v_dot4*"), (on.matrix, "*_i32_16x16x*"), (on.halves, "*_f32_16x16x*")):
        of_kind = {name for name in names if fnmatchcase(name, kind)}
        assert of_kind == {name for name in names if fnmatchcase(name, pattern or "")}
        assert bool(of_kind) is (pattern is not None)


def test_the_thirteen() -> None:
    assert [each.name for each in ARCHITECTURES if each.wave_size == 64] == GCN_AND_CDNA
    assert [each.name for each in ARCHITECTURES if each.wave_size == 32] == RDNA


def test_names_are_parsed() -> None:
    assert [each.name for each in parse_architectures("gfx90a, gfx1100")] == ["gfx90a", "gfx1100"]
    assert parse_architectures("all") == ARCHITECTURES


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError, match="no architecture 'gfx1099'") as raised:
        parse_architectures("gfx906,gfx1099")
    assert all(name in raised.value.remedy for name in GCN_AND_CDNA + RDNA)


@given(
    on=st.sampled_from(ARCHITECTURES),
    vgprs=st.integers(0, 256),
    sgprs=st.integers(0, 102),
    lds=st.integers(0, 65536),
    block=st.integers(1, 1024),
)
def test_more_of_anything_never_raises_occupancy(
    on: Architecture, vgprs: int, sgprs: int, lds: int, block: int
) -> None:
    waves = occupancy(on, vgprs=vgprs, sgprs=sgprs, lds=lds, block=block)
    assert 0 < waves <= on.max_waves
    assert occupancy(on, vgprs=vgprs + 1, sgprs=sgprs, lds=lds, block=block) <= waves
    assert occupancy(on, vgprs=vgprs, sgprs=sgprs + 1, lds=lds, block=block) <= waves
    assert occupancy(on, vgprs=vgprs, sgprs=sgprs, lds=lds + 1, block=block) <= waves


def test_what_does_not_fit_has_none() -> None:
    assert occupancy(architecture("gfx1100"), vgprs=8, sgprs=8, lds=65537, block=64) == 0
    assert occupancy(architecture("gfx950"), vgprs=8, sgprs=8, lds=65537, block=64) > 0
