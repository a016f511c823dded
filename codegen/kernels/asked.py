"""Which kernels a run of the Rust backend has to have asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.kernels.dtypes import expand
from codegen.kernels.loader import load_families

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from codegen.kernels.loader import LoadedFamily
    from codegen.kernels.model import Kernel


def missing_kernels(asked: AbstractSet[str], families: Iterable[LoadedFamily] | None = None) -> set[str]:
    """The kernels that were not asked for by name, less those that their specs list as never asked for.

    `asked` are the names given to hipModuleGetFunction in all of a run; `families` are those of specs/kernels unless
    given. Names that are no kernel's do not matter: programs have kernels of their own.
    """
    return {kernel.symbol for kernel in _kernels(families) if not _is_listed(kernel)} - asked


def asked_though_listed(asked: AbstractSet[str], families: Iterable[LoadedFamily] | None = None) -> set[str]:
    """The kernels that were asked for although their specs say that they never are: the entry is to be removed."""
    return {kernel.symbol for kernel in _kernels(families) if _is_listed(kernel)} & asked


def _kernels(families: Iterable[LoadedFamily] | None) -> list[Kernel]:
    loaded = load_families() if families is None else families
    return [kernel for family in loaded for kernel in family.kernels]


def _is_listed(kernel: Kernel) -> bool:
    return any(kernel.type in expand(unasked.types) for unasked in kernel.op.unasked)
