"""The JSON document of `scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.plan.model import State
from codegen.report.json_document import document, problem_entry
from codegen.report.span import Spans
from codegen.report.wording import spec_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.errors import Problem
    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision
    from codegen.report.json_document import Document
    from codegen.report.span import Span
    from codegen.report.summary import Summary
    from codegen.spec.loaded import LoadedSpecs


def scan_document(
    scan: Scan,
    specs: LoadedSpecs,
    summary: Summary,
    *,
    decisions: Iterable[Decision],
    problems: Iterable[Problem] = (),
    oracle: Document | None = None,
) -> Document:
    """The document; `decisions` are the sites to list, `summary` always speaks about all of them."""
    spans = Spans(scan.tree.read)
    placed = [(decision, spans.of(scan.original(decision.site))) for decision in decisions]
    content = document(
        "scan",
        release=scan.tree.release,
        tried=scan.tree.release in {release.version for release in specs.candle.releases},
        summary=summary_entry(summary),
        problems=[problem_entry(problem) for problem in problems],
        sites=[site_entry(decision, span, spec_line(decision, specs)) for decision, span in placed],
    )
    return content if oracle is None else {**content, "oracle": oracle}


def site_entry(decision: Decision, span: Span, spec: str | None) -> Document:
    """One site: what it is, where, and what is decided."""
    site = decision.site
    return {
        "path": site.path,
        "start": span.start,
        "end": span.end,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "crate": decision.crate,
        "kind": site.kind,
        "item": site.item,
        "name": site.name,
        "snippet": site.snippet,
        "enums": list(site.enums),
        "gate": site.gate,
        "exhaustive": site.exhaustive,
        "metal_only": site.metal_only,
        "within": site.within,
        "state": decision.state.value,
        "rule": decision.rule or None,
        "spec": spec,
        "phase": decision.phase,
        "lands": decision.lands,
        "stand_in": decision.stand_in,
        "verb": decision.verb or None,
        "reason": decision.reason or None,
        "fallback": decision.fallback,
        "review": decision.review or None,
    }


def summary_entry(summary: Summary) -> Document:
    """The numbers, by state, phase, crate and reason."""
    return {
        "total": summary.total,
        "states": {
            State.HANDLED.value: summary.handled,
            State.PENDING.value: summary.pending,
            State.LEFT.value: summary.left,
            State.UNKNOWN.value: summary.unknown,
        },
        "phases": [
            {
                "phase": count.phase,
                "name": count.name,
                State.HANDLED.value: count.handled,
                State.PENDING.value: count.pending,
                "stand_ins": count.stand_ins,
            }
            for count in summary.phases
        ],
        "crates": [
            {
                "crate": count.crate,
                "phases": {
                    str(phase.phase): sites for phase, sites in zip(summary.phases, count.phases, strict=True) if sites
                },
                State.LEFT.value: count.left,
                State.UNKNOWN.value: count.unknown,
            }
            for count in summary.crates
        ],
        "left_alone": [
            {"rule": entry.rule, "reason": entry.reason, "count": entry.count} for entry in summary.left_alone
        ],
    }
