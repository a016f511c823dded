"""What a plan changes, in numbers: the JSON document of `diff`, and its `--stat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.report.file_diff import file_diff
from codegen.report.json_document import document, origin_entry
from codegen.report.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.patch.changes import FileChange
    from codegen.plan.model import Plan
    from codegen.report.json_document import Document


def diff_document(plan: Plan, *, tried: bool) -> Document:
    """Per phase and file: the changed lines, and why they are there."""
    phases = [
        {
            "phase": phase.phase,
            "name": phase.name,
            "summary": phase.summary,
            "files": [_file(change) for change in phase.changes],
        }
        for phase in plan.phases
    ]
    return document("diff", release=plan.release, tried=tried, gating=plan.gating, runtime=plan.runtime, phases=phases)


def stat_lines(changes: Iterable[FileChange]) -> Iterator[str]:
    """`path | +12 -3` per file, and the sum."""
    diffs = [file_diff(change) for change in changes]
    width = max((len(diff.path) for diff in diffs), default=0)
    for diff in diffs:
        yield f"{diff.path:<{width}} | +{diff.added} -{diff.removed}{' (new)' if diff.new else ''}"
    added, removed = sum(diff.added for diff in diffs), sum(diff.removed for diff in diffs)
    new = sum(diff.new for diff in diffs)
    yield f"{plural(len(diffs), 'file')} changed ({new} new), {plural(added, 'line')} added, {removed} removed"


def _file(change: FileChange) -> Document:
    diff = file_diff(change)
    regions = [{"first": r.first, "last": r.last, **origin_entry(r.origin)} for r in change.regions]
    return {"path": diff.path, "new": diff.new, "added": diff.added, "removed": diff.removed, "regions": regions}
