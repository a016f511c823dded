"""An explanation for a person, and as a JSON document."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING

from codegen.report.json_document import document, origin_entry
from codegen.report.scan_document import site_entry
from codegen.report.wording import full_item, outcome, site_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.report.explain import Explanation, Generated, SiteExplanation
    from codegen.report.json_document import Document
    from codegen.report.source_line import MadeLine


def explanation_text(explanation: Explanation, *, release: str, applied: bool) -> str:
    """Several paragraphs; `applied` says whether the tree on disk is the patched one."""
    return "\n\n".join("\n".join(lines) for lines in _paragraphs(explanation, release, applied=applied))


def explanation_document(explanation: Explanation, *, release: str, tried: bool, applied: bool) -> Document:
    """The JSON document of `explain`."""
    return document(
        "explain",
        release=release,
        tried=tried,
        applied=applied,
        path=explanation.path,
        line=explanation.line,
        text=explanation.text,
        sites=[
            {
                **site_entry(site.decision, site.span, site.spec),
                "holder": site.holder.site.id if site.holder is not None else None,
                "generated": [_generated_entry(text) for text in site.generated],
            }
            for site in explanation.sites
        ],
        patched=[_generated_entry(text) for text in explanation.patched],
        moved_from=explanation.moved_from,
        notes=list(explanation.notes),
        nearest=[decision.site.id for decision in explanation.nearest],
    )


def source_text(source: str, line: int, made: Sequence[MadeLine]) -> str:
    """What becomes of a line of a template or plain source."""
    if not made:
        return f"{source}:{line} makes nothing in this release, with this gating and runtime"
    lines = [f"{source}:{line} makes"]
    for each in made:
        place = f"{each.path}:{each.first}" if each.first == each.last else f"{each.path}:{each.first}-{each.last}"
        lines.append(f"  {place} (phase {each.phase})")
    return "\n".join(lines)


def source_document(source: str, line: int, made: Sequence[MadeLine], *, release: str, tried: bool) -> Document:
    """The JSON document of `explain` about a template or plain source."""
    return document(
        "explain", release=release, tried=tried, path=source, line=line, makes=[asdict(each) for each in made]
    )


def _paragraphs(explanation: Explanation, release: str, *, applied: bool) -> Iterator[list[str]]:
    place = f"{explanation.path}:{explanation.line}"
    if explanation.text is not None:
        yield [f"{place} in pristine Candle {release}", f"  {explanation.line} | {explanation.text}"]
    for site in explanation.sites:
        yield list(_site(site))
    if not explanation.sites and explanation.text is not None:
        yield ["no backend site covers this line", *(f"  {note}" for note in explanation.notes), *_around(explanation)]
    if explanation.text is None and not explanation.patched:
        yield [f"{place}: pristine Candle {release} has no such line", *_around(explanation)]
    if applied or explanation.text is None:
        yield from _patched(explanation, place, release)


def _patched(explanation: Explanation, place: str, release: str) -> Iterator[list[str]]:
    if explanation.patched:
        lines = [f"{place} in the patched tree"]
        for text in explanation.patched:
            if text.decision is not None:
                lines.append(f"  written for the site {site_line(text.decision)}")
            lines += _text(text)
        yield lines
    elif explanation.moved_from not in (None, explanation.line):
        lines = [f"{place} in the patched tree is line {explanation.moved_from} of pristine Candle {release}"]
        yield [*lines, *(f"  {site_line(decision)}" for decision in explanation.moved_sites)]


def _around(explanation: Explanation) -> Iterator[str]:
    if explanation.nearest:
        yield "nearest sites in this file:"
        yield from (f"  {site_line(decision)}" for decision in explanation.nearest)
    else:
        yield "the file has no backend site"


def _site(site: SiteExplanation) -> Iterator[str]:
    decision, span = site.decision, site.span
    title = f"{decision.site.kind} {full_item(decision.site)}".rstrip()
    yield f"{title}, line {span.line} column {span.column} to line {span.end_line}"
    rows = {
        "state": outcome(decision),
        "rule": f"{decision.rule} ({site.spec})" if site.spec else decision.rule,
        "verb": decision.verb,
        "reason": decision.reason,
        "to review": decision.review,
        "inside": f"the {site.holder.site.kind} at {site.holder.site.id}" if site.holder is not None else "",
        "enums": ", ".join(decision.site.enums),
        "gate": decision.site.gate,
        "exhaustive": "rustc demands an arm for every variant" if decision.site.exhaustive else "",
    }
    width = max(len(key) for key, value in rows.items() if value)
    yield from (f"  {key:<{width}}  {value}" for key, value in rows.items() if value)
    yield from (line for text in site.generated for line in _text(text))


def _text(text: Generated) -> Iterator[str]:
    lines = f"line {text.first}" if text.first == text.last else f"lines {text.first}-{text.last}"
    yield f"  generated, {lines} of the patched file ({text.made_by}):"
    own = text.origin.spec.partition(":")[0]
    yield from (f"  from {source}" for source in text.sources if source != own)
    yield indent(text.text, "  | ", lambda _line: True)


def _generated_entry(text: Generated) -> Document:
    return {
        "path": text.path,
        "first": text.first,
        "last": text.last,
        "text": text.text,
        "sources": list(text.sources),
        "site": text.decision.site.id if text.decision is not None else None,
        **origin_entry(text.origin),
    }
