"""A Candle release with all phases that can be applied, for benchmarks to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codegen.candle.tree import CandleTree
    from codegen.verify.patched_tree import Subject


def patched(release: str) -> tuple[CandleTree, Subject]:
    """The release's own tree, and what the phases make of it."""
    from codegen.plan.build import plan_tree
    from codegen.verify.patched_tree import Subject
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(release)
    gating, runtime = workspace.gating(None), workspace.runtime(None)
    plan = plan_tree(workspace.tree, workspace.specs, gating=gating, runtime=runtime)
    return workspace.tree, Subject.of_plan(workspace.root, plan)
