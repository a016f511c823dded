"""What `scan` says of a program that uses Candle, as lines and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen import __version__
from codegen.patch.git_format import unified_diff
from codegen.report.json_document import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.plan.program import ProgramPlan, ProgramSite
    from codegen.report.json_document import Document


def program_lines(plan: ProgramPlan) -> Iterator[str]:
    """A line for each site, and one with their numbers."""
    for each in plan.sites:
        site = each.site
        yield f"{site.id} {site.kind} {site.item} -> {_outcome(each)}".replace("  ", " ")
    mirrored, by_hand = sum(bool(each.edits) for each in plan.sites), sum(bool(each.by_hand) for each in plan.sites)
    done, demanded = sum(each.done for each in plan.sites), sum(each.demanded for each in plan.sites)
    counts = f"{mirrored} mirrored by diff, {by_hand} by hand, {done} done"
    yield f"{len(plan.sites)} sites: {counts}; {demanded} that rustc demands"


def program_document(plan: ProgramPlan) -> Document:
    """The same as data."""
    sites = [
        {
            "path": each.site.path,
            "line": each.site.line,
            "column": each.site.column,
            "kind": each.site.kind,
            "item": each.site.item,
            "enums": list(each.site.enums),
            "demanded": each.demanded,
            "mirrored": bool(each.edits),
            "by_hand": each.by_hand or None,
        }
        for each in plan.sites
    ]
    return _document("scan", sites=sites)


def program_diff_document(plan: ProgramPlan) -> Document:
    """The files that `diff` changes, each with its patch."""
    files = [{"path": change.path, "diff": "".join(unified_diff([change], color=False))} for change in plan.changes]
    return _document("diff", files=files)


def _document(command: str, **content: object) -> Document:
    tool = {"name": "candle-rocm", "version": __version__}
    return {"schema_version": SCHEMA_VERSION, "command": command, "tool": tool, "program": True, **content}


def _outcome(each: ProgramSite) -> str:
    if each.done:
        return "done"
    what = "mirrored by diff" if each.edits else f"by hand: {each.by_hand}"
    return f"{what} (does not compile without)" if each.demanded else what
