"""`candle-rocm kernels build` and `kernels resources`, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rocm_toolchain import real_disassembler, real_toolchain

from codegen.errors import ExitCode, ToolchainMissing
from codegen.kernels.loader import load_families
from codegen.rocm import disassembler

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from in_process import CommandLine

ARCHITECTURE = "gfx1100"


def test_build_says_what_it_made(candle_rocm: CommandLine) -> None:
    real_disassembler()
    kernels = sum(len(loaded.kernels) for loaded in load_families())

    result = candle_rocm.ok("kernels", "build", "--arch", ARCHITECTURE)
    document = candle_rocm.ok("kernels", "build", "--arch", ARCHITECTURE, "--json").document

    assert result.stdout.startswith(f"{kernels} kernels in {len(load_families())} code objects for 1 architectures: no")
    assert "instructions as needed" in result.stdout
    assert (document["command"], document["kernels"]) == ("kernels build", kernels)
    assert document["instructions_checked"] is True
    assert {row["family"] for row in document["code_objects"]} == {loaded.name for loaded in load_families()}


def test_resources_of_a_family(candle_rocm: CommandLine) -> None:
    real_toolchain()
    arguments = ("kernels", "resources", "--arch", ARCHITECTURE, "--family", "rope")

    lines = candle_rocm.ok(*arguments).stdout.splitlines()
    rows = candle_rocm.ok(*arguments, "--json").document["kernels"]

    assert lines[0].split() == ["kernel", "arch", "VGPRs", "SGPRs", "LDS", "spills", "waves/SIMD"]
    assert len(lines) == 1 + len(rows) == 1 + 3 * 4  # ops and types
    first = rows[0]
    wanted = [first[key] for key in ("kernel", "architecture", "vgprs", "sgprs", "lds", "spills", "occupancy")]
    assert lines[1].split() == [str(value) for value in wanted]
    assert all(row["spills"] == 0 < row["vgprs"] <= 64 for row in rows)


def test_instructions_of_a_family(candle_rocm: CommandLine) -> None:
    real_disassembler()
    arguments = ("kernels", "resources", "--arch", ARCHITECTURE, "--family", "quantized")

    lines = candle_rocm.ok(*arguments).stdout.splitlines()
    document = candle_rocm.ok(*arguments, "--json").document

    assert lines[0].endswith("  waves/SIMD  dot and matrix instructions")
    assert document["instructions_read"] is True
    rows = {row["kernel"]: row for row in document["kernels"]}
    assert rows["multiply_1_f32_q8_0"]["instructions"] == {"v_dot4_i32_iu8": 8}
    assert set(rows["multiply_tile_many_f32_q8_0"]["instructions"]) == {"v_wmma_i32_16x16x16_iu8"}
    assert "instructions" not in rows["dequantize_f16_q8_0"]
    (line,) = [line for line in lines if line.startswith("multiply_1_f32_q8_0 ")]
    assert line.endswith("  8 v_dot4_i32_iu8")


def test_without_a_disassembler_it_is_said(candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    real_toolchain()

    def find(_: object) -> NoReturn:
        raise ToolchainMissing("no llvm-objdump", remedy="get one")

    monkeypatch.setattr(disassembler, "find_disassembler", find)
    built = candle_rocm.ok("kernels", "build", "--arch", ARCHITECTURE)
    document = candle_rocm.ok("kernels", "build", "--arch", ARCHITECTURE, "--json").document
    arguments = ("kernels", "resources", "--arch", ARCHITECTURE, "--family", "quantized")
    shown = candle_rocm.ok(*arguments)

    assert "instructions not checked" in built.stdout
    assert "dot and matrix instructions are not looked at: missing toolchain: no llvm-objdump" in built.stderr
    assert document["instructions_checked"] is False
    assert shown.stdout.splitlines()[0].endswith("waves/SIMD")
    assert candle_rocm.ok(*arguments, "--json").document["instructions_read"] is False


def test_a_kernel_without_its_instruction_fails_the_build(
    candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real_toolchain()
    program = tmp_path / "llvm-objdump"
    program.write_text("#!/bin/sh\nprintf '<multiply_pairs_f32_q8_0>:\\n\\tv_mul_lo_u32 v0, v1, v2\\n'\n")
    program.chmod(0o755)
    monkeypatch.setattr(disassembler, "find_disassembler", lambda _: program)

    result = candle_rocm("kernels", "build", "--arch", ARCHITECTURE)

    assert result.code == ExitCode.VERIFICATION_FAILED
    assert f"multiply_pairs_f32_q8_0 on {ARCHITECTURE} has no v_dot4_i32_iu8 or v_wmma_i32_*_iu8" in result.stderr


def test_an_unknown_architecture_is_a_usage_error(candle_rocm: CommandLine) -> None:
    result = candle_rocm("kernels", "build", "--arch", "gfx1")

    assert result.code == 2
    assert "no architecture 'gfx1'" in result.stderr
