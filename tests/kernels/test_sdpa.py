"""Attention against plain softmax in f64, within what f32 scores and sums can lose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from some import some

from codegen.device.ops.sdpa import Flash, Sequences, sdpa
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype
from kernels.compare import assert_within, epsilon
from kernels.launched import launched

if TYPE_CHECKING:
    from codegen.device.kernels import Kernels

Array = np.ndarray[Any, Any]

FORMS = pytest.mark.parametrize("parts", [0, 1, 4], ids=["tiles", "whole", "parts"])
"""Tiles of queries, few queries with all keys in one block, and with keys dealt to several."""

UNITS = pytest.mark.parametrize("element", ["f32", "f16"], ids=["plain", "units"])
"""Types of which one goes to matrix units."""

TYPES = ("f16", "bf16", "f32")
DEPTHS = (32, 64, 72, 80, 96, 128, 256)
"""Head sizes that Candle's Metal kernels have."""

UNIT = 2.0**-24
"""What rounding to f32 changes a number by at most, relative to it."""


@dataclass(frozen=True)
class Case:
    """Sizes and options of one call."""

    element: str = "f32"
    batch: int = 1
    heads: int = 1
    group: int = 1
    """Heads that share keys; there are `heads * group` of queries."""
    queries: int = 5
    keys: int = 7
    depth: int = 64
    columns: int | None = None
    """Of values, if that is not the depth."""
    causal: bool = False
    masked: bool = False
    flash: bool = False
    """Whether the kernels of flash attention compute it: a query that sees no key has zeros as its result."""
    window: tuple[int | None, int | None] = (None, None)
    """Of flash attention: keys before a query's place, and behind it, that it sees; causality is none behind it."""
    sloped: bool = False
    """Of flash attention: whether scores lose something for each place between query and key."""
    scale: float = 0.125
    cap: float = 1.0
    transposed: bool = False
    """Whether tensors lie in memory as (b, sequence, head, d), each row between two elements that are not its own."""
    parts: int | None = None
    seed: int = 0

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of q, k, v and the mask."""
        heads, columns = self.heads * self.group, self.columns or self.depth
        return (
            (self.batch, heads, self.queries, self.depth),
            (self.batch, self.heads, self.keys, self.depth),
            (self.batch, self.heads, self.keys, columns),
            (self.batch, heads, self.queries, self.keys),
        )

    @property
    def reach(self) -> tuple[int | None, int | None]:
        """The window, with causality."""
        return (None, 0) if self.causal else self.window

    @property
    def slopes(self) -> Array:
        """Of heads."""
        heads = self.heads * self.group
        return 2.0 ** (-8 * (np.arange(heads) + 1) / heads) if self.sloped else np.zeros(heads)

    def arrays(self) -> list[Array]:
        """q, k, v and the mask, a fifth of which is -inf."""
        random = np.random.default_rng(self.seed)
        arrays = [random.standard_normal(shape).astype(numpy_type(dtype(self.element))) for shape in self.shapes]
        if self.keys > 1:
            hidden = random.random(self.shapes[3]) < 0.2
            hidden[..., random.integers(self.keys)] = False
            arrays[3][hidden] = -np.inf
        return arrays

    def run(self, kernels: Kernels, q: Array, k: Array, v: Array, mask: Array) -> Array:
        """What the device makes of the arrays."""
        on_device = [self._tensor(kernels, array) for array in (q, k, v)]
        given = self._tensor(kernels, mask) if self.masked else None
        return sdpa(
            kernels, on_device[0], on_device[1], on_device[2], given, parts=self.parts, **self.options(kernels)
        ).numpy()

    def options(self, kernels: Kernels, sequences: Sequences | None = None) -> dict[str, Any]:
        """What `sdpa` is told about scores."""
        options: dict[str, Any] = {"scale": self.scale, "softcapping": self.cap}
        if not self.flash:
            return {**options, "causal": self.causal}
        slopes = Tensor.from_numpy(kernels.device, self.slopes.astype(np.float32)) if self.sloped else None
        none = {"softcapping": 0.0} if self.cap == 1 else {}  # 0 stands for none there
        return {**options, **none, "flash": Flash(self.reach, slopes, sequences)}

    def _tensor(self, kernels: Kernels, array: Array) -> Tensor:
        if not self.transposed:
            return Tensor.from_numpy(kernels.device, array)
        edge = 1 if self.parts is None else 4  # rows that are not aligned, and such as the split form wants
        width = array.shape[3]
        wide = np.full((*array.shape[:3], width + 2 * edge), np.nan, dtype=array.dtype)
        wide[..., edge:-edge] = array
        given = Tensor.from_numpy(kernels.device, wide.transpose(0, 2, 1, 3))
        return given.transpose(0, 2, 1, 3).narrow(3, edge, width)

    def check(self, kernels: Kernels) -> None:
        """Runs it and holds the result against the reference."""
        arrays = self.arrays()
        with launched(kernels) as symbols:
            result = self.run(kernels, *arrays)
        expected, bound = reference(self, *arrays, on_units=are_of_units(symbols))
        assert_within(result, expected, bound)


def are_of_units(symbols: set[str]) -> bool:
    """Whether kernels for matrix units are among these."""
    return any("_matrix_" in symbol for symbol in symbols)


def hidden(case: Case, queries: int, keys: int, groups: Array | None = None) -> Array:
    """Which keys a query does not see."""
    before, behind = (keys + queries if n is None else n for n in case.reach)
    place, key = np.arange(queries)[:, None] + keys - queries, np.arange(keys)
    seen = (key >= place - before) & (key <= place + behind)
    for start, end in [] if groups is None else groups:
        seen |= (start <= place) & (place < end) & (start <= key) & (key < end)
    return ~seen


def reference(
    case: Case, q: Array, k: Array, v: Array, mask: Array, groups: Array | None = None, *, on_units: bool = False
) -> tuple[Array, Array]:
    """The result in f64, and how far from it one may be that has f32 scores, weights and sums and is rounded once.

    On matrix units, weights are rounded to the element type, f16's below its smallest normal number to multiples of
    2^-24; the largest weight of the keys that came together is 1 before later keys make all smaller.
    """
    queries, keys = q.shape[2], k.shape[2]
    q, k, v, mask = (array.astype(np.float64) for array in (q, k, v, mask))
    k, v = (np.repeat(array, case.group, axis=1) for array in (k, v))
    scores = q @ k.swapaxes(2, 3) * case.scale
    magnitude = np.abs(q) @ np.abs(k).swapaxes(2, 3) * abs(case.scale)
    error = (case.depth + 2) * UNIT * magnitude
    if case.cap != 1:
        scores = case.cap * np.tanh(scores / case.cap)
        error = error + 8 * UNIT * case.cap
    if case.sloped:
        places = np.abs(np.arange(queries)[:, None] + keys - queries - np.arange(keys))
        scores = scores - case.slopes[:, None, None] * places
        error = error + 2 * UNIT * np.abs(scores)
    if case.masked:
        scores = scores + mask
        error = error + UNIT * np.abs(np.where(np.isfinite(scores), scores, 0))
    else:
        scores[..., hidden(case, queries, keys, groups)] = -np.inf
    rounding = epsilon(numpy_type(dtype(case.element))) / 2
    with np.errstate(all="ignore"):
        top = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - top)
        shares = weights / weights.sum(axis=-1, keepdims=True)
        # Weights are products of several exponentials, one for each time that a larger score came; exponents that
        # matter are above -104, and each exponential and product adds a few units.
        exponent = np.minimum(top - scores, 104)
        changes = 2 * error.max(axis=-1, keepdims=True) + (4 * exponent + 4 * keys + 16) * UNIT
        expected = shares @ v
        bound = 2 * (shares * changes) @ np.abs(v) + (shares @ np.abs(v)) * (changes * shares).sum(-1, keepdims=True)
        if on_units:
            bound += rounding * (shares @ np.abs(v)) + 2.0**-25 * np.abs(v).sum(axis=2, keepdims=True)
        if case.flash:
            blind = np.isneginf(scores).all(axis=-1)
            expected[blind] = bound[blind] = 0
    return expected, bound + rounding * np.abs(expected) + 2.0**-25


def random_case(seed: int) -> Case:
    """A configuration of the sizes at which forms and tiles change."""
    random = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[random.integers(len(values))]

    queries = one_of(1, 1, 2, 3, 7, 9, 13, 65)
    flash = random.random() < 0.5
    windows = ((None, None), (None, None), (3, 0), (0, 5), (17, None), (None, 2), (40, 1))
    return Case(
        element=one_of(*TYPES),
        batch=one_of(1, 1, 1, 2),
        heads=one_of(1, 1, 1, 2),
        group=one_of(1, 1, 2, 3) if queries < 65 else 1,
        queries=queries,
        keys=one_of(1, 2, 13, 31, 64, 67),
        depth=one_of(*DEPTHS),
        causal=random.random() < 0.4,
        window=one_of(*windows) if flash else (None, None),
        sloped=flash and random.random() < 0.4,
        masked=not flash and random.random() < 0.35,
        flash=flash,
        scale=one_of(0.125, 1.0, 0.5),
        cap=one_of(1.0, 1.0, 2.0, 30.0),
        transposed=random.random() < 0.35,
        parts=one_of(None, None, 0, 1, 2, 5),
        seed=seed,
    )


@pytest.mark.parametrize("decade", range(10))
def test_random_configurations(kernels: Kernels, decade: int) -> None:
    for seed in some(range(10 * decade, 10 * decade + 10)):
        case = random_case(seed)
        try:
            case.check(kernels)
        except AssertionError as failure:
            raise AssertionError(f"{case}: {failure}") from failure


def test_every_kernel(kernels: Kernels) -> None:
    with launched(kernels) as symbols:
        for element in TYPES:
            # Rows of 60, 124 and 252 elements are no packs of 16 bytes in 16 bits, and do not go to matrix units.
            for depth in (60, 64, 96, 124, 128, 192, 252, 256):
                for flash, (queries, parts) in product((False, True), ((5, 0), (5, 3), (1, 3))):
                    Case(element, queries=queries, keys=66, depth=depth, flash=flash, parts=parts).check(kernels)
    assert symbols == {kernel.symbol for kernel in kernels.families["sdpa"].kernels}


@pytest.mark.parametrize(
    "case",
    [
        Case(depth=512, queries=1, keys=3),
        Case(depth=512, queries=9, keys=65, masked=True),
        Case(depth=33, columns=5, queries=3, keys=70),
        Case(depth=40, columns=130, queries=66, keys=3),
        Case(depth=64, columns=256, queries=2, keys=30, parts=2),
        Case("bf16", depth=256, columns=20, queries=2, group=2, keys=30, parts=2),
        Case(depth=1, columns=1, queries=1, keys=1),
        Case(queries=130, keys=130, depth=32, causal=True),
        Case(queries=70, keys=200, depth=32, causal=True),
        Case(queries=70, keys=200, depth=32, flash=True, window=(20, 3)),
        Case(queries=2, keys=200, depth=32, flash=True, window=(20, 0), parts=3, sloped=True, group=2),
        Case("f16", queries=9, keys=65, depth=512, flash=True, causal=True),
        # Blocks of waves of which some see no key of a step, and some have no query.
        Case("f16", queries=130, keys=140, depth=128, causal=True, group=2, parts=0),
        Case("bf16", queries=200, keys=200, depth=40, columns=128, flash=True, window=(20, 3), parts=0),
        Case("f16", queries=150, keys=260, depth=64, flash=True, window=(None, 2), sloped=True, cap=30.0, parts=0),
        Case("bf16", queries=67, keys=67, depth=8, columns=8, masked=True, heads=2, batch=2, parts=0),
        Case("f16", queries=9, keys=1, depth=16, columns=120, parts=0),
        # Wide rows, whose columns are in two parts on some architectures.
        Case("f16", queries=70, keys=90, depth=256, causal=True, parts=0),
        Case("bf16", queries=40, keys=70, depth=136, columns=200, flash=True, window=(30, 3), parts=0),
        Case("f16", queries=20, keys=40, depth=24, columns=136, masked=True, parts=0),
        # Rows of a head of keys that are of several heads of queries, and of which some see no key of a part.
        Case("f16", queries=40, keys=300, depth=128, causal=True, group=2, parts=3),
        Case("bf16", queries=7, keys=150, depth=40, columns=128, flash=True, window=(20, 3), group=3, parts=4),
        Case("f16", queries=21, keys=260, depth=64, flash=True, window=(None, 2), sloped=True, cap=30.0, parts=2),
        Case("bf16", queries=3, keys=67, depth=8, columns=8, masked=True, heads=2, batch=2, group=2, parts=2),
        Case("f16", queries=1, keys=1, depth=16, columns=120, parts=1),
        Case("f16", queries=5, keys=140, depth=256, causal=True, group=2, parts=2),
        Case("bf16", queries=18, keys=100, depth=136, columns=200, masked=True, parts=3),
        # Parts that several threads put together.
        Case(queries=2, keys=200, depth=40, parts=40),
        Case("bf16", queries=3, keys=90, depth=64, flash=True, causal=True, parts=9, batch=2),
        Case("f16", queries=20, keys=40, scale=-8.0, parts=0),
        # A window of more keys than a step has.
        Case("f16", queries=100, keys=200, depth=64, flash=True, window=(60, 40), parts=0),
        Case("f16", queries=70, keys=90, depth=160, causal=True, parts=0),
        Case("bf16", queries=130, keys=70, depth=80, masked=True, group=2, parts=0),
    ],
)
def test_unusual_sizes(kernels: Kernels, case: Case) -> None:
    case.check(kernels)


@FORMS
@UNITS
def test_later_keys_score_higher(kernels: Kernels, parts: int, element: str) -> None:
    """Every tile, and every part, corrects what came before it."""
    case = Case(element, queries=3, keys=140, depth=64, parts=parts, scale=1.0)
    q, k, v, mask = case.arrays()
    k = (q[:, :, :1] * np.linspace(-1, 1, case.keys)[:, None]).astype(q.dtype)
    expected, bound = reference(case, q, k, v, mask, on_units=element == "f16")
    assert_within(case.run(kernels, q, k, v, mask), expected, bound)


@FORMS
@UNITS
def test_queries_that_see_no_key(kernels: Kernels, parts: int, element: str) -> None:
    """They are NaN as softmax makes them, and no other query is."""
    causal = Case(element, queries=5, keys=3, causal=True, parts=parts)
    result = causal.run(kernels, *causal.arrays())
    assert np.isnan(result).all(axis=(0, 1, 3)).tolist() == [True, True, False, False, False]
    assert np.isfinite(result[:, :, 2:]).all()

    masked = Case(element, queries=5, keys=70, masked=True, parts=parts)
    q, k, v, mask = masked.arrays()
    mask[..., 1, :] = -np.inf
    expected, bound = reference(masked, q, k, v, mask, on_units=element == "f16")
    assert np.isnan(expected).all(axis=(0, 1, 3)).tolist() == [False, True, False, False, False]
    assert_within(masked.run(kernels, q, k, v, mask), expected, bound)

    none = Case(element, queries=2, keys=0, parts=parts)
    assert np.isnan(none.run(kernels, *none.arrays())).all()


@FORMS
@UNITS
def test_flash_makes_zeros_of_queries_that_see_no_key(kernels: Kernels, parts: int, element: str) -> None:
    case = Case(element, queries=5, keys=3, causal=True, flash=True, parts=parts)
    result = case.run(kernels, *case.arrays())
    assert (result == 0).all(axis=(0, 1, 3)).tolist() == [True, True, False, False, False]
    assert np.isfinite(result).all()
    none = Case(element, queries=2, keys=0, flash=True, parts=parts)
    assert (none.run(kernels, *none.arrays()) == 0).all()
    unknown = replace(none, keys=3)
    q, *others = unknown.arrays()
    q[..., 0] = np.nan
    assert np.isnan(unknown.run(kernels, q, *others)).all()


@dataclass(frozen=True)
class Batch:
    """Entries of different lengths, one behind another."""

    queries: tuple[int, ...] = (3, 0, 5, 1)
    keys: tuple[int, ...] = (70, 4, 0, 130)
    page: int | None = None
    """Keys of a page, if there are pages."""
    groups: tuple[tuple[tuple[int, int], ...], ...] | None = None
    """Of each entry."""

    def check(self, kernels: Kernels, case: Case) -> None:
        """Each entry's result is that of the entry alone, and what belongs to none is left alone."""
        device, random = kernels.device, np.random.default_rng(case.seed)
        heads, element = case.heads * case.group, numpy_type(dtype(case.element))
        q = random.standard_normal((sum(self.queries) + 2, heads, case.depth)).astype(element)
        k, v = random.standard_normal((2, sum(self.keys) + 1, case.heads, case.depth)).astype(element)
        ends = [np.cumsum((0, *lengths)) for lengths in (self.queries, self.keys)]
        of_queries, of_keys = (Tensor.from_numpy(device, each.astype(np.uint32)) for each in ends)
        rows, table = [k, v], None
        if self.page:
            rows, table = paged(random, k, v, ends[1], self.page)
        groups = None if self.groups is None else np.array(self.groups, np.int32)
        sequences = Sequences(
            of_queries,
            of_keys,
            (max(self.queries), max(self.keys)),
            None if table is None else Tensor.from_numpy(device, np.array(table, np.uint32)),
            None if groups is None else Tensor.from_numpy(device, groups.view(np.uint32)),
        )
        on_device = [Tensor.from_numpy(device, q[None]).transpose(0, 2, 1, 3)]
        on_device += [
            Tensor.from_numpy(device, each if self.page else each[None]).transpose(0, 2, 1, 3) for each in rows
        ]
        with launched(kernels) as symbols:
            result = sdpa(kernels, *on_device, **case.options(kernels, sequences), parts=case.parts).numpy()
        for entry in range(len(self.queries)):
            own = slice(ends[0][entry], ends[0][entry + 1])
            seen = slice(ends[1][entry], ends[1][entry + 1])
            one, keys, values = (each[None].swapaxes(1, 2) for each in (q[own], k[seen], v[seen]))
            if keys.shape[2] == 0:
                assert (result[:, :, own] == 0).all()
                continue
            own_groups = None if groups is None else groups[entry]
            on_units = are_of_units(symbols)
            expected, bound = reference(case, one, keys, values, np.zeros(1), own_groups, on_units=on_units)
            assert_within(result[:, :, own], expected, bound)


def paged(
    random: np.random.Generator, k: Array, v: Array, ends: Array, page: int
) -> tuple[list[Array], list[list[int]]]:
    """Pages of keys and of values in any order, and each entry's numbers of them, the last of which there is none."""
    counts = [-(-int(length) // page) for length in np.diff(ends)]
    free = list(random.permutation(sum(counts) + 1))
    pages = [np.full((len(free), page, *each.shape[1:]), np.nan, each.dtype) for each in (k, v)]
    table = [[int(free.pop()) for _ in range(count)] + [2**32 - 1] * (max(counts) + 1 - count) for count in counts]
    for numbers, (start, end) in zip(table, pairwise(ends), strict=True):
        for to, each in zip(pages, (k, v), strict=True):
            for place, row in enumerate(each[start:end]):
                to[numbers[place // page], place % page] = row
    return pages, table


GROUPS = (((0, 5), (60, 70)), ((0, 0), (0, 0)), ((0, 3), (5, 2)), ((100, 129), (128, 130)))


@FORMS
@pytest.mark.parametrize("page", [None, 8, 32], ids=["rows", "pages of 8", "pages of 32"])
@pytest.mark.parametrize("groups", [None, GROUPS], ids=["", "groups"])
def test_entries_of_different_lengths(kernels: Kernels, parts: int, page: int | None, groups: Any) -> None:
    case = Case("f16", heads=2, group=2, depth=64, flash=True, causal=True, sloped=True, parts=parts)
    Batch(page=page, groups=groups).check(kernels, case)
    Batch(page=page, groups=groups).check(kernels, replace(case, causal=False, window=(40, 2), element="f32"))


@pytest.mark.parametrize("parts", [0, 2], ids=["tiles", "parts"])
def test_entries_of_many_queries(kernels: Kernels, parts: int) -> None:
    case = Case("bf16", heads=1, group=3, depth=72, flash=True, causal=True, parts=parts)
    # A group that reaches from queries of one tile to keys behind all that these see otherwise.
    Batch(queries=(130,), keys=(140,), groups=(((20, 120),),)).check(kernels, case)
    Batch(queries=(70, 1, 130), keys=(70, 200, 140)).check(kernels, case)
    Batch(queries=(70, 1, 130), keys=(70, 200, 140), page=16).check(kernels, replace(case, window=(9, 9), causal=False))


@FORMS
def test_starts_that_are_wrong_stay_within_memory(kernels: Kernels, parts: int) -> None:
    """Nothing is read or written outside, and entries that are as they should be are right."""
    case = Case(heads=1, depth=64, flash=True, parts=parts)
    device = kernels.device
    q, k, v, _ = Case(queries=8, keys=9, heads=1, depth=64).arrays()
    starts = [[0, 3, 2**32 - 1, 8, 8], [0, 9, 2**31, 4, 9]]
    of_queries, of_keys = (Tensor.from_numpy(device, np.array(each, np.uint32)) for each in starts)
    on_device = [Tensor.from_numpy(device, each) for each in (q, k, v)]
    result = sdpa(
        kernels, *on_device, **case.options(kernels, Sequences(of_queries, of_keys, (8, 9))), parts=parts
    ).numpy()
    expected, bound = reference(case, q[:, :, :3], k, v, np.zeros(1))
    assert_within(result[:, :, :3], expected, bound)


@FORMS
def test_lowest_number_as_mask(kernels: Kernels, parts: int) -> None:
    """Masks often have the type's lowest number in place of -inf: a row of it alone weighs all keys alike."""
    case = Case(queries=2, keys=70, masked=True, parts=parts)
    q, k, v, mask = case.arrays()
    mask[:] = 0
    mask[..., 0, :] = np.finfo(np.float32).min
    mask[..., 1, 5:] = np.finfo(np.float32).min

    result = case.run(kernels, q, k, v, mask)

    np.testing.assert_allclose(result[0, 0, 0], v[0, 0].mean(axis=0), atol=1e-5)
    few = Case(queries=2, keys=5)
    expected, bound = reference(few, q, k[:, :, :5], v[:, :, :5], mask)
    assert_within(result[:, :, 1], expected[:, :, 1], bound[:, :, 1])


@FORMS
@UNITS
def test_special_values_reach_only_their_query(kernels: Kernels, parts: int, element: str) -> None:
    case = Case(element, queries=6, keys=70, parts=parts)
    q, k, v, mask = case.arrays()
    q[0, 0, 1, 3], q[0, 0, 4, 60] = np.nan, np.inf

    result = case.run(kernels, q, k, v, mask)

    assert np.isnan(result).all(axis=(0, 1, 3)).tolist() == [False, True, False, False, True, False]
    assert np.isfinite(result[:, :, [0, 2, 3, 5]]).all()


@pytest.mark.parametrize("parts", [0, 3], ids=["tiles", "parts"])
def test_masks_in_any_view(kernels: Kernels, parts: int) -> None:
    """One for all heads, and one whose keys are not neighbours."""
    case = Case(batch=2, heads=2, group=2, queries=3, keys=67, masked=True, parts=parts)
    q, k, v, mask = case.arrays()
    tensors = [Tensor.from_numpy(kernels.device, array) for array in (q, k, v)]
    shared = Tensor.from_numpy(kernels.device, mask[:1, :1]).broadcast(*mask.shape)
    turned = Tensor.from_numpy(kernels.device, mask.transpose(3, 0, 2, 1)).transpose(1, 3, 2, 0)
    for view, array in ((shared, np.broadcast_to(mask[:1, :1], mask.shape)), (turned, mask)):
        expected, bound = reference(case, q, k, v, array)
        result = sdpa(kernels, tensors[0], tensors[1], tensors[2], view, scale=case.scale, parts=parts)
        assert_within(result.numpy(), expected, bound)


@pytest.mark.parametrize("case", [Case(batch=0), Case(queries=0), Case(group=0)])
def test_nothing_to_do(kernels: Kernels, case: Case) -> None:
    assert case.run(kernels, *case.arrays()).size == 0


def test_many_keys_are_dealt_to_blocks(kernels: Kernels) -> None:
    with launched(kernels) as symbols:
        Case("f16", queries=2, keys=520, depth=64).check(kernels)
        assert symbols == {"sdpa_matrix_split_f16_64", "sdpa_combine_f16"}
    with launched(kernels) as symbols:
        Case(group=2, queries=1, keys=520, depth=64).check(kernels)
        assert symbols == {"sdpa_split_f32_64", "sdpa_combine_f32"}
    with launched(kernels) as symbols:
        Case("f16", heads=2, queries=1, keys=520, depth=64).check(kernels)
        assert symbols == {"sdpa_single_f16_64", "sdpa_combine_f16"}
    with launched(kernels) as symbols:
        Case("f16", queries=9, keys=20, depth=64, parts=0).check(kernels)
        assert symbols == {"sdpa_matrix_f16_64"}


@pytest.mark.parametrize("parts", [0, 3], ids=["tiles", "parts"])
def test_grids_that_take_several_launches(kernels: Kernels, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(kernels, "limits", {"blocks": 2})
    Case(batch=2, heads=3, queries=2, keys=9, parts=parts).check(kernels)


@pytest.mark.parametrize(
    ("shapes", "complaint"),
    [
        (((1, 2, 3, 8), (1, 2, 5, 4), (1, 2, 5, 8), None), "do not fit together"),
        (((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 4, 8), None), "do not fit together"),
        (((1, 3, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8), None), "do not fit together"),
        (((2, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8), None), "do not fit together"),
        (((1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8), (1, 1, 3, 5)), "mask has to be"),
    ],
)
def test_shapes_that_do_not_fit(kernels: Kernels, shapes: tuple[Any, ...], complaint: str) -> None:
    q, k, v, mask = (shape and Tensor.empty(kernels.device, shape, dtype("f32")) for shape in shapes)
    with pytest.raises(ValueError, match=complaint):
        sdpa(kernels, q, k, v, mask)


def test_columns_that_are_not_contiguous(kernels: Kernels) -> None:
    turned = Tensor.empty(kernels.device, (1, 1, 8, 8), dtype("f32")).transpose(0, 1, 3, 2)
    with pytest.raises(ValueError, match="last dimension"):
        sdpa(kernels, turned, turned, turned)
