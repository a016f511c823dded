"""The specs of a tree's own, held against the tree: what is wrong with them, and what they say in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import Problem, SpecInvalid, UsageError
from codegen.plan.decide import scan_tree
from codegen.plan.edits import EditPlanner
from codegen.plan.idle import idle_entries
from codegen.spec.kinds import Gating, Verb
from codegen.spec.tree_specs import REMEDY
from codegen.tree_path import TREE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.plan.decide import Scan
    from codegen.spec.loaded import LoadedSpecs, TreeSpecs
    from codegen.workspace.workspace import Workspace


def lint_tree(workspace: Workspace) -> TreeSpecs:
    """The tree's own specs, without findings.

    Raises `SpecInvalid` with all there are, and `UsageError` for a tree that has no specs.
    """
    tree, specs = workspace.tree, workspace.specs
    if specs.tree is None:
        raise UsageError(
            f"the tree has no {TREE_FILE}",
            remedy="`candle-rocm scan CANDLE --suggest` writes a draft, if any site needs one",
        )
    scans = {gating: scan_tree(tree, specs, gating=gating) for gating in Gating}
    decisions = {gating: scan.decisions for gating, scan in scans.items()}
    found = [*idle_entries(tree, specs, decisions), *_refused(scans, specs)]
    if found:
        raise SpecInvalid(found, remedy=f"correct the entry, or remove it from {TREE_FILE}. {REMEDY}")
    return specs.tree


def _refused(scans: Mapping[Gating, Scan], specs: LoadedSpecs) -> Iterator[Problem]:
    """Rules that can do nothing at a site that they decide."""
    assert specs.tree is not None
    rules = {rule.id: rule for _, rule in specs.tree.rules}
    said: set[tuple[str, str]] = set()
    for gating, scan in scans.items():
        planner = EditPlanner(scan, specs, gating=gating)
        for decision in scan.decisions:
            rule = rules.get(decision.rule)
            if rule is None or rule.verb is Verb.LEAVE or decision.inside:
                continue
            why = planner.refusal(decision, rule)
            if why and (rule.id, decision.site.id) not in said:
                said.add((rule.id, decision.site.id))
                message = f"the rule {rule.id} cannot {rule.verb} the {decision.site.kind} at {decision.site.id}: {why}"
                yield Problem(message, specs.tree.places[rule.id])
