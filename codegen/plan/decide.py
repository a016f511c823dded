"""What happens at each backend site: the scan's findings joined with the specs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from time import thread_time
from typing import TYPE_CHECKING

from codegen.candle.toml_text import decode
from codegen.errors import InputOutputError, Location, Problem, RenamedVariant, UnknownSite
from codegen.kernels.dtypes import DTYPES
from codegen.plan.choices import REMEDY as CHOICES_REMEDY
from codegen.plan.choices import missing_choices, parsed_once, unanswered
from codegen.plan.cuda_kernels import REMEDY as KERNELS_REMEDY
from codegen.plan.cuda_kernels import KernelBook, kernels_named, may_name_kernels, missing_kernels, unaccounted
from codegen.plan.model import Decision, State
from codegen.plan.select import RuleBook, glob_matches
from codegen.plan.spellings import REMEDY as SPELLINGS_REMEDY
from codegen.plan.spellings import TreeSpellings, renamed_variants, tree_spellings
from codegen.render.element_types import DTYPE
from codegen.spec.kinds import BACKENDS, Early, Gating, SiteKind, Verb
from codegen.syntax.answers import cuda_answers
from codegen.syntax.enum_sites import unexpected_variants
from codegen.syntax.grammar import MOST_SECONDS
from codegen.syntax.python import PythonSource, find_python_sites
from codegen.syntax.site import Site
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source, names_backend_at_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codegen.candle.tree import CandleTree, Crate
    from codegen.plan.choices import Unanswered
    from codegen.plan.select import PhasedRule
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import BackendEnum
    from codegen.syntax.kernel_symbols import KernelSymbol
    from codegen.syntax.source import Text

REMEDY = (
    "decide each site in candle-rocm.yaml at the root of the tree (`candle-rocm scan CANDLE --suggest` writes a "
    "draft), or leave them for later: `apply --leave-unknown`"
)
MOST_NODES = 3_000_000
"""Of the syntax trees that a scan keeps, each some 170 bytes; Candle's have 640,000."""


@dataclass(frozen=True, slots=True)
class _Deadline:
    """When the scan is given up, by this thread's own time: other programs do not count."""

    at: float

    def left(self, path: str) -> float:
        """Seconds until then. Raises `InputOutputError` where there are none, naming the file that is next."""
        left = self.at - thread_time()
        if left <= 0:
            raise InputOutputError(
                f"{path}: the scan has taken more than {MOST_SECONDS:.0f} seconds before it came to this file",
                remedy="remove files that do not belong to Candle",
            )
        return left


@dataclass(frozen=True, slots=True)
class Scan:
    """Every backend site of a tree, decided."""

    tree: CandleTree
    decisions: tuple[Decision, ...]
    sources: Mapping[str, Source]
    """The parsed Rust files that have sites."""
    rules: Mapping[str, PhasedRule]
    python: Mapping[str, PythonSource] = field(default_factory=dict)
    """The parsed Python files that have sites."""
    spellings: TreeSpellings = field(default_factory=lambda: TreeSpellings({}, {}))
    """What the tree calls the variants that it does not call as we do."""
    kernels: int = 0
    """How many of CUDA's kernels for quantized tensors and experts the tree's Rust names."""

    def source(self, path: str) -> Source:
        """A parsed Rust file, also one without a site."""
        known = self.sources.get(path)
        if known is not None:
            return known
        return Source.parse(path, self.tree.read(path), spellings=self.spellings.read_as)

    def original(self, site: Site) -> Site:
        """The site with its offsets in the file as it is."""
        source = self.sources.get(site.path)
        if source is None or source.respelling is None:
            return site
        within = None if site.within is None else source.original(site.within)
        return replace(site, start=source.original(site.start), end=source.original(site.end), within=within)

    def text_of(self, path: str) -> Text | None:
        """A file that has sites, None for a manifest or a whole file."""
        return self.sources.get(path) or self.python.get(path)

    def of_state(self, state: State) -> tuple[Decision, ...]:
        """The decisions in one state."""
        return tuple(decision for decision in self.decisions if decision.state is state)


def scan_tree(tree: CandleTree, specs: LoadedSpecs, *, gating: Gating = Gating.DUMMY) -> Scan:
    """Find every backend site of the tree and decide what happens there. Nothing is written or refused here.

    Raises `NotACandleTree` for a Rust file that is not UTF-8, and `InputOutputError` for what would take too much time
    or memory.
    """
    book = RuleBook.of(specs.phases, release=tree.release, gating=gating, tree=specs.tree)
    decider = _Decider(specs, book)
    decisions: list[Decision] = []
    sources: dict[str, Source] = {}
    nodes, kernels, deadline = 0, 0, _Deadline(thread_time() + MOST_SECONDS)
    spellings = tree_spellings(tree, specs)
    respelled = [name.encode() for name in spellings.read_as]
    for path in tree.rust_files():
        text = tree.read(path)
        if not names_backend_at_all(text) and not any(name in text for name in respelled):
            continue
        foreign = decider.foreign(path)
        if foreign is not None:
            decisions.append(_whole_file(path, len(text), tree.crate_of(path), foreign))
        launches = may_name_kernels(path, text) and decider.has_rocm(path, tree)
        if foreign is not None and not launches:
            continue
        decode(text, path)
        source = Source.parse(path, text, seconds=deadline.left(path), spellings=spellings.read_as)
        nodes += source.root.descendant_count
        if nodes > MOST_NODES:
            raise InputOutputError(
                f"{path}: the sources that name backends are too large to be held all together",
                remedy="remove files that do not belong to Candle",
            )
        crate = tree.crate_of(path)
        found = decider.decide(source, find_sites(source), crate) if foreign is None else []
        found += decider.further_backends(source, found)
        if launches:
            named = kernels_named(source)
            kernels += len(named)
            found += decider.cuda_kernels(source, named, crate)
        if found:
            sources[path] = source
            decisions += found
    python: dict[str, PythonSource] = {}
    for path in tree.python_files():
        deadline.left(path)
        script = _python_source(path, tree.read(path))
        found = decider.decide(script, find_python_sites(script), tree.crate_of(path)) if script is not None else []
        if script is not None and found:
            python[path] = script
            decisions += found
    if types := decider.element_types(tree):
        sources.setdefault(DTYPE, parsed_once(DTYPE, tree.read(DTYPE)))
        decisions += types
    for choice in specs.candle.choices:
        answered = unanswered(choice, tree, sources)
        if answered is not None and answered[1]:
            source, left = answered
            sources.setdefault(choice.file, source)
            decisions += [decider.unanswered(each, source, tree) for each in left]
    for crate in tree.crates:
        decisions += decider.features(crate, tree)
    rules = {phased.rule.id: phased for phased in book.all_rules}
    return Scan(tree, tuple(decisions), sources, rules, python, spellings, kernels)


def _python_source(path: str, text: bytes) -> PythonSource | None:
    """The parsed file if it names a backend at all."""
    if not names_backend_at_all(text):
        return None
    decode(text, path)
    return PythonSource.parse(path, text)


def refuse_unknown(scan: Scan) -> None:
    """Raise `UnknownSite` naming every site that nothing handles and no spec leaves alone, file and line first."""
    problems = []
    for decision in scan.of_state(State.UNKNOWN):
        site = decision.site
        source = scan.text_of(site.path)
        plain = Location(site.path, site.line, site.column, site.snippet)
        where = plain if source is None else source.location(site.start)
        problems.append(Problem(f"{decision.reason} ({site.kind} in {site.item or 'the file'})", where))
    if problems:
        kernels = any(decision.site.kind == SiteKind.CUDA_KERNEL for decision in scan.of_state(State.UNKNOWN))
        raise UnknownSite(problems, remedy=f"{REMEDY}; {KERNELS_REMEDY}" if kernels else REMEDY)


def refuse_renamed(scan: Scan, specs: LoadedSpecs) -> None:
    """Raise `RenamedVariant`, one message, when a release has another name for a variant of its backend enums.

    All sites of that backend are unknown then, and would hide what happened.
    """
    if any(d.site.kind == SiteKind.ENUM for d in scan.of_state(State.UNKNOWN)) or _without_cuda(scan, specs):
        renamed = renamed_variants(scan.tree, specs)
        if renamed is not None:
            raise RenamedVariant(renamed, remedy=SPELLINGS_REMEDY)


def _without_cuda(scan: Scan, specs: LoadedSpecs) -> list[BackendEnum]:
    """The enums of the specs that have no CUDA variant in the tree, whose crate it has."""
    crates = {crate.name for crate in scan.tree.crates}
    found = {(d.crate, d.site.item.split("::")[-1]) for d in scan.decisions if d.site.kind == SiteKind.ENUM}
    return [each for each in specs.candle.enums if each.crate in crates and (each.crate, each.name) not in found]


def missing_enums(tree: CandleTree, specs: LoadedSpecs, scan: Scan) -> None:
    """Raise `UnknownSite` when an enum that the specs name has no CUDA variant in the tree (renamed or moved)."""
    problems = [
        Problem(
            f"Candle {tree.release} has no `enum {enum.name}` with a Cuda variant in {enum.crate} (renamed, or moved?)"
        )
        for enum in _without_cuda(scan, specs)
    ]
    if problems:
        raise UnknownSite(problems, remedy="correct the enum's entry in specs/candle.yaml")


def missing_operations(scan: Scan, specs: LoadedSpecs) -> None:
    """Raise `UnknownSite` when an enum that chooses what is computed is not where the specs say."""
    problems = missing_choices(scan.tree, specs, scan.sources)
    if problems:
        raise UnknownSite(problems, remedy=CHOICES_REMEDY)


def _missing_kernels(scan: Scan, specs: LoadedSpecs) -> None:
    problems = missing_kernels(scan.tree, specs, scan.kernels)
    if problems:
        raise UnknownSite(problems, remedy=KERNELS_REMEDY)


def refuse_undecided(scan: Scan, specs: LoadedSpecs, *, leave_unknown: bool = False) -> None:
    """Raise one `UnknownSite` with everything that is missing, and that `refuse_unknown` (if asked) finds.

    Raises `RenamedVariant` alone where that explains the rest.
    """
    refuse_renamed(scan, specs)
    errors = []
    for check in (
        lambda scan: missing_enums(scan.tree, specs, scan),
        lambda scan: missing_operations(scan, specs),
        lambda scan: _missing_kernels(scan, specs),
        *(() if leave_unknown else (refuse_unknown,)),
    ):
        try:
            check(scan)
        except UnknownSite as error:
            errors.append(error)
    if errors:
        problems = [problem for error in errors for problem in error.problems]
        raise UnknownSite(problems, remedy="; ".join(error.remedy for error in errors))


def _whole_file(path: str, size: int, crate: Crate | None, reason: str) -> Decision:
    """A file that is one backend's own counts as one site."""
    name = path.rsplit("/", 1)[-1]
    site = Site(path, SiteKind.FILE, 0, size, 1, 1, "", name, name)
    return Decision(site, crate.name if crate else "", State.LEFT, "candle.foreign", verb=Verb.LEAVE, reason=reason)


def _line_of_feature(lines: Sequence[str], name: str) -> int:
    """The line of a manifest that begins the feature's entry, 1 where it is spelled in another way."""
    key = re.compile(rf"\s*\"?{re.escape(name)}\"?\s*=")
    in_features = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("["):
            in_features = line.strip() == "[features]"
        elif in_features and key.match(line):
            return number
    return 1


class _Decider:
    """The specs, indexed for one release."""

    def __init__(self, specs: LoadedSpecs, book: RuleBook) -> None:
        self.specs = specs
        self.book = book
        self.backends = {each.name: each.reason for each in specs.tree.spec.backends} if specs.tree else {}
        self.enum_phase = {enum.name: enum.phase for enum in specs.candle.enums}
        self.crates = {crate.name: crate for crate in specs.candle.crates}
        self.kernels = KernelBook.of(specs.candle.cuda_kernels)
        self.feature_rules = [(feature, phase.phase) for phase in specs.phases for feature in phase.cargo.features]

    def foreign(self, path: str) -> str | None:
        """Why the file is one backend's own, or None if it is not."""
        for entry in self.specs.candle.foreign:
            if any(glob_matches(glob, path) for glob in entry.path):
                return entry.reason
        return None

    def decide(self, source: Text, sites: Iterable[Site], crate: Crate | None) -> list[Decision]:
        decided: list[Decision] = []
        by_start: dict[int, Decision] = {}
        for site in sites:
            holder = by_start.get(site.within) if site.within is not None else None
            decision = self._decide(site, crate.name if crate else "", source, holder)
            by_start.setdefault(site.start, decision)
            decided.append(decision)
        return decided

    def further_backends(self, source: Source, found: Sequence[Decision]) -> list[Decision]:
        """A variant of a backend enum that is none of Candle's backends, and what the tree's specs say about it."""
        decided = []
        expected = {(enum.crate, enum.name) for enum in self.specs.candle.enums}
        named = {(d.crate, name): d for d in found if d.site.kind == "enum" and (name := d.site.item.split("::")[-1])}
        for (crate, name), cuda in named.items():
            if (crate, name) not in expected or cuda.state is State.LEFT:
                continue
            for site in unexpected_variants(source, name, BACKENDS, kind=SiteKind.ENUM):
                if site.start == cuda.site.start:
                    continue
                reason = self.backends.get(site.name)
                if reason is not None:
                    rule = "tree.backends"
                    decided.append(Decision(site, crate, State.LEFT, rule, verb=Verb.LEAVE, reason=reason))
                else:
                    reason = f"{name}::{site.name} is a backend that no spec knows"
                    decided.append(Decision(site, crate, State.UNKNOWN, reason=reason))
        return decided

    def has_rocm(self, path: str, tree: CandleTree) -> bool:
        """Whether the file is of a crate that has a ROCm story, or of one that no spec lists."""
        crate = tree.crate_of(path)
        return self._listed(crate.name if crate else "", path) is None

    def cuda_kernels(self, source: Source, named: Iterable[KernelSymbol], crate: Crate | None) -> list[Decision]:
        """What happens at CUDA's kernels whose work nothing of ours does; the others are no sites."""
        name = crate.name if crate else ""
        decided = []
        for symbol in named:
            entry = self.kernels.entry_of(symbol.name)
            if entry is not None and entry.reason is None:
                continue
            site = symbol.site(source, SiteKind.CUDA_KERNEL)
            if entry is not None:
                rule = "candle.cuda-kernels"
                decision = Decision(site, name, State.LEFT, rule, verb=Verb.LEAVE, reason=entry.reason or "")
            else:
                decision = self._decide(site, name, source, None)
                if decision.state is State.UNKNOWN:
                    decision = replace(decision, reason=unaccounted(symbol.name))
            decided.append(decision)
        return decided

    def element_types(self, tree: CandleTree) -> list[Decision]:
        """The variants of `DType` that no kernel computes with: ROCm stores, loads and moves them, if specs say so."""
        if not tree.exists(DTYPE):
            return []
        source = parsed_once(DTYPE, tree.read(DTYPE))
        computed = {dtype.name for dtype in DTYPES}
        crate = tree.crate_of(DTYPE)
        decided = []
        for site in unexpected_variants(source, "DType", (), kind=SiteKind.ELEMENT_TYPE):
            if site.name.lower() in computed:
                continue
            decision = self._decide(site, crate.name if crate else "", source, None)
            if decision.state is State.UNKNOWN:
                reason = (
                    f"no kernel computes with the element type {site.name}, and no spec says that it is only stored"
                )
                decision = replace(decision, reason=reason)
            decided.append(decision)
        return decided

    def unanswered(self, found: Unanswered, source: Source, tree: CandleTree) -> Decision:
        """What happens at a variant that no kernel answers: a spec may leave it alone if ROCm can do without."""
        crate = tree.crate_of(found.site.path)
        name = crate.name if crate else ""
        decision = self._decide(found.site, name, source, None) if found.may_stay else None
        if decision is None or decision.state is State.UNKNOWN:
            return Decision(found.site, name, State.UNKNOWN, reason=found.reason)
        return decision

    def _decide(self, site: Site, crate: str, source: Text, holder: Decision | None) -> Decision:
        listed = self._listed(crate, site.path)
        if listed is not None:
            return Decision(site, crate, State.LEFT, "candle.crates", verb=Verb.LEAVE, reason=listed)
        text = source.slice(site.start, site.end)
        phased = self.book.find(site, crate, text)
        if holder is not None and (phased is None or phased.rule.verb is not Verb.FOREIGN):
            return self._inside(site, crate, holder)
        if phased is None:
            return Decision(site, crate, State.UNKNOWN, reason="no rule handles this site and no spec leaves it alone")
        unnamed = [enum for enum in site.enums if enum not in self.enum_phase]
        if unnamed and phased.rule.verb is not Verb.LEAVE:
            return Decision(site, crate, State.UNKNOWN, reason=f"specs/candle.yaml knows no enum {unnamed[0]}")
        decision = self._by_rule(site, crate, phased)
        if decision.verb == Verb.MIRROR and isinstance(source, Source):
            answers = cuda_answers(source, site)
            return replace(decision, review=f"mirrored with CUDA's {', '.join(answers)}" if answers else "")
        return decision

    def _listed(self, crate: str, path: str) -> str | None:
        """Why the crate has no ROCm story, or None if it has one. Folders of git's workspace count by their top."""
        for name in (crate, path.split("/", 1)[0]):
            entry = self.crates.get(name)
            if entry is not None and not entry.rocm:
                return entry.reason or ""
        return None

    def _inside(self, site: Site, crate: str, holder: Decision) -> Decision:
        if holder.verb == Verb.LEAVE and site.exhaustive and site.enums:
            return Decision(
                site,
                crate,
                State.UNKNOWN,
                reason="an exhaustive match inside code that is left alone would stop compiling",
            )
        reason = f"inside the {holder.site.kind} at line {holder.site.line}"
        return replace(holder, site=site, crate=crate, reason=reason, inside=True, review="")

    def _by_rule(self, site: Site, crate: str, phased: PhasedRule) -> Decision:
        rule, phase = phased.rule, phased.phase
        reason = " ".join((rule.reason or "").split())
        if rule.verb is Verb.LEAVE:
            return Decision(
                site, crate, State.LEFT, rule.id, phase, verb=rule.verb, reason=reason, fallback=rule.fallback
            )
        lands = phase if rule.lands_in is None else rule.lands_in
        stand_in = None
        demanded = self._demanded(site)
        if demanded is not None and demanded < lands:
            if rule.early is Early.STAND_IN:
                stand_in = demanded
            else:
                lands = demanded
        applied = {spec.phase for spec in self.specs.phases if spec.applied}
        state = State.HANDLED if lands in applied else State.PENDING
        return Decision(site, crate, state, rule.id, phase, lands, stand_in, rule.verb, reason, fallback=rule.fallback)

    def _demanded(self, site: Site) -> int | None:
        """The phase whose new variant makes rustc reject the site, or None if it never does."""
        if not site.exhaustive or site.kind != "match":
            return None
        return min((self._variant_lands(enum) for enum in site.enums), default=None)

    def _variant_lands(self, enum: str) -> int:
        phase = self.enum_phase.get(enum, 1)
        for phased in self.book.rules:
            rule = phased.rule
            if rule.lands_in is not None and phased.phase == phase and "enum" in {k.value for k in rule.sites.kind}:
                return rule.lands_in
        return phase

    def features(self, crate: Crate, tree: CandleTree) -> list[Decision]:
        """The Cargo features of a crate that need CUDA: each is a site of its own."""
        lines = tree.read(crate.manifest).decode(errors="replace").splitlines()
        found = []
        for name in sorted(crate.features):
            library = self._cuda_library(name)
            if library is None and name != "cuda" and not any("cuda" in entry for entry in crate.features[name]):
                continue
            number = _line_of_feature(lines, name)
            site = Site(crate.manifest, SiteKind.CARGO_FEATURE, 0, 0, number, 1, "features", name, lines[number - 1])
            found.append(self._feature(site, crate, library))
        return found

    def _cuda_library(self, feature: str) -> str | None:
        """Why the feature has no ROCm namesake, or None if specs/candle.yaml does not list it."""
        for entry in self.specs.candle.cuda_libraries:
            if any(glob_matches(glob, feature) for glob in entry.feature):
                return entry.reason
        return None

    def _feature(self, site: Site, crate: Crate, library: str | None) -> Decision:
        listed = self._listed(crate.name, crate.path)
        if listed is not None:
            return Decision(site, crate.name, State.LEFT, "candle.crates", verb=Verb.LEAVE, reason=listed)
        for feature, phase in self.feature_rules:
            if feature.mirrors == site.name and crate.name not in self.crates:
                reason = "no spec lists this crate, so it gets no feature for ROCm and none of its sites would be built"
                return Decision(site, crate.name, State.UNKNOWN, reason=reason)
            if feature.mirrors == site.name:
                return Decision(site, crate.name, State.HANDLED, feature.id, phase, phase, verb=Verb.MIRROR)
        if library is not None:
            return Decision(site, crate.name, State.LEFT, "candle.cuda-libraries", verb=Verb.LEAVE, reason=library)
        reason = "no phase mirrors this feature, and specs/candle.yaml does not list it under cuda_libraries"
        return Decision(site, crate.name, State.UNKNOWN, reason=reason)
