"""Graphs of the benchmark's clock: the calls that a device gets, in order. Nothing is timed here."""

from __future__ import annotations

from ctypes import c_void_p
from typing import TYPE_CHECKING

from codegen.bench.clock import NODES, Clock, TimedDevice

if TYPE_CHECKING:
    from collections.abc import Callable


class Recorded(TimedDevice):
    """A device without a GPU, which notes what it is asked for."""

    def __init__(self) -> None:
        self.stream = c_void_p(0)
        self.calls: list[str] = []

    def call(self, function: str, *_arguments: object) -> None:
        """Notes the function."""
        self.calls.append(function)

    def synchronize(self) -> None:
        """Notes it."""
        self.calls.append("synchronize")


def test_a_graph_has_work_in_turn_and_is_given_back() -> None:
    device = Recorded()
    clock = Clock.__new__(Clock)
    clock._device = device
    usual, done = device.stream, []

    def work(name: str) -> Callable[[], None]:
        def once() -> None:
            assert device.stream is not usual, "recorded, not run"
            done.append(name)

        return once

    with clock.graph([work("a"), work("b")]) as launched:
        assert device.stream is usual
        launched()
    assert done == ["a", "b"] * (NODES // 2)
    assert device.calls == [
        "hipStreamCreate",
        "hipStreamBeginCapture",
        "hipStreamEndCapture",
        "hipGraphInstantiate",
        "hipGraphDestroy",
        "hipStreamDestroy",
        "hipGraphLaunch",
        "synchronize",
        "hipGraphExecDestroy",
    ]
