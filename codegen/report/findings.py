"""What stops a scan from being complete: sites that nothing decides, enums that are not where the specs say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import UnknownSite
from codegen.plan.decide import refuse_undecided

if TYPE_CHECKING:
    from codegen.plan.decide import Scan
    from codegen.spec.loaded import LoadedSpecs


def findings(scan: Scan, specs: LoadedSpecs) -> UnknownSite | None:
    """The error that planning on this scan would raise, with what all its checks find; None when they find nothing."""
    try:
        refuse_undecided(scan, specs)
    except UnknownSite as error:
        return error
    return None
