"""`candle-rocm kernels build` and `kernels resources`, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_toolchain import real_toolchain

from codegen.kernels.loader import load_families

if TYPE_CHECKING:
    from in_process import CommandLine

ARCHITECTURE = "gfx1100"


def test_build_says_what_it_made(candle_rocm: CommandLine) -> None:
    real_toolchain()
    kernels = sum(len(loaded.kernels) for loaded in load_families())

    result = candle_rocm.ok("kernels", "build", "--arch", ARCHITECTURE)
    document = candle_rocm.ok("kernels", "build", "--arch", ARCHITECTURE, "--json").document

    assert result.stdout.startswith(f"{kernels} kernels in {len(load_families())} code objects for 1 architectures: no")
    assert (document["command"], document["kernels"]) == ("kernels build", kernels)
    assert {row["family"] for row in document["code_objects"]} == {loaded.name for loaded in load_families()}


def test_resources_of_a_family(candle_rocm: CommandLine) -> None:
    real_toolchain()
    arguments = ("kernels", "resources", "--arch", ARCHITECTURE, "--family", "rope")

    lines = candle_rocm.ok(*arguments).stdout.splitlines()
    rows = candle_rocm.ok(*arguments, "--json").document["kernels"]

    assert lines[0].split() == ["kernel", "arch", "VGPRs", "SGPRs", "LDS", "spills", "waves/SIMD"]
    assert len(lines) == 1 + len(rows) == 9
    first = rows[0]
    wanted = [first[key] for key in ("kernel", "architecture", "vgprs", "sgprs", "lds", "spills", "occupancy")]
    assert lines[1].split() == [str(value) for value in wanted]
    assert all(row["spills"] == 0 < row["vgprs"] <= 64 for row in rows)


def test_an_unknown_architecture_is_a_usage_error(candle_rocm: CommandLine) -> None:
    result = candle_rocm("kernels", "build", "--arch", "gfx1")

    assert result.code == 2
    assert "no architecture 'gfx1'" in result.stderr
