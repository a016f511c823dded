"""What stops a scan from being complete: sites and methods that nothing decides, enums not where the specs say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import RenamedVariant, UnknownSite
from codegen.plan.decide import refuse_undecided

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.errors import Problem
    from codegen.plan.decide import Scan
    from codegen.spec.loaded import LoadedSpecs


METHODS_REMEDY = (
    "A method without a template returns an error on ROCm: add an operation to ops/ below "
    "templates/candle/3-tensors, and its name to specs/backend.yaml."
)


def findings(
    scan: Scan, specs: LoadedSpecs, methods: Sequence[Problem] = (), *, leave_unknown: bool = False
) -> UnknownSite | None:
    """The error that planning on this scan would raise, with what all its checks find; None when they find nothing.

    `methods` of the backend traits that no template computes stop no plan, but are findings too.
    """
    try:
        refuse_undecided(scan, specs, leave_unknown=leave_unknown)
    except RenamedVariant as error:
        return error
    except UnknownSite as error:
        remedy = f"{error.remedy}. {METHODS_REMEDY}" if methods else error.remedy
        return UnknownSite([*error.problems, *methods], remedy=remedy)
    return UnknownSite(methods, remedy=METHODS_REMEDY) if methods else None
