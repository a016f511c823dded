"""What a command works on: a tree seen as pristine, what is applied to it, and the specs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.reading import read_below
from codegen.candle.tree import CandleTree, open_tree
from codegen.errors import CandleRocmError, Conflict, UsageError
from codegen.paths import default_cache
from codegen.record import record as records
from codegen.record.texts import pristine_overlay
from codegen.record.transaction import recover, require_settled
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime
from codegen.tree_path import RECORD, TREE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from codegen.record.record import Record
    from codegen.spec.loaded import LoadedSpecs


_CONFLICT = re.compile(rb"^<{7} ", re.MULTILINE)
_VERSION = re.compile(rb'^\s*version\s*=\s*"([^"\n]{1,64})"', re.MULTILINE)


@dataclass(frozen=True)
class Workspace:
    """A Candle tree as the commands see it."""

    root: Path
    tree: CandleTree
    """Pristine: what the applied phases changed is hidden."""
    record: Record | None
    settled: bool = False
    """Whether a transaction that was interrupted was brought to its end just now."""
    merged: bool = False
    """Whether the tree says that it is another release than the record: one was merged or checked out under it."""

    @cached_property
    def _own_specs(self) -> LoadedSpecs:
        from codegen.spec.loader import load_specs

        return load_specs(cache=default_cache() / "specs")

    @cached_property
    def specs(self) -> LoadedSpecs:
        """The specs and what the tree's own add, loaded when they are first asked for. Raises `SpecInvalid`."""
        return specs_of(self.tree, self._own_specs)

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
        return self.tree.release in {release.version for release in self._own_specs.candle.releases}

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


def specs_of(tree: CandleTree, specs: LoadedSpecs) -> LoadedSpecs:
    """The specs with those of the tree's own candle-rocm.yaml, if it has one.

    Raises `SpecInvalid` for what is wrong with it, and `InputOutputError` for one that is no plain file.
    """
    if not os.path.lexists(tree.root / TREE_FILE):
        return specs
    from codegen.spec.tree_specs import with_tree_specs

    return with_tree_specs(specs, read_below(tree.root, TREE_FILE))


def open_workspace(
    candle: str | Path,
    *,
    offline: bool = False,
    for_writing: bool = False,
    as_it_is: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Workspace:
    """Open a folder or a version. An apply that was interrupted is settled first when `for_writing`.

    With `as_it_is` the tree is not seen as pristine, and need not be a release that goes with its record.

    Raises `UsageError` for a version when `for_writing`, `Conflict` for a damaged record, for another release than the
    record's and, unless `for_writing`, where an apply was interrupted, and as `codegen.candle.tree.open_tree` and
    `codegen.record.transaction.recover`.
    """
    if for_writing and not Path(candle).is_dir() and str(candle)[:1].isdigit():
        raise UsageError(
            f"the tree of release {candle} in the cache must not be changed",
            remedy=f"make your own copy: candle-rocm fetch {candle} --to DIR",
        )
    settled = False
    if Path(candle).is_dir():
        if for_writing:
            settled = recover(Path(candle))
        else:
            require_settled(Path(candle))
    record = records.load_record(Path(candle)) if Path(candle).is_dir() else None
    if record is None:
        return Workspace(*_opened(open_tree(candle, offline=offline, progress=progress)), None, settled=settled)
    root = Path(candle)
    now = _as_it_is(root)
    named = _release_in_conflict(root, record) if now is None else now.release
    is_merged = named is not None and named != record.header.release
    if as_it_is and now is not None:
        return Workspace(*_opened(now), record, settled=settled, merged=is_merged)
    if named is not None and is_merged:
        if as_it_is:
            raise _unmerged(root)
        raise other_release(root, record, named)
    return Workspace(*_opened(_pristine(root, record)), record, settled=settled)


def _opened(tree: CandleTree) -> tuple[Path, CandleTree]:
    return tree.root, tree


def _as_it_is(root: Path) -> CandleTree | None:
    """The tree with what is applied to it; None where its manifests are broken."""
    try:
        return open_tree(root)
    except CandleRocmError:
        return None


def _release_in_conflict(root: Path, record: Record) -> str | None:
    """Another release than the record's that the manifest names, where a merge left some manifest broken."""
    text = records.text_of(root, "Cargo.toml") or b""
    named = {version.decode("ascii", "replace") for version in _VERSION.findall(text)}
    if record.header.release in named and _CONFLICT.search(text) is None:
        return None
    return min(named - {record.header.release}, default=None)


def _unmerged(root: Path) -> Conflict:
    return Conflict(
        f"a manifest of {root} has a merge conflict with another release that is not resolved",
        remedy="resolve it, or undo the merge (git merge --abort); then run this again",
    )


def other_release(root: Path, record: Record, release: str) -> Conflict:
    """What is raised where the tree is another release than the record."""
    old = record.header.release
    return Conflict(
        f"{root} says that it is Candle {release}, but the applied phases are for {old}: another release was merged "
        "or checked out under the patch",
        remedy="`candle-rocm upgrade` takes the patch to that release, `candle-rocm revert --keep-edits` takes it out "
        f"of the files; or undo the merge; or, if the tree contains no part of the patch any more, delete {RECORD}",
    )


def _pristine(root: Path, record: Record) -> CandleTree:
    """The tree without what is applied to it, even where a manifest that an apply changed was broken by hand since."""
    overlay = pristine_overlay(root, record)
    if any(path.endswith("Cargo.toml") for path in overlay):
        return CandleTree(root, "", ()).with_overlay(overlay)
    return open_tree(root).with_overlay(overlay)
