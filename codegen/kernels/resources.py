"""Registers, LDS, spills and occupancy of every compiled kernel, held against the budgets of the specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import KernelRejected, Location, Problem
from codegen.kernels.architectures import Architecture, architecture, occupancy
from codegen.kernels.code_object import KernelMetadata, read_kernels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.kernels.compile import CodeObject
    from codegen.kernels.loader import LoadedFamily
    from codegen.kernels.model import Budget


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What one kernel needs on one architecture."""

    family: str
    architecture: Architecture
    kernel: KernelMetadata

    @property
    def vgprs(self) -> int:
        """Vector registers that a wave occupies per lane, accumulation registers included where they share a file."""
        return self.kernel.vgprs

    @property
    def spills(self) -> int:
        """Registers of either kind that did not fit and went to memory."""
        return self.kernel.vgpr_spills + self.kernel.sgpr_spills

    @property
    def occupancy(self) -> int:
        """Waves that a SIMD can hold with blocks of the largest size and no LDS but the static."""
        return occupancy(
            self.architecture,
            vgprs=self.kernel.vgprs,
            sgprs=self.kernel.sgprs,
            lds=self.kernel.lds,
            block=self.kernel.max_block,
        )


def read_resources(objects: Iterable[CodeObject]) -> tuple[KernelResources, ...]:
    """The needs of all kernels in the code objects, in their order, then by symbol.

    Raises:
        InputOutputError: a code object is missing or broken.
    """
    return tuple(
        KernelResources(each.family, architecture(each.architecture), kernel)
        for each in objects
        for kernel in read_kernels(each.path)
    )


def check_resources(resources: Iterable[KernelResources], families: Iterable[LoadedFamily]) -> None:
    """Hold the kernels against their variants' or families' budgets.

    Raises:
        KernelRejected: kernels spill, use scratch memory or more than the budget, or their code object lacks them.
            Every finding names the kernel, the architecture, the numbers and the op's line in the spec.
    """
    found = tuple(resources)
    problems = []
    for loaded in families:
        own = [each for each in found if each.family == loaded.name]
        lines = {kernel.symbol: kernel.line for kernel in loaded.kernels}
        budgets = {kernel.symbol: kernel.variant.budget for kernel in loaded.kernels}
        for each in own:
            location = _location(loaded, lines.get(each.kernel.symbol))
            excesses = _excesses(each, budgets.get(each.kernel.symbol) or loaded.family.budget)
            problems += [Problem(f"{_named(each)} {excess}", location) for excess in excesses]
        problems += _absent(loaded, lines, own)
    if problems:
        raise KernelRejected(
            problems, remedy="make the kernel need less; raise the family's budget only with a reason; spills are bugs"
        )


def _excesses(found: KernelResources, budget: Budget) -> list[str]:
    kernel = found.kernel
    said = []
    if found.spills:
        said.append(f"spills {kernel.vgpr_spills} VGPRs and {kernel.sgpr_spills} SGPRs")
    if kernel.scratch or kernel.dynamic_stack:
        stack = ", and its stack can grow" if kernel.dynamic_stack else ""
        said.append(f"keeps {kernel.scratch} bytes per lane in scratch memory{stack}")
    if found.vgprs > budget.vgprs and found.occupancy < found.architecture.max_waves:
        said.append(f"needs {found.vgprs} VGPRs of {budget.vgprs} allowed")
    if kernel.lds > budget.lds:
        said.append(f"needs {kernel.lds} bytes of LDS of {budget.lds} allowed")
    if found.occupancy == 0:
        said.append("does not fit on the hardware: occupancy 0")
    return said


def _absent(loaded: LoadedFamily, lines: dict[str, int], own: list[KernelResources]) -> list[Problem]:
    """Kernels that the spec has and a code object of the family has not."""
    by_architecture: dict[str, set[str]] = {}
    for each in own:
        by_architecture.setdefault(each.architecture.name, set()).add(each.kernel.symbol)
    return [
        Problem(f"{symbol} is not in the code object for {name}", _location(loaded, line))
        for name, symbols in by_architecture.items()
        for symbol, line in lines.items()
        if symbol not in symbols
    ]


def _named(found: KernelResources) -> str:
    return f"{found.kernel.symbol} on {found.architecture.name}"


def _location(loaded: LoadedFamily, line: int | None) -> Location:
    return Location.in_text(loaded.file, loaded.text, line or 1)
