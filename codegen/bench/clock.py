"""Times on the device's own clock: events around work, behind a kernel that keeps the queue busy."""

from __future__ import annotations

import statistics
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codegen.bench.model import Limits
from codegen.device.hip import Device, Launch, compile_source
from codegen.device.kernels import Kernels, pointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codegen.device.hip import Buffer, PreparedLaunch

DELAY = 6_000_000
"""Cycles, about 3 ms: in this time the host puts a round of work on the queue."""
ROUND = 30
"""Launches of a round."""
NODES = 200
"""Operations of a graph."""
_CAPTURE_MODE_RELAXED: Final = 2
"""Of hipStreamCaptureMode: any call is allowed meanwhile."""


class TimedDevice(Device):
    """A device that gives all its memory back at once."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Buffer] = []

    def allocate(self, size: int) -> Buffer:
        """As `Device.allocate`; `released` gives it back."""
        buffer = super().allocate(size)
        self._kept.append(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Nothing: work that was recorded uses the memory again."""

    @contextmanager
    def enqueuing_on(self, stream: c_void_p) -> Iterator[None]:
        """In the block, launches go to another stream."""
        usual, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = usual

    @contextmanager
    def released(self) -> Iterator[None]:
        """What is allocated in the block is given back at its end."""
        before = len(self._kept)
        try:
            yield
        finally:
            self.synchronize()
            for buffer in self._kept[before:]:
                super().free(buffer)
            del self._kept[before:]


class Recorder(Kernels):
    """Kernels that note what they launch."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._noted: list[PreparedLaunch] = []

    def launch(self, family: str, launches: Iterable[Launch]) -> None:
        """As `Kernels.launch`."""
        for launch in launches:
            prepared = self.module(family).prepared(launch)
            self._noted.append(prepared)
            prepared()

    def recorded(self, work: Callable[[], object]) -> Callable[[], None]:
        """Does the work, and returns what launches its kernels once more."""
        self._noted = []
        work()
        noted, self._noted = self._noted, []

        def again() -> None:
            for launch in noted:
                launch()

        return again


class Clock:
    """Times work on the default stream of a device."""

    def __init__(self, device: TimedDevice) -> None:
        self._device = device
        source = Path(__file__).with_name("limits.hip")
        options = ["-O3", "-std=c++17", f"--offload-arch={device.architecture}"]
        code = compile_source(device.libraries, source.name, source.read_text(encoding="utf-8"), {}, options)
        self._limits = device.module(code)
        self._delay = self._limits.prepared(Launch("delay", (1, 1, 1), (1, 1, 1), (pointer(DELAY),)))
        self._events = [self._event() for _ in range(2 * ROUND)]

    def _event(self) -> c_void_p:
        event = c_void_p()
        self._device.call("hipEventCreate", byref(event))
        return event

    @contextmanager
    def graph(self, works: Sequence[Callable[[], None]]) -> Iterator[Callable[[], None]]:
        """In the block, what enqueues NODES pieces of work, taken from `works` in turn, by one call of the host's."""
        device, stream, graph, ready = self._device, c_void_p(), c_void_p(), c_void_p()
        device.call("hipStreamCreate", byref(stream))
        device.call("hipStreamBeginCapture", stream, c_int(_CAPTURE_MODE_RELAXED))
        with device.enqueuing_on(stream):
            for number in range(NODES):
                works[number % len(works)]()
        device.call("hipStreamEndCapture", stream, byref(graph))
        device.call("hipGraphInstantiate", byref(ready), graph, c_void_p(0), c_void_p(0), c_size_t(0))
        device.call("hipGraphDestroy", graph)
        device.call("hipStreamDestroy", stream)

        try:
            yield lambda: device.call("hipGraphLaunch", ready, c_void_p(0))
        finally:
            device.synchronize()
            device.call("hipGraphExecDestroy", ready)

    def round(self, works: Sequence[Callable[[], None]]) -> list[float]:
        """Microseconds of ROUND pieces of work, taken from `works` in turn."""
        self._delay()
        for number in range(ROUND):
            self._device.call("hipEventRecord", self._events[2 * number], c_void_p(0))
            works[number % len(works)]()
            self._device.call("hipEventRecord", self._events[2 * number + 1], c_void_p(0))
        self._device.synchronize()
        return [self._between(number) for number in range(ROUND)]

    def _between(self, number: int) -> float:
        milliseconds = c_float()
        self._device.call("hipEventElapsedTime", byref(milliseconds), *self._events[2 * number : 2 * number + 2])
        return milliseconds.value * 1000

    def limits(self, size: int) -> Limits:
        """What plain kernels reach with tensors of `size` bytes: two of them for a copy, one for a read or a write."""
        with self._device.released():
            pairs = [(self._device.allocate(size), self._device.allocate(size)) for _ in range(2)]
            copied = self._fastest("copy", pairs, 256, size)
            read, written = self._fastest("read", pairs, 2048, size), self._fastest("write", pairs, 256, size)
        return Limits(2 * size / copied / 1e3, size / read / 1e3, size / written / 1e3)

    def _fastest(self, symbol: str, pairs: Sequence[tuple[Buffer, Buffer]], in_block: int, size: int) -> float:
        """Median microseconds of a kernel whose blocks take `in_block` pieces of 16 bytes."""
        count = size // 16
        grid = (-(-count // in_block), 1, 1)
        works = [
            self._limits.prepared(Launch(symbol, grid, (256, 1, 1), tuple(map(pointer, (y.address, x.address, count)))))
            for y, x in pairs
        ]
        self.round(works)
        return statistics.median(self.round(works))
