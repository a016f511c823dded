"""Measures rows: our kernels, PyTorch and the plain kernels in turns, on one device."""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

from codegen.bench.clock import NODES, Clock, Recorder, TimedDevice
from codegen.bench.model import Limits, Measured
from codegen.bench.operands import (
    as_ours,
    as_torchs,
    our_view,
    plain_input,
    torch_graph,
    torch_input,
    torch_or_none,
    torchs_view,
)
from codegen.errors import ToolchainMissing
from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codegen.bench.model import Row
    from codegen.device.tensor import Tensor

ROUNDS = 2
"""Of Clock.round for each side, after one that does not count."""
MUCH = 400 << 20
"""Bytes of inputs that no cache holds: smaller inputs are made several times and taken in turns."""
MOST_SETS = 6


class Bench:
    """One device, and what its limits are."""

    def __init__(self) -> None:
        """Raises ToolchainMissing without a GPU: times of the emulated device say nothing."""
        self.device = TimedDevice()
        if self.device.target == "emulator":
            raise ToolchainMissing(
                "no GPU answers, and the emulated device is no measure of speed",
                remedy="name libamdhip64.so's folder in CANDLE_ROCM_HIP if ROCm lies elsewhere; see candle-rocm doctor",
            )
        self.torch = torch_or_none()
        self._kernels = Recorder(self.device)
        self._clock = Clock(self.device)
        self._limits: dict[int, Limits] = {}

    def measured(self, row: Row) -> Measured:
        """The row's figures. Raises HipError where a kernel fails."""
        with self.device.released():
            held, tensors = self._sets(row)
            error = self._error(row, held[0], tensors[0]) if held and row.theirs else None
            ours = [self._kernels.recorded(partial(row.ours, self._kernels, own)) for own in tensors]
            theirs = self._theirs(row, held)
            if row.limit == "time":
                times, rival = self._times_in_graphs(ours, theirs)
            else:
                times, rival = self._times(ours, theirs)
        if self.torch:
            del held, theirs
            self.torch.cuda.empty_cache()
        return Measured(row, times, rival, self._limit(row), error)

    def _sets(self, row: Row) -> tuple[list[list[Any]], list[list[Tensor]]]:
        size = sum(dtype(own.dtype).size * math.prod(own.shape) for own in row.inputs)
        number = min(max(-(-MUCH // size), 1), MOST_SETS)
        if self.torch is None:
            return [], [[our_view(plain_input(self.device, own), own) for own in row.inputs] for _ in range(number)]
        held: list[list[Any]] = []
        tensors: list[list[Tensor]] = []
        for _ in range(number):
            memory = [torch_input(self.torch, own) for own in row.inputs]
            pairs = list(zip(memory, row.inputs, strict=True))
            held.append([torchs_view(tensor, own) for tensor, own in pairs])
            tensors.append([our_view(as_ours(self.device, tensor, own.dtype), own) for tensor, own in pairs])
        return held, tensors

    def _error(self, row: Row, held: Sequence[Any], tensors: Sequence[Tensor]) -> float:
        """Of our result against PyTorch's, as 2-norms; 0 or infinity for whole numbers, infinity for another shape."""
        torch = self.torch
        assert row.theirs
        expected = row.theirs(torch, [tensor.clone() for tensor in held])
        result = as_torchs(torch, row.ours(self._kernels, tensors))
        if row.seen:
            expected, result = (row.seen(torch, held, one) for one in (expected, result))
        if expected.shape != result.shape:
            return math.inf
        if not expected.is_floating_point():
            return 0.0 if torch.equal(expected.to(torch.int64), result.to(torch.int64)) else math.inf
        # Infinite sums are the same infinity on both sides.
        difference = torch.where(expected == result, 0.0, result.double() - expected.double())
        norm = torch.where(expected.isinf(), 0.0, expected.double()).norm()
        return float(difference.norm() / norm) if norm else float(difference.norm())

    def _theirs(self, row: Row, held: Sequence[Sequence[Any]]) -> list[Callable[[], None]]:
        theirs = row.theirs
        if theirs is None:
            return []

        def work(own: Sequence[Any]) -> Callable[[], None]:
            # As ours does, each set of inputs has memory of its own for the result; given back at once, it would serve
            # for the next one, and a cache would hold it.
            kept: list[Any] = []

            def once() -> None:
                kept[:] = [theirs(self.torch, own)]

            return once

        return [work(own) for own in held]

    def _times(self, ours: list[Callable[[], None]], theirs: list[Callable[[], None]]) -> tuple[float, float | None]:
        """Medians of both sides, whose rounds alternate."""
        own: list[float] = []
        rival: list[float] = []
        for number in range(ROUNDS + 1):
            for side, works in ((own, ours), (rival, theirs)):
                if works:
                    times = self._clock.round(works)
                    side += times if number else []
        return statistics.median(own), statistics.median(rival) if rival else None

    def _times_in_graphs(
        self, ours: list[Callable[[], None]], theirs: list[Callable[[], None]]
    ) -> tuple[float, float | None]:
        """Medians of both sides, for each of NODES operations of a graph."""
        graphs = [torch_graph(self.torch, theirs, NODES)] if theirs else []
        with self._clock.graph(ours) as launched:
            own, rival = self._times([launched], graphs)
        return own / NODES, rival / NODES if rival else None

    def _limit(self, row: Row) -> float | None:
        if row.limit in ("rival", "time"):
            return None
        # A copy moves its tensor twice; limits go with the size of one tensor.
        size = row.moved // (2 if row.limit == "copy" else 1)
        known = next((size_ for size_ in self._limits if 0.8 < size_ / size < 1.25), None)
        if known is None:
            known = size // 16 * 16
            self._limits[known] = self._clock.limits(known)
        return float(getattr(self._limits[known], row.limit))
