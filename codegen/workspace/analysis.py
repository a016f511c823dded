"""Scan and plan of a workspace, from the cache where nothing has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen import terminal
from codegen.paths import default_cache
from codegen.plan import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from codegen.plan.model import Decision, Plan
    from codegen.spec.kinds import Gating, Runtime
    from codegen.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Analysis:
    """Every site decided, and the plan that follows from it."""

    plan: Plan
    decisions: tuple[Decision, ...]

    def only(self, phases: Collection[int]) -> Analysis:
        """The analysis with the changes of these phases only, on top of the others; all when `phases` is empty."""
        return replace(self, plan=self.plan.only(phases))


def analyse(
    workspace: Workspace,
    *,
    phases: Sequence[int] = (),
    gating: Gating,
    runtime: Runtime,
    leave_unknown: bool = False,
    on_untried: Callable[[], None] = lambda: None,
) -> Analysis:
    """The analysis of a workspace. Raises as `plan_tree`; before that, `on_untried` is called for such a release.

    With `leave_unknown`, sites that nothing decides are no error: the plan does nothing there.

    What plans is imported only when there is something to plan: a run with nothing changed answers at once.
    """
    folder = default_cache() / "plans"
    key = cache.fingerprint(
        workspace.tree, phases=phases, gating=gating.value, runtime=runtime.value, leave_unknown=leave_unknown
    )
    kept = cache.recall(folder, key, workspace.tree)
    if kept is not None:
        plan, decisions, tried = kept
        if not tried:
            on_untried()
        return Analysis(plan, decisions)
    from codegen.plan.build import plan_tree
    from codegen.plan.decide import scan_tree

    if not workspace.tried:
        on_untried()
    terminal.progress(f"planning the changes of Candle {workspace.tree.release}; the plan is kept")
    scan = scan_tree(workspace.tree, workspace.specs, gating=gating)
    plan = plan_tree(
        workspace.tree,
        workspace.specs,
        phases=phases,
        gating=gating,
        runtime=runtime,
        scan=scan,
        leave_unknown=leave_unknown,
    )
    cache.remember(folder, key, plan, scan.decisions, tried=workspace.tried)
    return Analysis(plan, scan.decisions)
