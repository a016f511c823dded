"""What stops a scan from being complete: sites that nothing decides, enums that are not where the specs say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from codegen.errors import UnknownSite
from codegen.plan.decide import missing_enums, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.errors import Problem
    from codegen.plan.decide import Scan
    from codegen.spec.loaded import LoadedSpecs


def findings(scan: Scan, specs: LoadedSpecs) -> UnknownSite | None:
    """The error that planning on this scan would raise, with what all its checks find; None when they find nothing."""
    errors = [
        error for check in (refuse_unknown, partial(_refuse_missing_enums, specs)) if (error := _raised(check, scan))
    ]
    if not errors:
        return None
    problems: list[Problem] = [problem for error in errors for problem in error.problems]
    return UnknownSite(problems, remedy="; ".join(error.remedy for error in errors))


def _refuse_missing_enums(specs: LoadedSpecs, scan: Scan) -> None:
    missing_enums(scan.tree, specs, scan)


def _raised(check: Callable[[Scan], None], scan: Scan) -> UnknownSite | None:
    try:
        check(scan)
    except UnknownSite as error:
        return error
    return None
