"""Measures rows: our kernels, PyTorch and the plain kernels in turns, on one device."""

from __future__ import annotations

import math
import statistics
from functools import partial
from typing import TYPE_CHECKING, Any

from codegen.bench.clock import NODES, Clock, Recorder, TimedDevice
from codegen.bench.error import relative_error
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
        """Raises ToolchainMissing without a GPU: times of the emulated device, or of a modelled GPU, say nothing."""
        self.device = TimedDevice()
        if self.device.target in ("emulator", "model"):
            raise ToolchainMissing(
                "no GPU answers, and what is emulated or modelled is no measure of speed",
                remedy="name the folder of libamdhip64.so in CANDLE_ROCM_HIP, or compare results alone (--check); "
                "candle-rocm doctor says what answers",
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
            memory = [torch_input(self.torch, own, "cuda") for own in row.inputs]
            pairs = list(zip(memory, row.inputs, strict=True))
            held.append([torchs_view(tensor, own) for tensor, own in pairs])
            tensors.append([our_view(as_ours(self.device, tensor, own.dtype), own) for tensor, own in pairs])
        return held, tensors

    def _error(self, row: Row, held: Sequence[Any], tensors: Sequence[Tensor]) -> float:
        torch = self.torch
        assert row.theirs
        expected = row.theirs(torch, [tensor.clone() for tensor in held])
        result = as_torchs(torch, row.ours(self._kernels, tensors))
        return relative_error(torch, row, held, expected, result)

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
