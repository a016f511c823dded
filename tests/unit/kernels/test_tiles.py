"""How views are cut into tiles: each element in exactly one, and only where tiles are worth it."""

from __future__ import annotations

import pytest

from codegen.kernels.layout import View, merged
from codegen.kernels.tiles import Tiles

BLOCK, SIDE, LEAST_USE = 256, 4, 4


def _tiles(view: View, *, aligned: tuple[bool, bool] = (True, True)) -> Tiles | None:
    return Tiles.of(merged([view, View.contiguous(view.shape)]), BLOCK, SIDE, LEAST_USE, aligned)


def _transposed(rows: int, columns: int, distance: int | None = None) -> View:
    return View((columns, rows), (1, distance or columns))


@pytest.mark.parametrize(
    ("rows", "columns", "squares"),
    [(64, 64, (16, 16)), (1000, 3, (1, 256)), (3, 1000, (256, 1)), (1000, 20, (8, 32)), (9, 1000, (64, 4))],
)
def test_shape_follows_the_matrix(rows: int, columns: int, squares: tuple[int, int]) -> None:
    tiles = _tiles(_transposed(rows, columns))
    assert tiles is not None
    assert (tiles.squares_x, tiles.squares_y) == squares
    assert (tiles.size_x, tiles.size_y) == (columns, rows)
    assert tiles.along_x * squares[0] * SIDE >= columns
    assert tiles.along_y * squares[1] * SIDE >= rows


@pytest.mark.parametrize(
    ("view", "aligned", "packs"),
    [
        (_transposed(64, 64), (True, True), (True, True)),
        (_transposed(64, 64), (False, True), (False, True)),
        (_transposed(64, 64), (True, False), (True, False)),
        (_transposed(65, 64), (True, True), (True, False)),
        (_transposed(64, 65), (True, True), (False, True)),
        (_transposed(64, 64, distance=66), (True, True), (False, True)),
        (View((3, 64, 64), (64 * 64 + 2, 1, 64)), (True, True), (False, True)),
    ],
)
def test_packs_only_where_all_are_aligned(view: View, aligned: tuple[bool, bool], packs: tuple[bool, bool]) -> None:
    tiles = _tiles(view, aligned=aligned)
    assert tiles is not None
    assert (tiles.reads_packs, tiles.writes_packs) == packs


def test_other_dimensions_are_a_batch() -> None:
    """(b, s, h, d) to (h, b, d, s)."""
    b, s, h, d = 2, 128, 3, 64
    tiles = _tiles(View((h, b, d, s), (d, s * h * d, 1, h * d)))
    assert tiles is not None
    assert (tiles.size_x, tiles.size_y, tiles.x_step, tiles.y_step) == (d, s, h * d, s)
    assert tiles.outer.shape == (b, h)
    assert tiles.outer.strides == ((s * h * d, d), (d * s, b * d * s))
    assert tiles.count == b * h * tiles.along_x * tiles.along_y


def test_neighbours_on_both_sides_are_one_dimension() -> None:
    """(b, s, h, d) to (b, h, d, s): h and d are X together."""
    b, s, h, d = 2, 128, 3, 64
    tiles = _tiles(View((b, h, d, s), (s * h * d, d, 1, h * d)))
    assert tiles is not None
    assert (tiles.size_x, tiles.size_y, tiles.outer.shape) == (h * d, s, (b,))


@pytest.mark.parametrize(
    "view",
    [
        View.contiguous((64, 64)),
        View((9, 64, 8), (8, 72, 1)),  # rows stay whole
        View((64, 64), (2, 128)),  # nothing is contiguous
        View((64, 3, 3), (9, 1, 3)),  # tiles would be nearly empty
        View((300,), (0,)),
        View((), ()),
    ],
    ids=str,
)
def test_no_tiles_where_they_do_not_help(view: View) -> None:
    assert _tiles(view) is None
