"""Rows that are drawn: repeatable, of every family of the spec, and what a view of an operand is."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codegen.bench.drawn import MAKERS, drawn
from codegen.bench.model import Measured, Operand, View
from codegen.bench.operands import our_view, torchs_view
from codegen.bench.results import Run, failure, summary
from codegen.device.tensor import Tensor
from codegen.errors import SpecInvalid
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View as Layout
from codegen.paths import repository_root
from codegen.spec.bench import BENCH, load_drawing, parse_drawing

DRAWING = load_drawing()
ROWS = [drawn(DRAWING, 7, number) for number in range(1, 1500)]


def test_a_row_is_made_of_its_seed_and_number_alone() -> None:
    again = drawn(DRAWING, 7, 40)
    assert (again.name, again.inputs) == (ROWS[39].name, ROWS[39].inputs)
    assert again.name.startswith("#40 ")
    assert drawn(DRAWING, 8, 40).name != again.name


def test_families_of_the_spec_are_those_that_can_be_drawn() -> None:
    assert set(DRAWING.families) == set(MAKERS)


RANGES = [(family, name) for family, of in DRAWING.families.items() for name in of.ranges]


@pytest.mark.parametrize(("family", "missing"), RANGES)
def test_a_family_is_drawn_from_each_of_its_ranges(family: str, missing: str) -> None:
    rest = {name: ends for name, ends in DRAWING.families[family].ranges.items() if name != missing}
    alone = DRAWING.families[family].model_copy(update={"ranges": rest})
    drawing = DRAWING.model_copy(update={"families": {family: alone}})
    with pytest.raises(KeyError, match=missing):
        [drawn(drawing, 1, number) for number in range(20)]


def test_sizes_are_odd_as_often_as_even_and_stay_in_their_bounds() -> None:
    lengths = [row.inputs[0].shape[-1] for row in ROWS if " softmax " in row.name]
    odd = sum(length % 2 for length in lengths) / len(lengths)
    assert 0.35 < odd < 0.65
    low, high = DRAWING.families["softmax"].ranges["length"]
    assert all(low <= length <= high for length in lengths)
    # As many short as long, by powers of two.
    assert 0.3 < sum(length < math.isqrt(high) for length in lengths) / len(lengths) < 0.7


def test_rows_move_as_much_as_the_spec_says() -> None:
    """Twice, for sizes are rounded, and three operands of four bytes with a result."""
    most = DRAWING.elements[1] * 2 * 4 * 4
    assert all(0 < row.moved < most for row in ROWS if row.limit != "rival")


def test_every_way_to_view_and_every_type_is_drawn() -> None:
    ways = Counter(view.way for row in ROWS for operand in row.inputs for view in operand.views)
    assert set(ways) == {"narrow", "permute", "broadcast"}
    assert {row.inputs[-1].dtype for row in ROWS} >= set(DRAWING.dtypes)


def test_an_operation_sees_the_shape_that_its_operands_were_drawn_for() -> None:
    for row in ROWS:
        if any(f" {op} " in row.name for op in ("add", "where", "lt", "mul")):
            assert len({operand.viewed for operand in row.inputs}) == 1, row.name


NARROWED = Operand("f32", (6, 10), views=(View("narrow", (1, 3, 5)),))
TURNED = Operand("f16", (4, 3, 2), views=(View("permute", (2, 0, 1)),))
REPEATED = Operand("f32", (1, 5), views=(View("broadcast", (7, 5)),))


@pytest.mark.parametrize(
    ("operand", "shape", "size", "name"),
    [
        (NARROWED, (6, 5), 6 * 5 * 4, "6x10 narrow(1,3,5)"),
        (TURNED, (2, 4, 3), 4 * 3 * 2 * 2, "4x3x2 permute(2,0,1)"),
        (REPEATED, (7, 5), 5 * 4, "1x5 broadcast(7,5)"),
        (Operand("u8", (1 << 20,)), (1 << 20,), 1 << 20, "2^20"),
    ],
)
def test_what_an_operand_is(operand: Operand, shape: tuple[int, ...], size: int, name: str) -> None:
    assert (operand.viewed, operand.bytes, str(operand)) == (shape, size, name)


class Array(SimpleNamespace):
    """A numpy array with PyTorch's names for views."""

    values: np.ndarray

    def narrow(self, dim: int, start: int, length: int) -> Array:
        return Array(values=np.take(self.values, range(start, start + length), dim))

    def permute(self, *dims: int) -> Array:
        return Array(values=self.values.transpose(dims))

    def expand(self, *shape: int) -> Array:
        return Array(values=np.broadcast_to(self.values, shape))


@pytest.mark.parametrize("operand", [NARROWED, TURNED, REPEATED], ids=str)
def test_both_sides_see_the_same_elements(operand: Operand) -> None:
    memory = np.arange(math.prod(operand.shape)).reshape(operand.shape)
    theirs = torchs_view(Array(values=memory), operand).values
    nowhere: Any = SimpleNamespace(address=0)
    whole = Tensor(nowhere, nowhere, dtype(operand.dtype), Layout.contiguous(operand.shape))
    view = our_view(whole, operand).view
    flat = memory.reshape(-1)[view.offset :]
    strides = [stride * flat.itemsize for stride in view.strides]
    ours = np.lib.stride_tricks.as_strided(flat, view.shape, strides)
    assert ours.shape == operand.viewed
    assert (ours == theirs).all()


def measured(number: int, ratio: float | None, share: float, error: float | None = 0.0) -> Measured:
    row = next(row for row in ROWS[number:] if row.limit == "copy")
    microseconds = row.moved / (share * 1000) / 1e3
    return Measured(row, microseconds, ratio and ratio * microseconds, 1000, error)


def test_the_summary_of_many_rows() -> None:
    rows = (measured(0, 2.0, 0.9), measured(10, 1.0, 0.5), measured(20, 0.69, 0.7), measured(30, 0.95, 0.8))
    lines = summary(Run("nvidia", "sm_90", rows, ("#9 x: out of memory",), seed=7))
    assert lines[:3] == [
        "5 rows of seed 7: 4 right, 1 ended with an error",
        "as fast as PyTorch or faster: 2 of 4 (50%); below 0.7 of its speed: 1",
        "share of the limit: median 75% of 4 rows that have one",
    ]
    assert [line.split(" x PyTorch: ")[0].strip() for line in lines[3:]] == ["0.69", "0.95"]
    assert lines[3].endswith(rows[2].row.name)


def test_a_row_that_ended_with_an_error_fails_the_run() -> None:
    run = Run("nvidia", "sm_90", (measured(0, 2.0, 0.9),), ("#9 x: out of memory",), seed=7)
    assert failure(run) == "ended with an error: #9 x: out of memory"
    assert failure(Run("nvidia", "sm_90", run.rows)) is None


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("elements: [262144, 67108864]", "elements: [5, 4]", "5 is more than 4"),
        ("dtypes: {f32: 1, f16: 1, bf16: 1}", "dtypes: {f32: 0}", "every weight is 0"),
        ("dtypes: {f32: 1", "dtypes: {f33: 1", "f33"),
        ("unary: {weight: 3", "unary: {weight: -3", "expected 0 or more"),
    ],
)
def test_what_is_wrong_with_a_spec_is_told_with_its_line(before: str, after: str, told: str) -> None:
    text = (repository_root() / BENCH).read_text(encoding="utf-8")
    assert before in text
    with pytest.raises(SpecInvalid) as raised:
        parse_drawing(text.replace(before, after).encode())
    (problem, *_) = raised.value.problems
    assert told in str(problem)
    assert str(problem).startswith(f"{BENCH}:")
