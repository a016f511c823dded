"""Every family's kernels at tensors of more than 4Gi elements: their own addresses, without the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from codegen.device.ops.argsort import argsort
from codegen.device.ops.binary import binary
from codegen.device.ops.cast import cast
from codegen.device.ops.compare import compare
from codegen.device.ops.conv import conv2d, conv_transpose2d
from codegen.device.ops.copy import contiguous, copy2d
from codegen.device.ops.fill import fill
from codegen.device.ops.im2col import col2im1d, im2col1d
from codegen.device.ops.index_add import index_add
from codegen.device.ops.indexing import gather, index_select, scatter
from codegen.device.ops.matmul import matmul
from codegen.device.ops.norm import layer_norm, rms_norm
from codegen.device.ops.parametric import affine
from codegen.device.ops.pool import avg_pool2d, max_pool2d
from codegen.device.ops.reduce import reduce
from codegen.device.ops.rope import rope
from codegen.device.ops.scatter_add import scatter_add
from codegen.device.ops.sdpa import sdpa
from codegen.device.ops.softmax import softmax
from codegen.device.ops.unary import unary
from codegen.device.ops.upsample import upsample_bilinear2d, upsample_nearest2d
from codegen.device.ops.where import where
from codegen.kernels.dtypes import dtype
from kernels.huge import Case, Dealing, Operand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor

K, M = 1 << 10, 1 << 20
ONCE = (Dealing(rounds=1),)
"""A block for each position."""

SHORT_ROWS = (Dealing(per_block=32),)
"""Of 127 elements, of which 32 fit into LDS at a time."""

BF16, F16 = 2.0**-7, 2.0**-10
"""One unit in the last place."""
LEAST_F16 = 2.0**-24
"""The step between f16's smallest numbers."""
F32 = 2.0**-20
"""Of sums of 8192 numbers in another order."""


def attention(kernel: str, element: str, tolerance: float) -> Case:
    """Of 64 queries to 20 keys, with masks that lie in wider rows."""
    return Case(
        kernel,
        (
            Operand(element, (M + 1, 1, 64, 64)),
            *[Operand(element, (M + 1, 1, 20, 64))] * 2,
            Operand(element, (M + 1, 1, 64, 80)),
        ),
        lambda k, q, keys, values, mask: sdpa(k, q, keys, values, part(mask, 20), scale=0.1, parts=0),
        ONCE,
        M,
        tolerance=tolerance,
    )


def split_attention(kernels: str, element: str, tolerance: float, queries: int = 2) -> Case:
    """Of queries to 256 keys, which are dealt to two blocks."""
    return Case(
        kernels,
        (Operand(element, (64 * K + 1, 1, queries, 256)), *[Operand(element, (64 * K + 1, 1, 256, 256))] * 2),
        lambda k, q, keys, values: sdpa(k, q, keys, values, scale=0.1, parts=2),
        (Dealing(items=2, rounds=1), Dealing(items=queries)),
        tolerance=tolerance,
    )


def layer_norms(kernel: str, columns: int, count: int) -> Case:
    """Of rows of f16, with one vector as weights and biases."""
    return Case(
        kernel,
        (rows("f16", columns, count), Operand("f16", (columns,), None)),
        lambda k, x, alpha: layer_norm(k, x, alpha, alpha, 1e-5),
        tolerance=F16,
        absolute=F32,
    )


def part(x: Tensor, columns: int) -> Tensor:
    """The first columns of the last dimension: rows lie so far apart that offsets in one launch pass 32 bits."""
    return x.narrow(len(x.shape) - 1, 0, columns)


def filled(kernels: Kernels, y: Tensor) -> Tensor:
    fill(kernels, part(y, 4 * K), 77)
    return y


def copied(kernels: Kernels, y: Tensor, x: Tensor) -> Tensor:
    copy2d(kernels, part(x, 4 * K), part(y, 4 * K))
    return y


def scattered(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor) -> Tensor:
    scatter(kernels, y, ids, x, 1)
    return y


def scatter_added(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor) -> Tensor:
    scatter_add(kernels, y, ids, x, 1)
    return y


def index_added(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor) -> Tensor:
    """With indices that blocks search, where an index_add of so many rows would sort them."""
    index_add(kernels, y, ids, x, 1, form="searched")
    return y


def index_added_in_order(kernels: Kernels, y: Tensor, ids: Tensor, x: Tensor) -> Tensor:
    """With sorted indices; sorting them is no launch of the case."""
    run = kernels.launch

    def launch(family: str, planned: Iterable[Launch]) -> None:
        for given in planned:
            if family == "argsort":
                kernels.module(family).launch(given)
            else:
                run(family, [given])

    with patch.object(kernels, "launch", launch):
        index_add(kernels, y, ids, x, 1, form="sorted")
    return y


def rows(element: str, columns: int, count: int, gap: int = 0) -> Operand:
    return Operand(element, (count, columns + gap))


def uses(ids: str, *shape: int, below: int) -> tuple[Operand, Operand]:
    """Indices and elements of one shape."""
    return Operand(ids, shape, below=below), Operand("u8", shape)


ELEMENTWISE = {
    "unary": Case(
        "neg_bf16",
        (rows("bf16", 2 * K, 2 * M + 3, 14 * K),),
        lambda k, x: unary(k, "neg", part(x, 2 * K)),
        ONCE,
        M // 2,
    ),
    "unary-unaligned": Case(
        "neg_bf16",
        (rows("bf16", 2 * K, 2 * M + 3, 14 * K),),
        lambda k, x: unary(k, "neg", x.narrow(1, 1, 2 * K)),
        ONCE,
        M // 2,
    ),
    "unary-short-rows": Case(
        "neg_bf16",
        (rows("bf16", 4, 2 * M + 3, 2 * K),),
        lambda k, x: unary(k, "neg", part(x, 4)),
        (Dealing(per_block=512, rounds=1),),
    ),
    "unary-table": Case("exp_f8e4m3", (rows("f8e4m3", 4 * K, M + 3),), lambda k, x: unary(k, "exp", x), ONCE, M // 4),
    "binary": Case(
        "add_u8",
        (rows("u8", 4 * K, M + 3, 28 * K), Operand("u8", (4 * K,), None)),
        lambda k, a, row: binary(k, "add", part(a, 4 * K), row.broadcast(a.shape[0], 4 * K)),
        ONCE,
        M // 4,
    ),
    "compare": Case(
        "lt_u8",
        (rows("u8", 4 * K, M + 3, 28 * K), rows("u8", 4 * K, M + 3)),
        lambda k, a, b: compare(k, "lt", part(a, 4 * K), b),
        ONCE,
        M // 4,
    ),
    "where": Case(
        "where_b8_b8",
        (rows("u8", 4 * K, M + 3), rows("u8", 4 * K, M + 3, 28 * K), rows("u8", 4 * K, M + 3)),
        lambda k, c, a, b: where(k, c, part(a, 4 * K), b),
        ONCE,
        M // 4,
    ),
    "cast": Case(
        "cast_u8_f8e4m3",
        (rows("u8", 4 * K, M + 3, 28 * K),),
        lambda k, x: cast(k, part(x, 4 * K), dtype("f8e4m3")),
        ONCE,
        M // 4,
    ),
    "parametric": Case(
        "affine_u8",
        (rows("u8", 4 * K, M + 3, 28 * K),),
        lambda k, x: affine(k, part(x, 4 * K), 3, 5),
        ONCE,
        M // 4,
    ),
    "fill": Case("fill_b128", (rows("u8", 4 * K, M + 3, 64 * K),), filled, ONCE),
    "copy": Case("copy_b128", (rows("u8", 4 * K, M + 3, 64 * K),), lambda k, x: contiguous(k, part(x, 4 * K)), ONCE),
    "copy2d": Case(
        "copy2d_b128",
        (rows("u8", 4 * K, M + 4, 28 * K), rows("u8", 4 * K, M + 4, 60 * K)),
        copied,
        (Dealing(rounds=2),),
    ),
    "permute": Case(
        "permute_b8",
        (Operand("u8", (M // 4 + 99, 128, K)),),
        lambda k, x: contiguous(k, part(x, 128).transpose(0, 2, 1)),
        ONCE,
        M // 16,
    ),
}

LINES = {
    "matmul": Case(
        "matmul_f16",
        (Operand("f16", (2, 3, 4), None), Operand("f16", (2, 4, 3 * K * K * K // 2 + 99), 2)),
        matmul,
        (Dealing(per_block=64),),
        axis=2,
    ),
    "softmax-short": Case(
        "softmax_f32_short", (rows("f32", 2, 2 * K * M + 99),), softmax, (Dealing(per_block=512),), tolerance=F32
    ),
    "softmax-held": Case("softmax_f32_held", (rows("f32", 8 * K, M // 2 + 3),), softmax, tolerance=F32),
    "softmax-packed": Case("softmax_packed_bf16_held", (rows("bf16", 8 * K, M // 2 + 3),), softmax, tolerance=BF16),
    "softmax-unaligned": Case(
        "softmax_packed_f16_unaligned",
        (rows("f16", 8 * K - 1, M // 2 + 99),),
        softmax,
        tolerance=F16,
        absolute=LEAST_F16,
    ),
    "softmax-single": Case(
        "softmax_f32_single", (rows("f32", 127, 34 * M),), softmax, (Dealing(per_block=8),), tolerance=F32
    ),
    "softmax-paired": Case(
        "softmax_paired_f16_single",
        (rows("f16", 126, 34 * M),),
        softmax,
        (Dealing(per_block=16),),
        tolerance=F16,
        absolute=LEAST_F16,
    ),
    "softmax-staged": Case(
        "softmax_f16_staged",
        (rows("f16", 31, 138 * M),),
        softmax,
        (Dealing(per_block=256),),
        tolerance=F16,
        absolute=LEAST_F16,
    ),
    "softmax-streamed": Case(
        "softmax_f16_streamed",
        (rows("f16", 64 * K - 1, M // 16 + 99),),
        softmax,
        tolerance=F16,
        absolute=LEAST_F16,
    ),
    "norm-held": Case(
        "rms_norm_bf16_held",
        (rows("bf16", 8 * K, M // 2 + 3),),
        lambda k, x: rms_norm(k, x, None, 1e-5),
        tolerance=BF16,
    ),
    "norm-unaligned": layer_norms("layer_norm_f16_unaligned", 8 * K - 1, M // 2 + 99),
    "norm-staged": Case(
        "rms_norm_f32_staged",
        (rows("f32", 127, 34 * M),),
        lambda k, x: rms_norm(k, x, None, 1e-5),
        SHORT_ROWS,
        tolerance=F32,
    ),
    "norm-streamed": layer_norms("layer_norm_f16_streamed", 64 * K - 1, M // 16 + 99),
    "rope": Case(
        "rope_bf16",
        (Operand("bf16", (M + 3, 1, 2, 4 * K)), *[Operand("bf16", (M + 3, 2, 2 * K))] * 2),
        rope,
        (Dealing(items=2),),
    ),
    "rope-interleaved": Case(
        "rope_i_bf16",
        (Operand("bf16", (M + 3, 1, 2, 4 * K)), *[Operand("bf16", (M + 3, 2, 2 * K))] * 2),
        lambda k, x, cos, sin: rope(k, x, cos, sin, interleaved=True),
        (Dealing(items=2),),
    ),
    "sdpa-tiles": attention("sdpa_tiles_f32_64", "f32", F32),
    "sdpa-matrix": attention("sdpa_matrix_f16_64", "f16", F16),
    "sdpa-split": split_attention("sdpa_split_f32_256 sdpa_combine_f32", "f32", F32),
    "sdpa-single": split_attention("sdpa_single_f32_256 sdpa_combine_f32", "f32", F32, 1),
    "sdpa-matrix-split": split_attention("sdpa_matrix_split_f16_256 sdpa_combine_f16", "f16", F16),
    "reduce-rows": Case("sum_u8_rows", (rows("u8", 16 * K, M // 4 + 3),), lambda k, x: reduce(k, "sum", x, [1])),
    "reduce-index": Case("argmax_u8_rows", (rows("u8", 16 * K, M // 4 + 3),), lambda k, x: reduce(k, "argmax", x, [1])),
    "reduce-columns": Case(
        "max_u8_columns",
        (Operand("u8", (5, K * M), 1),),
        lambda k, x: reduce(k, "max", x, [0]),
        (Dealing(per_block=2048),),
        axis=1,
    ),
    "reduce-lines": Case(
        "sum_u8_rows sum_u8_finish",
        (Operand("u8", (3, K * M, 2), 1),),
        lambda k, x: reduce(k, "sum", x, [0, 2]),
        (Dealing(per_block=256),) * 4,
        axis=1,
    ),
    "argsort": Case("argsort_b8", (rows("u8", 4 * K, M + 3),), argsort),
    "argsort-merge": Case(
        "argsort_b8_tiles argsort_b8_merge", (rows("u8", 8 * K, M // 2 + 3),), argsort, (Dealing(items=2),)
    ),
}

IMAGES = {
    "conv": Case(
        "conv2d_u8",
        (Operand("u8", (M + 3, 16, 16, 16)), Operand("u8", (16, 2, 3, 3), None)),
        lambda k, x, w: conv2d(k, x.narrow(1, 0, 2), w, padding=1, form="conv2d"),
        ONCE,
    ),
    "conv-tiled": Case(
        "conv2d_tiled_f16_64",
        (Operand("f16", (M // 2 + 3, 64, 8, 16)), Operand("f16", (64, 2, 3, 3), None)),
        lambda k, x, w: conv2d(k, x.narrow(1, 0, 2), w, padding=1, form="conv2d_tiled_64", parts=1),
        ONCE,
    ),
    "conv-transpose": Case(
        "conv_transpose2d_u8",
        (Operand("u8", (M + 3, 64, 8, 8)), Operand("u8", (2, 16, 2, 2), None)),
        lambda k, x, w: conv_transpose2d(k, x.narrow(1, 0, 2), w, stride=2),
        ONCE,
    ),
    "im2col": Case(
        "im2col_b8",
        (Operand("u8", (M // 4 + 99, 256, 64)),),
        lambda k, x: im2col1d(k, x.narrow(1, 0, 96), 3, padding=1),
    ),
    "col2im": Case(
        "col2im1d_f16",
        (Operand("f16", (1, K * M - 128, 3, 2), 1),),
        lambda k, x: col2im1d(k, x, stride=2),
        (Dealing(items=2, per_block=256, rounds=1),),
        axis=2,
        entries=2,
    ),
    "pool-pairs": Case(
        "avg_pool2d_f8e4m3",
        (Operand("f8e4m3", (1, 2, 2 * M + 16, 4 * K), 2, entries=2),),
        lambda k, x: avg_pool2d(k, x, (2, 2), (2, 2)),
        ONCE,
        axis=2,
    ),
    "pool-windows": Case(
        "max_pool2d_u8",
        (Operand("u8", (1, 4, 8 * M + 16, K), 2, entries=2),),
        lambda k, x: max_pool2d(k, x, (2, 4), (2, 4)),
        ONCE,
        per_launch=4 * M,
        axis=2,
    ),
    "upsample-nearest": Case(
        "upsample_nearest2d_b8",
        (Operand("u8", (1, 2, M + 8, 4 * K), 2),),
        lambda k, x: upsample_nearest2d(k, part(x, K), x.shape[2], 2 * K),
        (Dealing(items=8, rounds=1),),
        per_launch=M // 2,
        axis=2,
    ),
    "upsample-bilinear": Case(
        "upsample_bilinear2d_u8",
        (Operand("u8", (1, 2, M + 8, 4 * K), 2),),
        lambda k, x: upsample_bilinear2d(k, part(x, 512), 2 * x.shape[2], K),
        (Dealing(items=2, rounds=1),),
        axis=2,
        entries=2,
        reach=1,
    ),
}

INDEXED = {
    "index-select": Case(
        "index_select_b8",
        (Operand("u8", (M + 3, 16, 512)), Operand("u8", (8,), None, below=16)),
        lambda k, x, ids: index_select(k, x, ids, 1),
        (Dealing(rounds=2),),
        per_launch=M // 4,
    ),
    "gather": Case(
        "gather_b8",
        (Operand("u8", (4 * M + 3, 3, 512)), Operand("u8", (4 * M + 3, 2, 512), below=3)),
        lambda k, x, ids: gather(k, x, ids, 1),
        per_launch=M,
    ),
    "scatter": Case(
        "scatter_b8",
        (Operand("u8", (M // 2 + 3, 5, 256)), *uses("u8", M // 2 + 3, 32, 256, below=5)),
        scattered,
    ),
    "scatter-add-columns": Case(
        "scatter_add_u8_columns",
        (Operand("u8", (M // 2 + 3, 5, 256)), *uses("u8", M // 2 + 3, 32, 256, below=5)),
        scatter_added,
    ),
    "scatter-add-lds": Case(
        "scatter_add_u8_lds",
        (Operand("u8", (M + 3, 8, 16)), *uses("u8", M + 3, 256, 16, below=8)),
        scatter_added,
    ),
    "scatter-add-atomic": Case(
        "scatter_add_u8",
        (Operand("u8", (16 * M + 3, 520, 4)), *uses("i16", 16 * M + 3, 64, 4, below=520)),
        scatter_added,
        per_launch=4 * M,
    ),
    "index-add": Case(
        "index_add_u8",
        (
            Operand("u8", (M // 2 + 3, 5, 2 * K)),
            Operand("u8", (4,), None, below=5),
            Operand("u8", (M // 2 + 3, 4, 2 * K)),
        ),
        index_added,
        (Dealing(items=4),),
    ),
    "index-add-sorted": Case(
        "index_add_u8_sorted",
        (Operand("u8", (M + 3, 5, 2 * K)), Operand("u8", (2,), None, below=2), Operand("u8", (M + 3, 2, 2 * K))),
        index_added_in_order,
        (Dealing(items=2),),
    ),
}

CASES = {**ELEMENTWISE, **LINES, **IMAGES, **INDEXED}


@pytest.mark.parametrize("name", CASES)
def test_chosen_positions_of_more_than_4gi_elements(sparse: Kernels, name: str) -> None:
    CASES[name].check(sparse)
