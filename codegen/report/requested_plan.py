"""The plan that a report is about: of the phases asked for, on top of those that are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.plan.build import plan_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codegen.plan.decide import Scan
    from codegen.plan.model import Plan
    from codegen.spec.kinds import Gating, Runtime
    from codegen.workspace.workspace import Workspace


def selected_plan(
    workspace: Workspace,
    *,
    phases: Sequence[int],
    gating: Gating,
    runtime: Runtime,
    scan: Scan | None = None,
    leave_unknown: bool = False,
) -> Plan:
    """The plan of the phases (all that are ready by default); those that are applied count as being there.

    Raises what `plan_tree` raises.
    """
    wanted = workspace.with_applied(phases)
    plan = plan_tree(
        workspace.tree,
        workspace.specs,
        phases=wanted,
        gating=gating,
        runtime=runtime,
        scan=scan,
        leave_unknown=leave_unknown,
    )
    return plan.only(phases)
