"""Variants that choose what is computed: one that no kernel answers is an unknown site."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up import UNTRIED, candle_tree, replace_in, tree_hash

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode, UnknownSite
from codegen.plan.decide import refuse_undecided, scan_tree
from codegen.plan.model import State
from codegen.spec.kinds import SiteKind
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

    from codegen.spec.loaded import LoadedSpecs

OP = "candle-core/src/op.rs"
SCALAR = "candle-core/src/scalar.rs"
CPU = "candle-core/src/cpu_backend/mod.rs"
DTYPE = "candle-core/src/dtype.rs"
QUANTIZED = "candle-core/src/quantized/mod.rs"
NONE = "no operation of specs/kernels"


@pytest.fixture(scope="module")
def specs() -> LoadedSpecs:
    return load_specs()


def unanswered(candle: Path, specs: LoadedSpecs) -> list[str]:
    """`path:line reason` of each unknown site; the scan must refuse."""
    scan = scan_tree(open_tree(candle), specs)
    with pytest.raises(UnknownSite):
        refuse_undecided(scan, specs)
    found = scan.of_state(State.UNKNOWN)
    assert {decision.site.kind for decision in found} == {SiteKind.OPERATION}
    return [f"{decision.site.path}:{decision.site.line} {decision.reason}" for decision in found]


def line_of(candle: Path, path: str, text: str) -> int:
    return (candle / path).read_text(encoding="utf-8").split(text)[0].count("\n") + 1


@pytest.mark.parametrize(
    ("path", "old", "new", "reason"),
    [
        (
            OP,
            "    ArgMax,",
            "    IndexMax,",
            f"{NONE}/reduce.yaml answers ReduceOp::IndexMax; no variant is argmax any more, was it renamed?",
        ),
        (
            OP,
            "    Ne,",
            "    NotEqual,",
            f"{NONE}/compare.yaml answers CmpOp::NotEqual; no variant is ne any more, was it renamed?",
        ),
        (
            OP,
            "    ArgMax,",
            "    ArgMax,\n    Median,",
            f"{NONE}/reduce.yaml answers ReduceOp::Median",
        ),
        (
            OP,
            '(Exp, "exp"',
            '(Exp, "expo"',
            f"{NONE}/unary.yaml is called expo, as UnaryOp::Exp is",
        ),
        (
            OP,
            '"gelu_erf";',
            '"gelu_exact";',
            f"{NONE}/unary.yaml is called gelu_exact, as UnaryOp::GeluErf is",
        ),
        (
            OP,
            "(Add, add,",
            "(Add, plus,",
            f"{NONE}/binary.yaml is called plus, as BinaryOp::Add is",
        ),
        (
            OP,
            "    Exp,\n",
            "    Cbrt,\n    Exp,\n",
            "UnaryOp::Cbrt has no implementation of UnaryOpT here whose NAME can be read",
        ),
        (SCALAR, "    F32(f32),", "    F32(f32),\n    C32(c32),", "Scalar::C32 is no element type of `DType`"),
        (
            CPU,
            "    F32(Vec<f32>),",
            "    F32(Vec<f32>),\n    C32(Vec<c32>),",
            "CpuStorage::C32 is no element type of `DType`",
        ),
        (QUANTIZED, "    Q8K,\n", "    Q8K,\n    IQ4NL,\n", "specs/blocks.yaml has no format GgmlDType::IQ4NL"),
        (QUANTIZED, "    F16,\n", "    F16,\n    F64,\n", "specs/blocks.yaml has no format GgmlDType::F64"),
    ],
)
def test_a_variant_that_is_new_or_renamed(
    candle: Path, specs: LoadedSpecs, path: str, old: str, new: str, reason: str
) -> None:
    replace_in(candle / path, old, new, count=1)
    wanted = new.strip().splitlines()[-1 if "\n    " in new and "Cbrt" not in new else 0].strip()

    assert unanswered(candle, specs) == [f"{path}:{line_of(candle, path, wanted)} {reason}"]


def test_a_variant_that_is_gone(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / OP, "    ArgMax,\n", "")
    reason = "ReduceOp has no variant for argmax of specs/kernels/reduce.yaml any more"

    assert unanswered(candle, specs) == [f"{OP}:{line_of(candle, OP, 'pub enum ReduceOp')} {reason}"]


def test_a_block_format_that_is_gone(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / QUANTIZED, "    Q4_1,\n", "")
    reason = "GgmlDType has no variant for q4_1 of specs/blocks.yaml any more"

    assert unanswered(candle, specs) == [f"{QUANTIZED}:{line_of(candle, QUANTIZED, 'pub enum GgmlDType')} {reason}"]


def test_a_block_format_that_was_renamed(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / QUANTIZED, "    Q4_1,\n", "    Q4X1,\n")

    assert [found.partition(" ")[2] for found in unanswered(candle, specs)] == [
        "specs/blocks.yaml has no format GgmlDType::Q4X1",
        "GgmlDType has no variant for q4_1 of specs/blocks.yaml any more",
    ]


@pytest.mark.parametrize("command", ["scan", "generate", "apply", "diff", "check", "report", "verify"])
def test_a_block_format_that_nobody_knows_stops_every_command(
    tmp_path: Path, candle_rocm: CommandLine, command: str
) -> None:
    untried = candle_tree(tmp_path / "untried", UNTRIED)
    replace_in(untried / QUANTIZED, "    Q8K,\n", "    Q8K,\n    IQ4NL,\n")
    before = tree_hash(untried)
    options = {"generate": ("--out", tmp_path / "out"), "report": ("--html", tmp_path / "report.html")}
    refused = candle_rocm(command, untried, *options.get(command, ()))

    assert refused.code == ExitCode.UNKNOWN_SITE, refused.stdout + refused.stderr
    assert f"{QUANTIZED}:{line_of(untried, QUANTIZED, 'IQ4NL')}:5: " in refused.stderr
    assert "specs/blocks.yaml has no format GgmlDType::IQ4NL" in refused.stderr
    assert tree_hash(untried) == before


def test_a_block_format_may_be_stored_only(candle: Path, candle_rocm: CommandLine) -> None:
    replace_in(candle / QUANTIZED, "    Q8K,\n", "    Q8K,\n    IQ4NL,\n")
    draft = candle_rocm("scan", candle, "--suggest").stdout
    assert "needs a kernel" not in draft
    (candle / "candle-rocm.yaml").write_text(draft.replace("FILL IN", "because"), encoding="utf-8")
    assert candle_rocm("scan", candle).code == 0

    replace_in(candle / QUANTIZED, "    Q4_1,\n", "")
    refused = candle_rocm("scan", candle)
    assert refused.code == ExitCode.UNKNOWN_SITE
    assert "IQ4NL" not in refused.stderr
    assert "needs a kernel" in candle_rocm("scan", candle, "--suggest").stdout


def test_an_element_type_that_the_host_side_lacks(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / DTYPE, "    F32,\n", "    F32,\n    I16,\n")

    assert unanswered(candle, specs) == [
        f"{CPU}:1 CpuStorage has no variant I16, which `DType` has",
        f"{SCALAR}:1 Scalar has no variant I16, which `DType` has",
    ]


@pytest.mark.parametrize(
    ("path", "enum"),
    [
        (OP, "CmpOp"),
        (OP, "ReduceOp"),
        (OP, "UnaryOp"),
        (OP, "BinaryOp"),
        (SCALAR, "Scalar"),
        (CPU, "CpuStorage"),
        (QUANTIZED, "GgmlDType"),
    ],
)
def test_an_enum_that_was_renamed_or_moved(
    candle: Path, candle_rocm: CommandLine, specs: LoadedSpecs, path: str, enum: str
) -> None:
    replace_in(candle / path, f"enum {enum} ", f"enum {enum}s ")
    refused = candle_rocm("scan", candle)

    assert refused.code == ExitCode.UNKNOWN_SITE
    assert f"Candle 0.11.1 has no `enum {enum}` in {path} (renamed, or moved?)" in refused.stderr
    assert "correct the entry under `choices` in specs/candle.yaml" in refused.stderr
    assert {choice.enum for choice in specs.candle.choices} >= {enum}


def test_a_file_that_is_gone(candle: Path, candle_rocm: CommandLine) -> None:
    (candle / OP).unlink()
    refused = candle_rocm("scan", candle)

    assert refused.code == ExitCode.UNKNOWN_SITE
    assert refused.stderr.count(f"in {OP} (renamed, or moved?)") == 4


def test_only_what_is_found_by_name_may_be_left_alone(candle: Path, candle_rocm: CommandLine) -> None:
    """A match that lacks a variant does not compile; an operation that ROCm lacks returns an error."""
    (candle / "candle-rocm.yaml").write_text(
        "rules:\n  - id: tree.operations\n    sites: {kind: operation}\n    verb: leave\n"
        "    reason: this fork computes them on the CPU\n",
        encoding="utf-8",
    )
    replace_in(candle / OP, "(Add, add,", "(Add, plus,")
    assert candle_rocm("scan", candle).code == 0

    replace_in(candle / OP, "    Ne,", "    NotEqual,")
    refused = candle_rocm("scan", candle)
    assert refused.code == ExitCode.UNKNOWN_SITE
    assert f"{NONE}/compare.yaml answers CmpOp::NotEqual" in refused.stderr
    assert "is called plus" not in refused.stderr


def test_a_draft_has_no_rule_for_what_no_rule_may_decide(candle: Path, candle_rocm: CommandLine) -> None:
    replace_in(candle / OP, "    Ne,", "    NotEqual,")
    replace_in(candle / OP, "(Add, add,", "(Add, plus,")
    draft = candle_rocm("scan", candle, "--suggest").stdout

    assert draft.count("kind: operation") == 1
    assert "plus" in draft
    assert "needs a kernel" in draft
    assert "NotEqual" in draft
