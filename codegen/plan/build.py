"""A tree and the specs in, a frozen plan out. Reads only."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from codegen.errors import ForeignBackend, Location, Problem, TemplateInvalid, UsageError
from codegen.patch.attributed_text import EditedText, edited, formatted, in_own_line_ends, whole
from codegen.patch.changes import Edit, FileChange, PhaseChanges
from codegen.plan import cargo, files
from codegen.plan.decide import Scan, refuse_undecided, scan_tree
from codegen.plan.edits import EditPlanner
from codegen.plan.model import Plan
from codegen.plan.rust_style import rust_edition, rustfmt_settings
from codegen.release import in_range
from codegen.render.rustfmt import rustfmt_beside
from codegen.spec.folders import is_plain
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime
from codegen.syntax.python import PythonSource
from codegen.syntax.source import Source
from codegen.syntax.spelling import as_spelled
from codegen.tree_path import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from codegen.candle.tree import CandleTree
    from codegen.patch.changes import Origin
    from codegen.render.backend import BackendContext
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import PhaseSpec

BACKEND_FILES = ("candle-core/src/rocm_backend/mod.rs", "candle-core/src/rocm_backend.rs")
"""Where a ROCm backend would be."""

_ROCM_NAME = re.compile(rb"^(?![ \t]*//).*\bRocm", re.MULTILINE)

State = dict[str, EditedText]
"""Files that differ from pristine Candle, by path."""
Edits = tuple[Edit, ...]
"""All edits of one file. Most files have after one phase those that they had after the phase before."""


def plan_tree(
    tree: CandleTree,
    specs: LoadedSpecs,
    *,
    phases: Iterable[int] | None = None,
    gating: Gating = Gating.DUMMY,
    runtime: Runtime = DEFAULT_RUNTIME,
    scan: Scan | None = None,
    leave_unknown: bool = False,
) -> Plan:
    """The plan for some phases of a pristine tree (all that are ready by default), in ascending order.

    With `leave_unknown`, nothing is done at sites that nothing handles.

    Raises `UsageError` for a phase that is not ready or lacks one it requires, `UnknownSite` for sites that nothing
    handles, `ForeignBackend` for a tree that has a ROCm backend already, `Conflict` for overlapping edits, and
    `TemplateInvalid` for edits that leave text that is not Rust.
    """
    wanted = phase_specs(specs, phases)
    scan = scan or scan_tree(tree, specs, gating=gating)
    refuse_foreign_backend(scan)
    refuse_undecided(scan, specs, leave_unknown=leave_unknown)
    states = _States(tree, specs, scan, gating, runtime)
    done: list[PhaseChanges] = []
    previous: State = {}
    for phase, state in zip(wanted, states.after_each(wanted), strict=True):
        done.append(PhaseChanges(phase.phase, phase.name, phase.summary, _changes(tree, previous, state)))
        previous = state
    return Plan(tree.release, gating.value, runtime.value, tuple(done))


def phase_specs(specs: LoadedSpecs, phases: Iterable[int] | None) -> tuple[PhaseSpec, ...]:
    """The specs of the phases, ascending; all that are ready when `phases` is None or empty."""
    ready = {spec.phase: spec for spec in specs.phases if spec.applied}
    wanted = sorted(set(phases or ready))
    for number in wanted:
        if number not in ready:
            known = ", ".join(map(str, ready))
            raise UsageError(f"phase {number} cannot be applied in this version", remedy=f"ready phases: {known}")
    for number in wanted:
        missing = [required for required in ready[number].requires if required not in wanted]
        if missing:
            raise UsageError(
                f"phase {number} needs phase {missing[0]}", remedy=f"add --phase {missing[0]}, or apply it first"
            )
    return tuple(ready[number] for number in wanted)


def refuse_foreign_backend(scan: Scan) -> None:
    """Raise `ForeignBackend` if pristine sources already name ROCm where a backend would."""
    tree = scan.tree
    signs = [crate.manifest for crate in tree.crates if "rocm" in crate.features]
    signs += [path for path in BACKEND_FILES if tree.exists(path)]
    signs += [path for path, source in scan.sources.items() if _names_rocm(source.text)]
    if signs:
        raise ForeignBackend(
            f"the tree has a ROCm backend that candle-rocm has no record of: {', '.join(signs)}",
            remedy=f"if candle-rocm wrote it, restore {RECORD}, which belongs to these files (git log {RECORD}); "
            "else start from a tree without it, for example a clean checkout of the release",
        )


def _names_rocm(text: bytes) -> bool:
    return b"Rocm" in text and _ROCM_NAME.search(text) is not None


class _States:
    """What the tree looks like after a set of phases."""

    def __init__(self, tree: CandleTree, specs: LoadedSpecs, scan: Scan, gating: Gating, runtime: Runtime) -> None:
        self.tree = tree
        self.specs = specs
        self.scan = scan
        self.gating = gating
        self.runtime = runtime
        self._edition = rust_edition(tree)
        self._config = rustfmt_settings(tree)
        self._planner = EditPlanner(scan, specs, gating=gating, runtime=runtime)
        self._whole: State = {}

    @cached_property
    def _backend(self) -> BackendContext:
        return files.backend_of(self.tree)

    def after_each(self, phases: Sequence[PhaseSpec]) -> Iterator[State]:
        """The state after each of the phases, which are applied one after another.

        rustfmt runs beside us: while it reads the edited files of all of them, new files are rendered, and while it
        reads those, the edits are checked.
        """
        edits = [self._planner.edits(phase.phase for phase in phases[:count]) for count in range(1, len(phases) + 1)]
        texts = {made: edited(self.tree.read(path), made) for each in edits for path, made in each.items()}
        paths = {made: made[0].path for made in texts}
        rust = {made: (path, texts[made].text) for made, path in paths.items() if path not in self.scan.python}
        with rustfmt_beside(rust.values(), edition=self._edition, config=self._config) as wishes:
            new = [self._with_whole_files(phase) for phase in phases]
            mirrored = {rule.id for phase in phases for rule in phase.files if rule.mirror is not None}
            with _laid_out(new, mirrored) as laid_out:
                for made, path in paths.items():
                    self._refuse_broken(path, made, texts[made])
                new = laid_out()
            wished = wishes()
        texts |= {made: formatted(texts[made], wished[text]) for made, text in rust.items()}
        for own, others in zip(edits, new, strict=True):
            yield {path: texts[made] for path, made in own.items()} | others

    def _refuse_broken(self, path: str, edits: Edits, entry: EditedText) -> None:
        if path in self.scan.python:
            _refuse_broken_python(path, entry)
            return
        pristine = self.scan.source(path)
        if pristine.respelling is not None:
            pristine = Source.parse(path, pristine.pristine.text)
        changes = [(e.start, e.end, len(e.text.encode())) for e in in_own_line_ends(pristine.text, edits)]
        _refuse_new_errors(pristine, pristine.reparsed(entry.text.encode(), changes), entry)

    def _with_whole_files(self, phase: PhaseSpec) -> State:
        """New files and manifests, with those of the phases before; they do not depend on edits."""
        wanted = [
            rule
            for rule in phase.files
            if rule.is_for(self.runtime)
            and rule.gating in (None, self.gating)
            and in_range(self.tree.release, rule.since, rule.until)
            and self.tree.crate_of(rule.path) is not None
        ]
        if wanted:
            new = files.new_files(self.tree, phase, wanted, self.specs, self.runtime, self._backend, self._whole)
            written = self.scan.spellings.written_as
            new = {path: replace(entry, text=as_spelled(entry.text, written)) for path, entry in new.items()}
            for path, entry in new.items():
                if path.endswith(".rs"):
                    _refuse_new_errors(Source.parse(path, b""), Source.parse(path, entry.text.encode()), entry)
            self._whole |= new
        copies = [rule for rule in phase.copies if in_range(self.tree.release, rule.since, rule.until)]
        self._whole |= files.copied_files(self.tree, phase, copies, self.specs)
        self._whole |= cargo.manifests(self.tree, phase, self.specs, self.runtime, self._whole)
        return dict(self._whole)


@contextmanager
def _laid_out(states: Sequence[State], mirrored: AbstractSet[str]) -> Iterator[Callable[[], list[State]]]:
    """rustfmt at work on the Rust files that templates made, and on those of `mirrored` rules, which were other words.

    What this gives waits for the states with its texts.

    Plain sources have its form where they lie. It is that of the templates, whatever the tree wants of its own files.
    """
    made = {
        (path, entry.text): entry.regions[0].origin
        for state in states
        for path, entry in state.items()
        if path.endswith(".rs") and (_is_rendered(entry.regions[0].origin) or entry.regions[0].origin.rule in mirrored)
    }
    with rustfmt_beside(made) as wishes:

        def result() -> list[State]:
            texts = {text: whole(wished, made[text]) for text, wished in wishes().items()}
            return [{path: texts.get((path, entry.text), entry) for path, entry in state.items()} for state in states]

        yield result


def _is_rendered(origin: Origin) -> bool:
    return origin.template is not None and not is_plain(origin.template)


def _changes(
    tree: CandleTree, previous: Mapping[str, EditedText], state: Mapping[str, EditedText]
) -> tuple[FileChange, ...]:
    found = []
    for path in sorted(state):
        after = state[path].text.encode()
        if path in previous:
            before: bytes | None = previous[path].text.encode()
        else:
            before = tree.read(path) if tree.exists(path) else None
        if before != after:
            found.append(FileChange(path, before, after, state[path].regions))
    return tuple(found)


def _refuse_broken_python(path: str, entry: EditedText) -> None:
    """An edit may never leave text that is not Python; what gets edits was Python before."""
    after = PythonSource.parse(path, entry.text.encode())
    if after.tree is None:
        rules = sorted({region.origin.rule for region in entry.regions})
        raise TemplateInvalid(
            Problem(f"the edits of {', '.join(rules)} would leave text that is not Python", Location(path, 1)),
            remedy="leave the site alone with a reason if the text is mirrored",
        )


def _refuse_new_errors(pristine: Source, after: Source, entry: EditedText) -> None:
    """An edit may never add an ERROR node. Said before rustfmt sees the text: we know which rule made which line."""
    errors = after.error_ranges()
    if len(errors) <= len(pristine.error_ranges()):
        return
    start, rules = errors[0][0], sorted({r.origin.rule for r in entry.regions})
    for region, (offset, _) in product(entry.regions, errors):
        if region.first <= after.line_of(offset) <= region.last:
            start, rules = offset, [region.origin.rule]
            break
    raise TemplateInvalid(
        Problem(
            f"the edits of {', '.join(rules)} would leave text that does not parse",
            replace(after.location(start), file=pristine.path),
        ),
        remedy="correct the rule's template, or use override at the site if the text is mirrored",
    )
