"""SARIF 2.1.0: undecided sites as errors, sites that are left alone as notes.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from codegen import __version__
from codegen.errors import RenamedVariant
from codegen.plan.model import State
from codegen.report.span import Spans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.errors import Problem, UnknownSite
    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision
    from codegen.report.json_document import Document
    from codegen.report.span import Span

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0.json"
UNKNOWN_RULE = "unhandled-site"
REVIEW_RULE = "mirrored-answer"
ROOT = "%SRCROOT%"


def sarif_log(scan: Scan, decisions: Iterable[Decision], error: UnknownSite | None) -> Document:
    """The log of one run; findings of `error` that have no place are results without a location."""
    spans = Spans(scan.tree.read)
    rules = {
        UNKNOWN_RULE: _rule(UNKNOWN_RULE, "A backend site that no rule handles and no spec leaves alone.", "error")
    }
    results = [_placeless(problem) for problem in error.problems if _has_no_site(problem, error)] if error else []
    for decision in decisions:
        if decision.review:
            rules.setdefault(REVIEW_RULE, _rule(REVIEW_RULE, "Mirrored text that answers as CUDA does.", "note"))
            results.append(_result(decision, spans.of(scan.original(decision.site))))
        if decision.state not in (State.UNKNOWN, State.LEFT):
            continue
        if decision.state is State.LEFT and decision.rule not in rules:
            rules[decision.rule] = _rule(decision.rule, f"Left alone by {decision.rule}.", "note")
        results.append(_result(decision, spans.of(scan.original(decision.site))))
    order = {name: index for index, name in enumerate(rules)}
    for result in results:
        result["ruleIndex"] = order[result["ruleId"]]
    driver = {
        "name": "candle-rocm",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": list(rules.values()),
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}


def _has_no_site(problem: Problem, error: UnknownSite) -> bool:
    """Whether no unknown site says the same."""
    return problem.location is None or isinstance(error, RenamedVariant)


def _rule(name: str, description: str, level: str) -> Document:
    return {"id": name, "shortDescription": {"text": description}, "defaultConfiguration": {"level": level}}


def _result(decision: Decision, span: Span) -> Document:
    site = decision.site
    unknown = decision.state is State.UNKNOWN
    text = decision.review or decision.reason or "left alone"
    where = f"{site.kind} in {site.item or 'the file'}"
    return {
        "ruleId": UNKNOWN_RULE if unknown else REVIEW_RULE if decision.review else decision.rule,
        "level": "error" if unknown else "note",
        "message": {"text": f"{text} ({where})"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(site.path), "uriBaseId": ROOT},
                    "region": {
                        "startLine": span.line,
                        "startColumn": span.column,
                        "endLine": span.end_line,
                        "endColumn": span.end_column,
                        "byteOffset": span.start,
                        "byteLength": span.end - span.start,
                        "snippet": {"text": site.snippet},
                    },
                }
            }
        ],
    }


def _placeless(problem: Problem) -> Document:
    return {"ruleId": UNKNOWN_RULE, "level": "error", "message": {"text": problem.message}}
