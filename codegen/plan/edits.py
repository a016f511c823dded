"""From decisions to edits: each handled site's verb, applied to the pristine file."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from codegen.errors import Conflict, Location, Problem, UnknownSite
from codegen.paths import templates_dir
from codegen.plan.model import Edit, Origin
from codegen.release import in_range
from codegen.render.environment import render
from codegen.spec.kinds import Gating, Runtime, Verb
from codegen.syntax import python_verbs, verbs
from codegen.syntax.modules import declare_module
from codegen.syntax.source import Source
from codegen.syntax.verbs import CannotMirror, Style, TextEdit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.plan.decide import Scan
    from codegen.plan.decision import Decision
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import ModuleRule, Rule


@dataclass(frozen=True, slots=True)
class EditContext:
    """What an override template under `rust/edits/` may use."""

    cfg: bool
    """True with `--gating cfg`."""
    item: str
    name: str
    function: str
    """The innermost item around the site, `to_vec1` in `Tensor::to_vec1`."""


def plan_edits(
    scan: Scan, specs: LoadedSpecs, *, phases: Iterable[int], gating: Gating, runtime: Runtime = Runtime.ROCM_RS
) -> dict[str, tuple[Edit, ...]]:
    """The edits of every file for a set of phases, by path, in order of position.

    Raises `UnknownSite` where a site's shape does not allow its verb, and `Conflict` where two edits overlap or one
    lies in text that the grammar could not parse.
    """
    wanted = frozenset(phases)
    planner = _Planner(scan, specs, wanted, gating)
    by_path: dict[str, list[Edit]] = {}
    for decision in scan.decisions:
        for edit in planner.edits_of(decision):
            by_path.setdefault(edit.path, []).append(edit)
    for decision in scan.decisions:
        if decision.site.kind == "use" and decision.verb == Verb.MIRROR and decision.lands in wanted:
            own = by_path.setdefault(decision.site.path, [])
            own += planner.imports(decision, "\n".join(edit.text for edit in own))
    for phase in specs.phases:
        for module in phase.modules if phase.phase in wanted else ():
            there = scan.tree.crate_of(module.path) is not None
            chosen = there and module.is_for(runtime) and module.gating in (None, gating)
            if chosen and in_range(scan.tree.release, module.since, module.until):
                by_path.setdefault(module.path, []).append(planner.module(module, phase.phase))
    planner.refuse_failures()
    result = {}
    for path in sorted(by_path):
        edits = tuple(sorted(by_path[path], key=lambda edit: (edit.start, edit.end)))
        _refuse_overlap(edits)
        if edits:
            if path not in scan.python:
                _refuse_inside_errors(planner.source(path), edits)
            result[path] = edits
    return result


class _Planner:
    def __init__(self, scan: Scan, specs: LoadedSpecs, phases: frozenset[int], gating: Gating) -> None:
        self.scan = scan
        self.specs = specs
        self.phases = phases
        self.cfg = gating is Gating.CFG
        self.problems: list[Problem] = []

    def edits_of(self, decision: Decision) -> list[Edit]:
        site = decision.site
        if decision.rule not in self.scan.rules or decision.inside:
            return []
        rule = self.scan.rules[decision.rule].rule
        if rule.verb is Verb.LEAVE or (site.kind == "use" and rule.verb is Verb.MIRROR):
            return []
        style = self._style(rule)
        phase = decision.lands
        try:
            if site.path in self.scan.python:
                made = self._python(decision, rule, style) if decision.lands in self.phases else []
                return self._edits(decision, made, phase)
            source = self.scan.sources[site.path]
            if decision.lands in self.phases:
                made = self._final(source, decision, rule, style)
            elif decision.stand_in in self.phases:
                phase = decision.stand_in
                call = f'{_core_path(decision)}::rocm::not_generated("{site.item}", {decision.phase})'
                made = verbs.stand_in_match(source, site, style, call)
            else:
                return []
        except CannotMirror as error:
            self._fail(decision, str(error))
            return []
        return self._edits(decision, made, phase)

    def _edits(self, decision: Decision, made: Iterable[TextEdit], phase: int | None) -> list[Edit]:
        rule = self.scan.rules[decision.rule].rule
        template = rule.template if phase == decision.lands else None
        origin = Origin(rule.id, self.specs.where(rule.id), phase or 0, template)
        return [Edit(decision.site.path, e.start, e.end, e.text, origin) for e in made]

    def _python(self, decision: Decision, rule: Rule, style: Style) -> list[TextEdit]:
        """Python has no features: its edits are the same in both gatings."""
        source, site = self.scan.python[decision.site.path], decision.site
        match rule.verb:
            case Verb.MIRROR:
                return python_verbs.mirror_python(source, site, style)
            case Verb.OR_IN:
                return python_verbs.or_in_python(source, site, style)
        raise CannotMirror(f"the verb {rule.verb} has no meaning in Python")

    def imports(self, decision: Decision, used: str) -> list[Edit]:
        rule = self.scan.rules[decision.rule].rule
        source = self.scan.sources[decision.site.path]
        try:
            made = verbs.extend_use(source, decision.site, used, self._style(rule))
        except CannotMirror as error:
            self._fail(decision, str(error))
            return []
        origin = Origin(rule.id, self.specs.where(rule.id), decision.lands or 0)
        return [Edit(decision.site.path, e.start, e.end, e.text, origin) for e in made]

    def module(self, rule: ModuleRule, phase: int) -> Edit:
        source = self.source(rule.path)
        try:
            made = declare_module(source, rule.declaration)
        except CannotMirror as error:
            raise UnknownSite(
                Problem(f"rule {rule.id}: {error}", Location(rule.path, 1)), remedy="correct the rule's path"
            ) from error
        return Edit(rule.path, made.start, made.end, made.text, Origin(rule.id, self.specs.where(rule.id), phase))

    def source(self, path: str) -> Source:
        """The parsed file, also when it has no backend site."""
        known = self.scan.sources.get(path)
        return known if known is not None else Source.parse(path, self.scan.tree.read(path))

    def _style(self, rule: Rule) -> Style:
        return Style(
            cfg=self.cfg and not rule.ungated, protected=frozenset(self.specs.candle.protected), replace=rule.replace
        )

    def _final(self, source: Source, decision: Decision, rule: Rule, style: Style) -> list[TextEdit]:
        site = decision.site
        match rule.verb:
            case Verb.OVERRIDE:
                context = EditContext(self.cfg, site.item, site.name, site.item.rpartition("::")[2])
                text = render(rule.template or "", context, root=templates_dir())
                return verbs.insert_override(source, site, text, style)
            case Verb.SWAP:
                return verbs.swap_function(source, site, style)
            case Verb.CHAIN:
                return verbs.chain_condition(source, site, style)
            case Verb.OR_IN:
                return verbs.or_in_condition(source, site, style)
            case Verb.FOREIGN:
                node = source.node_at(site.start, site.end, "match_expression")
                return verbs.foreign_match(source, node, style)
            case Verb.MIRROR if site.kind in ("match", "match-str"):
                return verbs.mirror_match(source, site, style)
            case Verb.MIRROR:
                return verbs.mirror_item(source, site, style)
        raise CannotMirror(f"the verb {rule.verb} has no meaning for a site of kind {site.kind}")

    def _fail(self, decision: Decision, why: str) -> None:
        site = decision.site
        source = self.scan.text_of(site.path)
        line = site.snippet if source is None else source.line_text(site.start)
        where = Location(site.path, site.line, site.column, line)
        self.problems.append(Problem(f"rule {decision.rule} cannot {decision.verb} this {site.kind}: {why}", where))

    def refuse_failures(self) -> None:
        if self.problems:
            raise UnknownSite(self.problems, remedy="override the site in specs/phases/, or leave it with a reason")


def _core_path(decision: Decision) -> str:
    """How candle-core is named where the site stands."""
    if decision.crate != "candle-core":
        return "candle"
    return "crate" if decision.site.path.startswith("candle-core/src/") else "candle_core"


def _refuse_overlap(edits: tuple[Edit, ...]) -> None:
    for first, second in pairwise(edits):
        if second.start < first.end:
            raise Conflict(
                f"{first.path}: edits of {first.origin.rule} and {second.origin.rule} overlap at byte {second.start}",
                remedy="narrow the selector of one of the two rules",
            )


def _refuse_inside_errors(source: Source, edits: tuple[Edit, ...]) -> None:
    ranges = source.error_ranges()
    for edit in edits:
        if any((start < edit.end and edit.start < end) or start < edit.start < end for start, end in ranges):
            line = source.line_of(edit.start)
            raise UnknownSite(
                Problem(
                    f"rule {edit.origin.rule} would edit text that the Rust grammar cannot parse",
                    Location(edit.path, line, source.column_of(edit.start), source.line_text(edit.start)),
                ),
                remedy="leave the site with a reason, or update tree-sitter-rust",
            )
