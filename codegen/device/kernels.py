"""The kernel families on one device: compiled when first used, launched by symbol."""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING

from codegen.device.hip import Buffer, Device, Launch, Module, compile_source
from codegen.device.planner import Allocate, plan
from codegen.kernels.loader import LoadedFamily, load_families
from codegen.kernels.render import Sources, render_sources

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kernels:
    """Every family's kernels, on one device."""

    def __init__(self, device: Device, instead: Sources | None = None) -> None:
        """`instead` are sources to use in place of the rendered ones, for the families that it has."""
        self.device = device
        self._instead = instead
        self.limits: dict[str, int] = {}
        """Of launches, where they are not to be the backend's: `elements`, `blocks`, `least_tiles`,
        `packed_products`, `launch_time`. `wave_size` and `multiprocessors` are planned for in place of the device's."""
        self._modules: dict[str, Module] = {}

    @cached_property
    def families(self) -> dict[str, LoadedFamily]:
        """The specs, by family."""
        return {loaded.name: loaded for loaded in load_families()}

    @cached_property
    def sources(self) -> Sources:
        """The rendered sources."""
        return render_sources(self.families.values())

    def numbers(self, family: str) -> dict[str, int]:
        """The launch geometry of a family on the device's architecture."""
        return self.families[family].family.numbers(self.device.architecture)

    def plan(self, operation: str, **operands: object) -> list[tuple[str, Launch]]:
        """What the backend launches for an operation on this device, each with its family. Raises as `planner.plan`.

        The addresses of workspaces are made up.
        """
        return self._plan(operation, None, operands)

    def run(self, operation: str, **operands: object) -> None:
        """Enqueues what the backend launches for an operation, with workspaces. Raises as `planner.plan`."""
        workspaces: list[Buffer] = []

        def allocate(size: int, *, zeroed: bool) -> int:
            workspaces.append(self.device.zeros(size) if zeroed else self.device.allocate(size))
            return workspaces[-1].address

        try:
            for family, launch in self._plan(operation, allocate, operands):
                self.launch(family, [launch])
        finally:
            for workspace in workspaces:
                self.device.free(workspace)

    def _plan(self, operation: str, allocate: Allocate | None, operands: dict[str, object]) -> list[tuple[str, Launch]]:
        device = {name: getattr(self.device, name) for name in ("architecture", "wave_size", "multiprocessors")}
        return plan(operation, {**device, **self.limits}, allocate, **operands)

    def launch(self, family: str, launches: Iterable[Launch]) -> None:
        """Enqueues launches of a family's kernels, in order."""
        for launch in launches:
            self.module(family).launch(launch)

    def module(self, family: str) -> Module:
        """A family's code on the device, compiled when it is first asked for."""
        if family not in self._modules:
            sources = self._instead if self._instead and self._instead.has(family) else self.sources
            source = sources.family(family)
            self._modules[family] = self._compiled(sources, source.path, source.text)
        return self._modules[family]

    def compiled(self, name: str, text: str) -> Module:
        """The code on the device of a source of one's own, which may include the kernels' headers.

        Raises HipError with the compiler's log.
        """
        return self._compiled(self.sources, name, text)

    def _compiled(self, sources: Sources, name: str, text: str) -> Module:
        headers = {header.path: header.text for header in sources.headers}
        options = ["-O3", "-std=c++17", f"--offload-arch={self.device.architecture}"]
        return self.device.module(compile_source(self.device.libraries, name, text, headers, options))


def pointer(address: int) -> bytes:
    """An address, or any 64-bit unsigned number, as a kernel argument."""
    return struct.pack("<Q", address)


def u32(value: int) -> bytes:
    """A 32-bit unsigned number as a kernel argument."""
    return struct.pack("<I", value)
