"""CUDA's kernels for quantized tensors: one that the specs do not name is an unknown site, with its file and line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from made_up import UNTRIED, candle_tree, replace_in, tree_hash

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode, UnknownSite
from codegen.plan.cuda_kernels import KernelBook
from codegen.plan.decide import refuse_undecided, scan_tree
from codegen.plan.model import State
from codegen.spec.kinds import SiteKind
from codegen.spec.loader import load_specs
from codegen.spec.model import CudaKernel

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

CUDA = "candle-core/src/quantized/cuda.rs"
FAST = "candle-core/src/quantized/fast_iq.rs"
MOE = "candle-nn/src/moe.rs"
CUTILE = "candle-nn/src/moe/cutile.rs"
ARM = '        GgmlDType::Q6K => ("dequantize_block_q6_K_f32", 64),\n'
NEW_ARM = '        GgmlDType::Q6K => ("dequantize_block_iq4_nl_f32", 64),\n'
COMMANDS = ("scan", "generate", "apply", "diff", "check", "report", "verify")
LEAVE = """\
rules:
  - id: tree.kernels
    sites: {kind: cuda-kernel, name: "*iq4_nl*"}
    verb: leave
    reason: this fork reads blocks of IQ4 on the CPU
"""


@pytest.fixture
def untried(tmp_path: Path) -> Path:
    """A made-up release that is newer than all that were tried."""
    return candle_tree(tmp_path / "untried", UNTRIED)


def line_of(candle: Path, path: str, text: str) -> int:
    return (candle / path).read_text(encoding="utf-8").split(text)[0].count("\n") + 1


def unknown(candle: Path) -> list[str]:
    """`path:line reason` of each unknown site that is a kernel; the scan must refuse."""
    specs = load_specs()
    scan = scan_tree(open_tree(candle), specs)
    with pytest.raises(UnknownSite):
        refuse_undecided(scan, specs)
    found = scan.of_state(State.UNKNOWN)
    assert {decision.site.kind for decision in found} == {SiteKind.CUDA_KERNEL}
    return [f"{decision.site.path}:{decision.site.line} {decision.reason}" for decision in found]


def test_kernels_that_the_specs_name_are_no_sites(untried: Path) -> None:
    specs = load_specs()
    scan = scan_tree(open_tree(untried), specs)

    assert scan.kernels == 3
    assert [d for d in scan.decisions if d.site.kind == SiteKind.CUDA_KERNEL] == []
    refuse_undecided(scan, specs)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_new_kernel_stops_every_command_with_its_place(
    untried: Path, candle_rocm: CommandLine, command: str, tmp_path: Path
) -> None:
    replace_in(untried / CUDA, ARM, NEW_ARM)
    before = tree_hash(untried)
    options = {"generate": ("--out", tmp_path / "out"), "report": ("--html", tmp_path / "report.html")}
    refused = candle_rocm(command, untried, *options.get(command, ()))

    assert refused.code == ExitCode.UNKNOWN_SITE, refused.stdout + refused.stderr
    assert f"{CUDA}:{line_of(untried, CUDA, 'iq4_nl')}:" in refused.stderr
    assert "names the CUDA kernel dequantize_block_iq4_nl_f32 (cuda-kernel in numbers)" in refused.stderr
    assert "say under `cuda_kernels` in specs/candle.yaml which operations do the work" in refused.stderr
    assert tree_hash(untried) == before


@pytest.mark.parametrize(
    ("path", "old", "new", "symbol"),
    [
        (CUDA, ARM, NEW_ARM, "dequantize_block_iq4_nl_f32"),
        (CUDA, "dequantize_block_q4_0_f32", "dequantize_block_q4_0_bf16", "dequantize_block_q4_0_bf16"),
        (CUDA, "_q8_1_cuda", "_q8_2_cuda", "mul_mat_vec_q4_0_q8_2_cuda*"),
        (CUDA, '"{kernel}{rows}"', '"{kernel}_of_{rows}"', "mul_mat_vec_q4_0_q8_1_cuda_of_*"),
    ],
)
def test_a_kernel_with_another_name(untried: Path, path: str, old: str, new: str, symbol: str) -> None:
    replace_in(untried / path, old, new)
    line = line_of(untried, path, f'"{symbol.removesuffix("*").removesuffix("_of_")}')

    assert unknown(untried) == [
        f"{path}:{line} no entry under `cuda_kernels` in specs/candle.yaml names the CUDA kernel {symbol}"
    ]


def test_a_new_file_and_new_bindings_are_read_too(untried: Path) -> None:
    (untried / FAST).write_text(
        "//! CUDA's.\nuse candle_kernels::ffi;\n\npub fn launcher() -> Launcher {\n    ffi::launch_iq4\n}\n",
        encoding="utf-8",
    )
    moe = (
        "use candle::cuda_backend::kernels::ffi;\n\nfn few(cuda: &Cuda) {\n    unsafe { ffi::moe_gemm_gguf_few() }\n}\n"
    )
    (untried / MOE).write_text(moe, encoding="utf-8")
    scan = scan_tree(open_tree(untried), load_specs())
    found = [d.site for d in scan.of_state(State.UNKNOWN) if d.site.kind == SiteKind.CUDA_KERNEL]

    assert [(site.path, site.line, site.name) for site in found] == [
        (FAST, 5, "launch_iq4"),
        (MOE, 4, "moe_gemm_gguf_few"),
    ]


def test_a_kernel_whose_name_cannot_be_read(untried: Path) -> None:
    replace_in(untried / CUDA, "get_or_load_func(kernel,", "get_or_load_func(blocks.kernel(),")

    reason = "a CUDA kernel is named here in a way that candle-rocm cannot read"
    assert unknown(untried) == [f"{CUDA}:{line_of(untried, CUDA, 'blocks.kernel()')} {reason}"]


def test_a_tree_without_any_was_not_understood(untried: Path, candle_rocm: CommandLine) -> None:
    (untried / CUDA).unlink()
    refused = candle_rocm("scan", untried)

    assert refused.code == ExitCode.UNKNOWN_SITE
    assert (
        f"Candle {UNTRIED} names no CUDA kernel for quantized tensors in candle-core/src/quantized/" in refused.stderr
    )


def test_crates_without_a_rocm_story_name_what_they_like(untried: Path) -> None:
    replace_in(untried / CUDA, ARM, NEW_ARM)
    (untried / "candle-kernels/src/tests.rs").write_text((untried / CUDA).read_text(encoding="utf-8"), encoding="utf-8")

    assert len(unknown(untried)) == 1


def test_a_kernel_that_the_specs_leave_alone(untried: Path, candle_rocm: CommandLine) -> None:
    moe = "use candle_kernels::ffi;\n\nfn lists(cuda: &Cuda) {\n    unsafe { ffi::candle_launch_moe_align() }\n}\n"
    (untried / CUTILE).parent.mkdir(exist_ok=True)
    (untried / CUTILE).write_text(moe, encoding="utf-8")
    scanned = candle_rocm("scan", untried)
    explained = candle_rocm("explain", untried, f"{CUTILE}:4")

    assert scanned.code == explained.code == 0
    assert "cuTile is a CUDA-only kernel language" in scanned.stdout
    assert "cuda-kernel lists::candle_launch_moe_align" in explained.stdout
    assert re.search(r"candle\.cuda-kernels \(specs/candle\.yaml:\d+\)", explained.stdout)


def test_a_tree_may_leave_a_kernel_alone(untried: Path, candle_rocm: CommandLine) -> None:
    replace_in(untried / CUDA, ARM, NEW_ARM)
    (untried / "candle-rocm.yaml").write_text(LEAVE, encoding="utf-8")
    scanned = candle_rocm("scan", untried, "--json")

    assert scanned.code == 0, scanned.stderr
    sites = [site for site in scanned.document["sites"] if site["kind"] == "cuda-kernel"]
    assert [(site["name"], site["state"], site["rule"]) for site in sites] == [
        ("dequantize_block_iq4_nl_f32", "left alone", "tree.kernels")
    ]
    assert candle_rocm("spec", "lint", untried).code == 0

    (untried / "candle-rocm.yaml").write_text(
        LEAVE.replace("leave", "mirror").replace("    reason", "    phase: 3\n    reason"), encoding="utf-8"
    )
    refused = candle_rocm("apply", untried)
    assert refused.code != 0
    assert "an operation has to do its work; `leave` says that ROCm does without" in refused.stderr


def test_what_is_unknown_may_be_left_for_later(untried: Path, candle_rocm: CommandLine) -> None:
    replace_in(untried / CUDA, ARM, NEW_ARM)
    applied = candle_rocm("apply", untried, "--leave-unknown")

    assert applied.code == 0, applied.stderr
    assert f"{CUDA}:{line_of(untried, CUDA, 'iq4_nl')}" in applied.stdout + applied.stderr


def test_a_draft_leaves_a_kernel_for_a_reason_to_be_written(untried: Path, candle_rocm: CommandLine) -> None:
    replace_in(untried / CUDA, ARM, NEW_ARM)
    draft = candle_rocm("scan", untried, "--suggest").stdout
    assert "kind: cuda-kernel" in draft

    (untried / "candle-rocm.yaml").write_text(draft.replace("FILL IN", "because"), encoding="utf-8")
    assert candle_rocm("spec", "lint", untried).code == 0
    assert candle_rocm("scan", untried).code == 0


@pytest.mark.parametrize(
    ("name", "symbols", "others"),
    [
        (
            "rows_<block>",
            ["rows_q4_0", "rows_q4_K", "rows_q4_k", "rows_q4k", "rows_Q8_1"],
            ["rows_", "rows_f32", "rows_q9k"],
        ),
        ("<block>_x", ["q4_0_x"], ["_q4_0_x", "q4_0", "_x"]),
        ("product*", ["product*"], ["product1", "product", "products*"]),
        ("sum", ["sum"], ["Sum", "sums", ""]),
    ],
)
def test_what_a_name_of_the_specs_stands_for(name: str, symbols: list[str], others: list[str]) -> None:
    entry = CudaKernel.model_validate({"symbol": name, "by": "quantized.dequantize"})
    book = KernelBook.of([entry])

    assert [symbol for symbol in (*symbols, *others) if book.entry_of(symbol) is entry] == symbols
