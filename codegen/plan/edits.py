"""From decisions to edits: each handled site's verb, applied to the pristine file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from codegen.errors import Conflict, Location, Problem, UnknownSite
from codegen.patch.changes import Edit, Origin
from codegen.release import in_range
from codegen.render.new_file import override_text
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime, SiteKind, Verb
from codegen.spec.tree_model import TreeRule
from codegen.syntax import python_verbs, verbs
from codegen.syntax.modules import declare_module
from codegen.syntax.source import Source
from codegen.syntax.spelling import as_spelled
from codegen.syntax.statements import insert_statement
from codegen.syntax.verbs import CannotMirror, Style, TextEdit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import ModuleRule, Rule


MOST_WRITTEN = 16 << 20
"""Bytes that the overrides of a tree's own specs may write."""
REMEDY = (
    "override the site, or leave it with a reason: in candle-rocm.yaml of the tree, where `instead_of` names a rule of "
    "candle-rocm's that is wrong there"
)


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
    scan: Scan, specs: LoadedSpecs, *, phases: Iterable[int], gating: Gating, runtime: Runtime = DEFAULT_RUNTIME
) -> dict[str, tuple[Edit, ...]]:
    """The edits of every file for a set of phases, by path, in order of position.

    Raises `UnknownSite` where a site's shape does not allow its verb, and `Conflict` where two edits overlap or one
    lies in text that the grammar could not parse.
    """
    return EditPlanner(scan, specs, gating=gating, runtime=runtime).edits(phases)


class EditPlanner:
    """The edits of a scan for several sets of phases; what a site gets in a phase is made once for all of them."""

    def __init__(self, scan: Scan, specs: LoadedSpecs, *, gating: Gating, runtime: Runtime = DEFAULT_RUNTIME) -> None:
        self.scan = scan
        self.specs = specs
        self.gating = gating
        self.runtime = runtime
        self.cfg = gating is Gating.CFG
        self.problems: list[Problem] = []
        self._written = 0
        self._made: dict[tuple[Decision, int], list[Edit]] = {}

    def edits(self, phases: Iterable[int]) -> dict[str, tuple[Edit, ...]]:
        """As `plan_edits`."""
        wanted = frozenset(phases)
        by_path: dict[str, list[Edit]] = {}
        for decision in self.scan.decisions:
            for edit in self._edits_of(decision, wanted):
                by_path.setdefault(edit.path, []).append(edit)
        for decision in self.scan.decisions:
            if decision.site.kind == "use" and decision.verb == Verb.MIRROR and decision.lands in wanted:
                own = by_path.setdefault(decision.site.path, [])
                own += self._imports(decision, "\n".join(edit.text for edit in own))
        for edit in chain(self._modules(wanted), self._statements(wanted)):
            by_path.setdefault(edit.path, []).append(edit)
        if self.problems:
            raise UnknownSite(self.problems, remedy=REMEDY)
        return {path: self._in_order(path, by_path[path]) for path in sorted(by_path) if by_path[path]}

    def _in_order(self, path: str, made: Iterable[Edit]) -> tuple[Edit, ...]:
        edits = tuple(sorted(made, key=lambda edit: (edit.start, edit.end)))
        _refuse_overlap(edits)
        if path in self.scan.python:
            return edits
        source = self.scan.source(path)
        _refuse_inside_errors(source, edits)
        return tuple(self._as_spelled(source, edit) for edit in edits) if self.scan.spellings.written_as else edits

    def _as_spelled(self, source: Source, edit: Edit) -> Edit:
        """The edit at the offsets of the file as it is, with the variants that the tree calls otherwise."""
        text = as_spelled(edit.text, self.scan.spellings.written_as, inside=source.type_around(edit.start))
        return replace(edit, start=source.original(edit.start), end=source.original(edit.end), text=text)

    def _edits_of(self, decision: Decision, phases: frozenset[int]) -> list[Edit]:
        """What the site gets in the last of the phases that has something for it."""
        if decision.inside or decision.rule not in self.scan.rules:
            return []
        rule = self.scan.rules[decision.rule].rule
        if rule.verb is Verb.LEAVE or (decision.site.kind == "use" and rule.verb is Verb.MIRROR):
            return []
        phase = next((each for each in (decision.lands, decision.stand_in) if each in phases), None)
        if phase is None:
            return []
        if (decision, phase) not in self._made:
            self._made[decision, phase] = self._make(decision, rule, phase)
        return self._made[decision, phase]

    def _make(self, decision: Decision, rule: Rule | TreeRule, phase: int) -> list[Edit]:
        site, style = decision.site, self._style(rule)
        try:
            if site.path in self.scan.python:
                made = self._python(decision, rule, style) if phase == decision.lands else []
            elif phase == decision.lands:
                made = self._final(self.scan.sources[site.path], decision, rule, style)
            else:
                call = f'{_core_path(decision)}::rocm::not_generated("{site.item}", {decision.phase})'
                made = verbs.stand_in_match(self.scan.sources[site.path], site, style, call)
        except CannotMirror as error:
            self._fail(decision, str(error))
            return []
        return self._edits(decision, made, phase)

    def refusal(self, decision: Decision, rule: TreeRule) -> str | None:
        """Why the rule could do nothing at the site, or would leave text that does not parse; None if it could."""
        site, style = decision.site, self._style(rule)
        try:
            if site.path in self.scan.python:
                return None if self._python(decision, rule, style) else "nothing would be written"
            source = self.scan.sources[site.path]
            if site.kind == "use" and rule.verb is Verb.MIRROR:
                verbs.extend_use(source, site, "", style)
                return None
            made = self._final(source, decision, rule, style)
        except CannotMirror as error:
            return str(error)
        except KeyError:  # a manifest, or a whole file
            return "it is not part of a source"
        after = Source.parse(site.path, verbs.apply_edits(source.text, made).encode())
        return "the text would not parse" if len(after.error_ranges()) > len(source.error_ranges()) else None

    def _edits(self, decision: Decision, made: Iterable[TextEdit], phase: int | None) -> list[Edit]:
        rule = self.scan.rules[decision.rule].rule
        template = getattr(rule, "template", None) if phase == decision.lands else None
        origin = Origin(rule.id, self.specs.where(rule.id), phase or 0, template)
        return [Edit(decision.site.path, e.start, e.end, e.text, origin) for e in made]

    def _python(self, decision: Decision, rule: Rule | TreeRule, style: Style) -> list[TextEdit]:
        """Python has no features: its edits are the same in both gatings."""
        source, site = self.scan.python[decision.site.path], decision.site
        match rule.verb:
            case Verb.MIRROR:
                return python_verbs.mirror_python(source, site, style)
            case Verb.OR_IN:
                return python_verbs.or_in_python(source, site, style)
        raise CannotMirror(f"the verb {rule.verb} has no meaning in Python")

    def _imports(self, decision: Decision, used: str) -> list[Edit]:
        rule = self.scan.rules[decision.rule].rule
        source = self.scan.sources[decision.site.path]
        try:
            made = verbs.extend_use(source, decision.site, used, self._style(rule))
        except CannotMirror as error:
            self._fail(decision, str(error))
            return []
        origin = Origin(rule.id, self.specs.where(rule.id), decision.lands or 0)
        return [Edit(decision.site.path, e.start, e.end, e.text, origin) for e in made]

    def _modules(self, phases: frozenset[int]) -> Iterator[Edit]:
        for phase in self.specs.phases:
            for module in phase.modules if phase.phase in phases else ():
                there = self.scan.tree.crate_of(module.path) is not None
                chosen = there and module.is_for(self.runtime) and module.gating in (None, self.gating)
                if chosen and in_range(self.scan.tree.release, module.since, module.until):
                    yield self._module(module, phase.phase)

    def _module(self, rule: ModuleRule, phase: int) -> Edit:
        source = self.scan.source(rule.path)
        try:
            made = declare_module(source, rule.declaration)
        except CannotMirror as error:
            raise UnknownSite(
                Problem(f"rule {rule.id}: {error}", Location(rule.path, 1)), remedy="correct the rule's path"
            ) from error
        return Edit(rule.path, made.start, made.end, made.text, Origin(rule.id, self.specs.where(rule.id), phase))

    def _statements(self, phases: frozenset[int]) -> Iterator[Edit]:
        for phase in self.specs.phases:
            for rule in phase.statements if phase.phase in phases else ():
                if in_range(self.scan.tree.release, rule.since, rule.until):
                    for path in filter(self.scan.tree.exists, rule.path):
                        source = self.scan.source(path)
                        made = insert_statement(source, rule.function, rule.before, rule.statement, rule.tails)
                        if made is not None:
                            origin = Origin(rule.id, self.specs.where(rule.id), phase.phase)
                            yield Edit(path, made.start, made.end, made.text, origin)

    def _style(self, rule: Rule | TreeRule) -> Style:
        return Style(
            cfg=self.cfg and not rule.ungated, protected=frozenset(self.specs.candle.protected), replace=rule.replace
        )

    def _final(self, source: Source, decision: Decision, rule: Rule | TreeRule, style: Style) -> list[TextEdit]:
        site = decision.site
        match rule.verb:
            case _ if site.kind == SiteKind.ELEMENT_TYPE:
                raise CannotMirror("ROCm can only store it; `leave` says so")
            case _ if site.kind == SiteKind.OPERATION:
                raise CannotMirror("a kernel has to answer it; `leave` says that ROCm does without")
            case _ if site.kind == SiteKind.CUDA_KERNEL:
                raise CannotMirror("an operation has to do its work; `leave` says that ROCm does without")
            case Verb.OVERRIDE if isinstance(rule, TreeRule):
                self._bounded(len(rule.text or ""))
                return verbs.insert_override(source, site, rule.text or "", style)
            case Verb.OVERRIDE:
                context = EditContext(self.cfg, site.item, site.name, site.item.rpartition("::")[2])
                text = override_text(getattr(rule, "template", None) or "", context)
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

    def _bounded(self, length: int) -> None:
        """A short text of a tree's own may be written at very many sites."""
        self._written += length
        if self._written > MOST_WRITTEN:
            raise CannotMirror(f"the tree's own rules would write more than {MOST_WRITTEN >> 20} MiB")

    def _fail(self, decision: Decision, why: str) -> None:
        site = decision.site
        source = self.scan.text_of(site.path)
        plain = Location(site.path, site.line, site.column, site.snippet)
        where = plain if source is None else source.location(site.start)
        self.problems.append(Problem(f"rule {decision.rule} cannot {decision.verb} this {site.kind}: {why}", where))


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
            raise UnknownSite(
                Problem(
                    f"rule {edit.origin.rule} would edit text that the Rust grammar cannot parse",
                    source.location(edit.start),
                ),
                remedy="leave the site alone with a reason, or update tree-sitter-rust",
            )
