"""What a command works on: a tree seen as pristine, what is applied to it, and the specs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.tree import CandleTree, open_tree
from codegen.errors import UsageError
from codegen.paths import default_cache
from codegen.plan import record as records
from codegen.plan.transaction import recover, require_settled
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from codegen.plan.record import Record
    from codegen.spec.loaded import LoadedSpecs


@dataclass(frozen=True)
class Workspace:
    """A Candle tree as the commands see it."""

    root: Path
    tree: CandleTree
    """Pristine: what the applied phases changed is hidden."""
    record: Record | None
    settled: bool = False
    """Whether a transaction that was interrupted was brought to its end just now."""

    @cached_property
    def specs(self) -> LoadedSpecs:
        """The specs, loaded when they are first asked for. Raises `SpecInvalid`."""
        from codegen.spec.loader import load_specs

        return load_specs(cache=default_cache() / "specs")

    @property
    def applied(self) -> tuple[int, ...]:
        """Numbers of the applied phases, ascending."""
        return tuple(phase.phase for phase in self.record.phases) if self.record is not None else ()

    def with_applied(self, phases: Collection[int]) -> tuple[int, ...]:
        """The phases to plan when `phases` are asked for on top of what is applied; empty, for all, when none are."""
        return tuple(sorted({*phases, *self.applied})) if phases else ()

    @property
    def tried(self) -> bool:
        """Whether the oracles were run on this release."""
        return self.tree.release in {release.version for release in self.specs.candle.releases}

    def gating(self, named: str | None) -> Gating:
        """The gating that the user named, else the one that is applied, else the default."""
        if named is None and self.record is not None:
            named = self.record.header.gating
        return Gating.DUMMY if named is None else Gating(named)

    def runtime(self, named: str | None) -> Runtime:
        """The runtime that the user named, else the one that is applied, else the default."""
        if named is None and self.record is not None:
            named = self.record.header.runtime
        return DEFAULT_RUNTIME if named is None else Runtime(named)


def open_workspace(
    candle: str | Path,
    *,
    offline: bool = False,
    for_writing: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Workspace:
    """Open a folder or a version. An apply that was interrupted is settled first when `for_writing`.

    Raises `UsageError` for a version when `for_writing`, `Conflict` for a damaged record and, unless `for_writing`,
    where an apply was interrupted, and as `codegen.candle.tree.open_tree` and `codegen.plan.transaction.recover`.
    """
    if for_writing and not Path(candle).is_dir() and str(candle)[:1].isdigit():
        raise UsageError(
            f"the tree of release {candle} in the cache is for reading only",
            remedy=f"make one of your own: candle-rocm fetch {candle} --to DIR",
        )
    settled = False
    if Path(candle).is_dir():
        if for_writing:
            settled = recover(Path(candle))
        else:
            require_settled(Path(candle))
    tree, record = _pristine(candle, offline=offline, progress=progress)
    return Workspace(tree.root, tree, record, settled=settled)


def _pristine(
    candle: str | Path, *, offline: bool, progress: Callable[[str], None] | None
) -> tuple[CandleTree, Record | None]:
    """The tree without what is applied to it, even where a manifest that an apply changed was broken by hand since."""
    record = records.load_record(Path(candle)) if Path(candle).is_dir() else None
    if record is None:
        return open_tree(candle, offline=offline, progress=progress), None
    root = Path(candle)
    overlay = record.pristine_overlay(root)
    if any(path.endswith("Cargo.toml") for path in overlay):
        return CandleTree(root, "", ()).with_overlay(overlay), record
    return open_tree(root).with_overlay(overlay), record
