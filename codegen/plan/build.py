"""A tree and the specs in, a frozen plan out. Reads only."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from codegen.candle.release import in_range
from codegen.candle.toml_text import load
from codegen.errors import ForeignBackend, Location, Problem, TemplateInvalid, UsageError
from codegen.plan import cargo, files
from codegen.plan.decide import Scan, refuse_undecided, scan_tree
from codegen.plan.edits import plan_edits
from codegen.plan.model import FileChange, PhaseChanges, Plan
from codegen.plan.text import EditedText, edited, formatted
from codegen.render.rustfmt import format_rust
from codegen.spec.model import Gating
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codegen.candle.tree import CandleTree
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import PhaseSpec

RUSTFMT_CONFIGS = ("rustfmt.toml", ".rustfmt.toml")
"""Where a tree keeps its formatting rules."""

State = dict[str, EditedText]
"""Files that differ from pristine Candle, by path."""


def plan_tree(
    tree: CandleTree,
    specs: LoadedSpecs,
    *,
    phases: Iterable[int] | None = None,
    gating: Gating = Gating.DUMMY,
    scan: Scan | None = None,
) -> Plan:
    """The plan for some phases of a pristine tree (all that are ready by default), in ascending order.

    Raises `UsageError` for a phase that is not ready or lacks one it requires, `UnknownSite` for sites that nothing
    handles, `ForeignBackend` for a tree that has a ROCm backend already, `Conflict` for overlapping edits, and
    `TemplateInvalid` for edits that leave text that is not Rust.
    """
    wanted = phase_specs(specs, phases)
    refuse_foreign_backend(tree)
    scan = scan or scan_tree(tree, specs, gating=gating)
    refuse_undecided(scan, specs)
    states = _States(tree, specs, scan, gating)
    done: list[PhaseChanges] = []
    previous: State = {}
    for index, phase in enumerate(wanted):
        state = states.after([spec.phase for spec in wanted[: index + 1]])
        done.append(PhaseChanges(phase.phase, phase.name, phase.summary, _changes(tree, previous, state)))
        previous = state
    return Plan(tree.release, gating.value, tuple(done))


def phase_specs(specs: LoadedSpecs, phases: Iterable[int] | None) -> tuple[PhaseSpec, ...]:
    """The specs of the phases, ascending; all that are ready when `phases` is None or empty."""
    ready = {spec.phase: spec for spec in specs.phases if spec.applied}
    wanted = sorted(set(phases or ready))
    for number in wanted:
        if number not in ready:
            known = ", ".join(map(str, ready))
            raise UsageError(f"phase {number} cannot be applied in this version", remedy=f"phases that can: {known}")
    for number in wanted:
        missing = [required for required in ready[number].requires if required not in wanted]
        if missing:
            raise UsageError(
                f"phase {number} needs phase {missing[0]}", remedy=f"add --phase {missing[0]}, or apply it first"
            )
    return tuple(ready[number] for number in wanted)


def refuse_foreign_backend(tree: CandleTree) -> None:
    """Raise `ForeignBackend` if pristine sources already name ROCm where a backend would."""
    signs = [crate.manifest for crate in tree.crates if "rocm" in crate.features]
    signs += [
        path for path in ("candle-core/src/rocm_backend/mod.rs", "candle-core/src/rocm_backend.rs") if tree.exists(path)
    ]
    if tree.exists("candle-core/src/device.rs") and b"Rocm(" in tree.read("candle-core/src/device.rs"):
        signs.append("candle-core/src/device.rs")
    if signs:
        raise ForeignBackend(
            f"the tree has a ROCm backend that candle-rocm has no record of: {', '.join(signs)}",
            remedy="start from a tree without it, for example a clean checkout of the release",
        )


def rust_edition(tree: CandleTree) -> str:
    """The Rust edition of the workspace, 2021 where it names none; formatting depends on it."""
    workspace = load(tree.read("Cargo.toml").decode(), "Cargo.toml").get("workspace", {})
    return str(workspace.get("package", {}).get("edition", "2021"))


class _States:
    """What the tree looks like after a set of phases."""

    def __init__(self, tree: CandleTree, specs: LoadedSpecs, scan: Scan, gating: Gating) -> None:
        self.tree = tree
        self.specs = specs
        self.scan = scan
        self.gating = gating
        self._edition = rust_edition(tree)
        self._config = next((tree.root / name for name in RUSTFMT_CONFIGS if tree.exists(name)), None)
        self._formatted: dict[str, str] = {}

    def after(self, phases: Sequence[int]) -> State:
        edits = plan_edits(self.scan, self.specs, phases=phases, gating=self.gating)
        state = {path: edited(self.tree.read(path), own) for path, own in edits.items()}
        for phase in (spec for spec in self.specs.phases if spec.phase in phases):
            ranged = [f for f in phase.files if in_range(self.tree.release, f.since, f.until)]
            state |= files.new_files(self.tree, phase, ranged, self.specs, self.gating)
            state |= cargo.manifests(self.tree, phase, self.specs, state)
        for path in edits:
            source = self.scan.sources.get(path) or Source.parse(path, self.tree.read(path))
            _refuse_new_errors(source, state[path])
        self._format(state)
        return state

    def _format(self, state: State) -> None:
        rust = {path: entry.text for path, entry in state.items() if path.endswith(".rs")}
        todo = {path: text for path, text in rust.items() if text not in self._formatted}
        for path, text in format_rust(todo, edition=self._edition, config=self._config).items():
            self._formatted[todo[path]] = text
        for path, text in rust.items():
            state[path] = formatted(state[path], self._formatted[text])


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


def _refuse_new_errors(pristine: Source, entry: EditedText) -> None:
    """An edit may never add an ERROR node. Said before rustfmt sees the text: we know which rule made which line."""
    after = Source.parse(pristine.path, entry.text.encode())
    errors = after.error_ranges()
    if len(errors) <= len(pristine.error_ranges()):
        return
    start, line, rules = errors[0][0], after.line_of(errors[0][0]), sorted({r.origin.rule for r in entry.regions})
    for region, (offset, _) in product(entry.regions, errors):
        if region.first <= after.line_of(offset) <= region.last:
            start, line, rules = offset, after.line_of(offset), [region.origin.rule]
            break
    raise TemplateInvalid(
        Problem(
            f"the edits of {', '.join(rules)} would leave text that does not parse",
            Location(pristine.path, line, after.column_of(start), after.line_text(start)),
        ),
        remedy="correct the rule's template, or override the site where the text is mirrored",
    )
