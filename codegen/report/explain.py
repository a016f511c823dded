"""Why a line of Candle is, or is not, touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen.patch.git_format import replacements
from codegen.paths import repository_root
from codegen.plan.edits import plan_edits
from codegen.plan.select import glob_matches
from codegen.report.origin_wording import Authorship
from codegen.report.source_line import source_places
from codegen.report.span import Spans
from codegen.report.spec_entry import KERNELS, kernel_line
from codegen.report.wording import CRATE_RULE, spec_line
from codegen.spec.kinds import Gating, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codegen.patch.changes import Edit, FileChange, Origin, Region
    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision, Plan
    from codegen.report.span import Span
    from codegen.spec.loaded import LoadedSpecs

NEAREST = 3
"""How many sites are named when a line has none."""

WINDOW = 6
"""Lines that are shown before and behind the line, of a text with more than twice as many: a whole new file."""


@dataclass(frozen=True, slots=True)
class Generated:
    """Text that a rule wrote: lines `first..last` of the patched file."""

    path: str
    first: int
    last: int
    text: str
    origin: Origin
    made_by: str
    """The origin in words."""
    decision: Decision | None
    """The site that it was written for; None for a new file."""
    sources: tuple[str, ...] = ()
    """Of a new file: where the line came from, `templates/rust/edits/exports.rs.j2:17`, and the specs behind it."""

    def around(self, line: int) -> Generated:
        """The part of a long text that lies around a line of it."""
        if self.last - self.first <= 2 * WINDOW:
            return self
        first, last = max(self.first, line - WINDOW), min(self.last, line + WINDOW)
        lines = self.text.split("\n")[first - self.first : last - self.first + 1]
        return replace(self, first=first, last=last, text="\n".join(lines))


@dataclass(frozen=True, slots=True)
class SiteExplanation:
    """One site that covers the line."""

    decision: Decision
    span: Span
    spec: str | None
    """`specs/phases/1-core.yaml:42`."""
    holder: Decision | None
    """The site that this one lies inside."""
    generated: tuple[Generated, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known about one line."""

    path: str
    line: int
    text: str | None
    """The line in pristine Candle, None where it has no such line."""
    sites: tuple[SiteExplanation, ...]
    """Sites of the pristine file that cover the line, innermost first."""
    patched: tuple[Generated, ...]
    """What the plan writes at that line of the patched file, smallest first."""
    moved_from: int | None
    """The pristine line that the patched file shows at that line, None where a rule wrote it."""
    moved_sites: tuple[Decision, ...]
    """Sites that cover the line `moved_from`, innermost first."""
    notes: tuple[str, ...]
    """Why the file or crate has no site of its own to tell about."""
    nearest: tuple[Decision, ...]
    """Sites of the same file around the line, when it has none itself."""


class Explainer:
    """Answers for one scan and the plans that were made of it."""

    def __init__(self, scan: Scan, specs: LoadedSpecs, plan: Plan, *, on_disk: Plan | None = None) -> None:
        """`plan` says what is generated; `on_disk`, by default the same, what the patched files look like by now."""
        self._scan = scan
        self._specs = specs
        self._plan = plan
        self._on_disk = plan if on_disk is None else on_disk
        self._authorship = Authorship.of(scan.decisions)
        self._spans = Spans(scan.tree.read)

    def explain(self, path: str, line: int) -> Explanation:
        """What is known about line `line` (from 1) of a file, which pristine Candle or the plan must have."""
        there = [decision for decision in self._scan.decisions if decision.site.path == path]
        own = [replace(decision, site=self._scan.original(decision.site)) for decision in there]
        pristine = self._spans.text(path) if self._scan.tree.exists(path) else None
        lines = pristine.decode(errors="replace").splitlines() if pristine is not None else []
        covering = self._covering(own, line)
        made = self._generated(path, own, self._plan)
        on_disk = made if self._on_disk is self._plan else self._generated(path, own, self._on_disk)
        patched = [
            replace(text.around(line), sources=self._sources(path, line))
            for texts in on_disk.values()
            for text in texts
            if text.first <= line <= text.last
        ]
        moved_from = _pristine_line(_change_of(path, self._on_disk), line) if not patched else None
        return Explanation(
            path,
            line,
            lines[line - 1] if line <= len(lines) else None,
            tuple(self._site(decision, span, own, made) for decision, span in covering),
            tuple(sorted(patched, key=lambda text: (text.last - text.first, text.first))),
            moved_from,
            tuple(decision for decision, _ in self._covering(own, moved_from)) if moved_from is not None else (),
            tuple(self._notes(path, own)),
            () if covering else _nearest(own, line),
        )

    def _sources(self, path: str, line: int) -> tuple[str, ...]:
        change = _change_of(path, self._on_disk)
        if change is None or change.before is not None:
            return ()
        text = change.after.decode(errors="replace")
        places = source_places(text, line, repository_root())
        return tuple(_with_line(place, text, line) if place.startswith(KERNELS) else place for place in places)

    def _covering(self, own: Sequence[Decision], line: int) -> list[tuple[Decision, Span]]:
        """The sites that cover the line, innermost first."""
        spans = [(decision, self._spans.of(decision.site)) for decision in own]
        covering = [(decision, span) for decision, span in spans if span.line <= line <= span.end_line]
        return sorted(covering, key=lambda found: found[1].end - found[1].start)

    def _site(
        self, decision: Decision, span: Span, own: Sequence[Decision], made: dict[int, list[Generated]]
    ) -> SiteExplanation:
        within = decision.site.within
        holder = next((d for d in own if d.site.start == within), None) if within is not None else None
        texts = tuple(made.get(own.index(decision), ()))
        return SiteExplanation(decision, span, spec_line(decision, self._specs), holder, texts)

    def _generated(self, path: str, own: Sequence[Decision], plan: Plan) -> dict[int, list[Generated]]:
        """What a plan writes into a file, by the index of the decision behind it (-1: by none of them)."""
        change = _change_of(path, plan)
        if change is None:
            return {}
        phases = [phase.phase for phase in plan.phases]
        gating, runtime = Gating(plan.gating), Runtime(plan.runtime)
        edits = plan_edits(self._scan, self._specs, phases=phases, gating=gating, runtime=runtime).get(path, ())
        text = change.after.decode(errors="replace").splitlines()
        made: dict[int, list[Generated]] = {}
        for index, region in enumerate(change.regions):
            # A Rust file has one region per edit, in the same order; manifests are not made of edits.
            edit = edits[index] if len(edits) == len(change.regions) else None
            lines = "\n".join(text[region.first - 1 : region.last])
            author = _decided_by(own, region, edit)
            decision = own[author] if author >= 0 else None
            words = self._authorship.made_by(region.origin)
            found = Generated(path, region.first, region.last, lines, region.origin, words, decision)
            made.setdefault(author, []).append(found)
        return made

    def _notes(self, path: str, own: Sequence[Decision]) -> Iterable[str]:
        for index, entry in enumerate(self._specs.candle.foreign):
            if any(glob_matches(glob, path) for glob in entry.path):
                where = self._specs.lines.get(f"foreign[{index}]", "specs/candle.yaml")
                yield f"the file is not scanned: {entry.reason} ({where})"
        crate = self._scan.tree.crate_of(path)
        for index, listed in enumerate(self._specs.candle.crates):
            named = crate is not None and listed.name in (crate.name, path.split("/", 1)[0])
            if named and not listed.rocm and not any(decision.rule == CRATE_RULE for decision in own):
                where = self._specs.lines.get(f"crates[{index}]", "specs/candle.yaml")
                yield f"{listed.name} gets no ROCm: {listed.reason} ({where})"


def _with_line(spec: str, text: str, number: int) -> str:
    """A kernel's spec with the line of the operation that made a line of the kernel's source, if one did."""
    line = kernel_line(spec, text, number)
    return spec if line is None else f"{spec}:{line}"


def _change_of(path: str, plan: Plan) -> FileChange | None:
    return next((change for change in plan.changes if change.path == path), None)


def _pristine_line(change: FileChange | None, line: int) -> int | None:
    """The line of the old file that the new one shows at `line`; None where it is the file's own or there is none."""
    if change is None or change.before is None:
        return None
    before, after = change.before.decode(errors="replace"), change.after.decode(errors="replace")
    shift = 0
    for edit in replacements(before.splitlines(), after.splitlines()):
        if line - 1 < edit.new_start:
            break
        if line - 1 < edit.new_end:
            return None
        shift = edit.new_end - edit.end
    return line - shift if line <= len(after.splitlines()) else None


def _nearest(own: Iterable[Decision], line: int) -> tuple[Decision, ...]:
    nearest = sorted(own, key=lambda decision: (abs(decision.site.line - line), decision.site.line))[:NEAREST]
    return tuple(sorted(nearest, key=lambda decision: decision.site.start))


def _decided_by(own: Sequence[Decision], region: Region, edit: Edit | None) -> int:
    """Index of the decision whose verb wrote the region: of the same rule, and around or before the edit."""
    same = [index for index, decision in enumerate(own) if decision.rule == region.origin.rule]
    if edit is None:
        return same[0] if same else -1
    holding = [i for i in same if own[i].site.start <= edit.start <= own[i].site.end and not own[i].inside]
    if holding:
        return min(holding, key=lambda i: own[i].site.end - own[i].site.start)
    touched = [i for i in same if edit.start <= own[i].site.start < edit.end]
    before = [i for i in same if own[i].site.start <= edit.start and not own[i].inside]
    return touched[0] if touched else max(before, key=lambda i: own[i].site.start, default=-1)
