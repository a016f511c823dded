"""The report for reviewers: one HTML file with the sites, and the diff of every phase with the origin of each hunk.

It needs nothing but itself: own style, own script, no network. jinja2 and pygments are imported when it is made.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.errors import InputOutputError
from codegen.report.compare import compared
from codegen.report.file_diff import file_diff, without_whitespace
from codegen.report.highlight import highlighted
from codegen.report.origin_wording import Authorship
from codegen.report.summary import NO_CRATE, summarise
from codegen.report.wording import full_item, outcome, spec_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.errors import CandleRocmError
    from codegen.patch.changes import FileChange
    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision, Plan
    from codegen.report.file_diff import FileDiff, Hunk
    from codegen.spec.loaded import LoadedSpecs

_PLACE = re.compile(r"(?P<path>(?:specs|templates)/[^\s:]+)(?::(?P<line>[0-9]+))?")
PAGE = Path(__file__).parent / "page"


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A site as the page's table shows it."""

    place: str
    kind: str
    item: str
    crate: str
    state: str
    outcome: str
    phase: int | None
    rule: str
    spec: str | None
    verb: str
    reason: str
    snippet: str
    anchor: str | None
    """Of the file's diff, where the plan has one."""


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One line of a diff; `code` is HTML."""

    mark: str
    old: int | None
    new: int | None
    code: str


@dataclass(frozen=True, slots=True)
class HunkLabel:
    """One origin of a hunk's lines."""

    lines: str
    """`36-39, 55`."""
    rule: str
    spec: str
    source: str


@dataclass(frozen=True, slots=True)
class HunkView:
    """A hunk, its origins first."""

    header: str
    heading: str
    labels: tuple[HunkLabel, ...]
    rows: tuple[CodeRow, ...]


@dataclass(frozen=True, slots=True)
class FileView:
    """A file's diff; `quiet` is the one without whitespace changes where it differs, else None."""

    path: str
    anchor: str
    digest: str
    """Of the change: by it a browser knows what was reviewed."""
    new: bool
    added: int
    removed: int
    hunks: tuple[HunkView, ...]
    quiet: tuple[HunkView, ...] | None


@dataclass(frozen=True, slots=True)
class RuleView:
    """What a rule wrote before, and what it writes now."""

    rule: str
    before: int
    after: int
    files: tuple[FileView, ...]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """All rules that wrote other lines."""

    old: str
    same: int
    """Rules that wrote the same."""
    rules: tuple[RuleView, ...]


@dataclass(frozen=True, slots=True)
class PhaseView:
    """One phase of the plan."""

    phase: int
    name: str
    summary: str
    files: tuple[FileView, ...]

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)


def html_report(
    scan: Scan,
    specs: LoadedSpecs,
    plan: Plan | None,
    *,
    error: CandleRocmError | None = None,
    sources: str = "",
    old: Plan | None = None,
    old_name: str = "",
) -> str:
    """The page. Without a plan (because of `error`) it has no diffs; with an `old` one it says what has changed since.

    `old_name` says what that is, where its release does not. `sources` is where candle-rocm's own files can be looked
    at, such as `https://host/candle-rocm/blob/main`: lines of specs and templates then link there.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    phases = tuple(_phases(plan, Authorship.of(scan.decisions))) if plan is not None else ()
    anchors = {(view.phase, file.path): file.anchor for view in phases for file in view.files}
    sites = [_site(decision, specs, anchors) for decision in scan.decisions]
    return environment.get_template("page.html.j2").render(
        release=scan.tree.release,
        version=__version__,
        tried=scan.tree.release in {release.version for release in specs.candle.releases},
        gating=plan.gating if plan is not None else None,
        runtime=plan.runtime if plan is not None else None,
        summary=summarise(scan, specs.phases),
        error=error,
        sites=sites,
        links=_links(sites, phases, sources) if sources else {},
        comparison=_comparison(old, old_name or old.release, plan) if old is not None and plan is not None else None,
        crates=sorted({site.crate for site in sites}),
        kinds=sorted({site.kind for site in sites}),
        states=list(dict.fromkeys(site.state for site in sites)),
        phases=phases,
        changed_by_whitespace=sum(file.quiet is not None for view in phases for file in view.files),
        style=(PAGE / "page.css").read_text(encoding="utf-8"),
        script=(PAGE / "page.js").read_text(encoding="utf-8"),
    )


def _links(sites: Iterable[SiteRow], phases: Iterable[PhaseView], sources: str) -> dict[str, str]:
    """Addresses of all lines of specs and templates that the page names, by their texts."""
    hunks = (hunk for phase in phases for file in phase.files for hunk in (*file.hunks, *(file.quiet or ())))
    named = {text for hunk in hunks for label in hunk.labels for text in (label.spec, label.source)}
    named |= {site.spec for site in sites if site.spec}
    found = ((text, match) for text in named if (match := _PLACE.fullmatch(text)))
    return {
        text: f"{sources.rstrip('/')}/{match['path']}{f'#L{line}' if (line := match['line']) else ''}"
        for text, match in found
    }


def _site(decision: Decision, specs: LoadedSpecs, anchors: dict[tuple[int, str], str]) -> SiteRow:
    site = decision.site
    written = (phase for phase in (decision.lands, decision.stand_in) if phase is not None)
    return SiteRow(
        place=site.id,
        kind=site.kind,
        item=full_item(site),
        crate=decision.crate or NO_CRATE,
        state=decision.state.value,
        outcome=outcome(decision),
        phase=decision.lands,
        rule=decision.rule,
        spec=spec_line(decision, specs),
        verb=decision.verb,
        reason="; ".join(part for part in (decision.reason, decision.review) if part),
        snippet=site.snippet,
        anchor=next((anchors[phase, site.path] for phase in written if (phase, site.path) in anchors), None),
    )


def _phases(plan: Plan, authorship: Authorship) -> Iterator[PhaseView]:
    for phase in plan.phases:
        files = [
            _file(change, f"phase-{phase.phase}-file-{index}", authorship)
            for index, change in enumerate(phase.changes, 1)
        ]
        yield PhaseView(phase.phase, phase.name, phase.summary, tuple(files))


def _file(change: FileChange, anchor: str, authorship: Authorship) -> FileView:
    diff = file_diff(change)
    quieter = without_whitespace(change)
    quiet = None if quieter.before == change.before else _hunks(file_diff(quieter), authorship)
    return FileView(
        diff.path, anchor, _digest(change), diff.new, diff.added, diff.removed, _hunks(diff, authorship), quiet
    )  # fmt: skip


def _comparison(old: Plan, name: str, new: Plan) -> ComparisonView:
    nobody = Authorship.of(())
    rules = []
    changes, same = compared(old, new)
    for number, each in enumerate(changes, 1):
        files = [_file(change, f"rule-{number}-file-{index}", nobody) for index, change in enumerate(each.files, 1)]
        rules.append(RuleView(each.rule, each.before, each.after, tuple(files)))
    return ComparisonView(name, same, tuple(rules))


def _digest(change: FileChange) -> str:
    digest = hashlib.blake2b(digest_size=12)
    for text in (change.path.encode(), change.before or b"", change.after):
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def _hunks(diff: FileDiff, authorship: Authorship) -> tuple[HunkView, ...]:
    return tuple(
        HunkView(hunk.header, hunk.heading, tuple(_labels(hunk, authorship)), tuple(_rows(diff.path, hunk)))
        for hunk in diff.hunks
    )


def _labels(hunk: Hunk, authorship: Authorship) -> Iterator[HunkLabel]:
    """One label per origin, with all its lines."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for label in hunk.labels:
        key = (label.origin.rule, label.origin.spec, authorship.source(label.origin))
        span = str(label.first) if label.first == label.last else f"{label.first}-{label.last}"
        lines.setdefault(key, []).append(span)
    for (rule, spec, source), spans in lines.items():
        yield HunkLabel(", ".join(spans), rule, spec, source)


def _rows(path: str, hunk: Hunk) -> Iterator[CodeRow]:
    """Each side of the hunk is highlighted on its own: only together do its lines make sense."""
    old = [row for row in hunk.rows if row.old is not None]
    new = [row for row in hunk.rows if row.new is not None]
    codes = {id(row): code for row, code in zip(old, highlighted(path, [row.text for row in old]), strict=True)}
    codes |= {id(row): code for row, code in zip(new, highlighted(path, [row.text for row in new]), strict=True)}
    return (CodeRow(row.mark, row.old, row.new, codes[id(row)]) for row in hunk.rows)


def write_page(out: Path, page: str) -> int:
    """Write the page, whole or not at all, and return its size in bytes. Raises `InputOutputError`."""
    content = page.encode()
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        try:
            draft.write_bytes(content)
            draft.replace(out)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InputOutputError(
            f"cannot write {out}: {error.strerror}", remedy="name a file in a folder that exists and can be written to"
        ) from error
    return len(content)
