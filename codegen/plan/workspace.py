"""What a command works on: a tree seen as pristine, what is applied to it, and the specs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.cache import default_cache
from codegen.candle.tree import open_tree
from codegen.errors import UsageError
from codegen.plan import record as records
from codegen.plan.transaction import recover
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.candle.tree import CandleTree
    from codegen.plan.record import Record
    from codegen.spec.loaded import LoadedSpecs


@dataclass(frozen=True, slots=True)
class Workspace:
    """A Candle tree as the commands see it."""

    root: Path
    tree: CandleTree
    """Pristine: what the applied phases changed is hidden."""
    record: Record | None
    specs: LoadedSpecs

    @property
    def applied(self) -> tuple[int, ...]:
        """Numbers of the applied phases, ascending."""
        return tuple(phase.phase for phase in self.record.phases) if self.record is not None else ()

    @property
    def tried(self) -> bool:
        """Whether the oracles were run on this release."""
        return self.tree.release in {release.version for release in self.specs.candle.releases}


def open_workspace(
    candle: str | Path,
    *,
    offline: bool = False,
    for_writing: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Workspace:
    """Open a folder or a version; an apply that was interrupted is settled first.

    Raises `UsageError` for a version when `for_writing`, `Conflict` for a damaged record, `SpecInvalid` for the specs,
    and as `codegen.candle.tree.open_tree`.
    """
    if for_writing and not Path(candle).is_dir() and str(candle)[:1].isdigit():
        raise UsageError(
            f"the tree of release {candle} in the cache is for reading only",
            remedy=f"make one of your own: candle-rocm fetch {candle} --to DIR",
        )
    if Path(candle).is_dir() and recover(Path(candle)) and progress is not None:
        progress("settled an apply that was interrupted")
    specs = load_specs(cache=default_cache() / "specs")
    tree = open_tree(candle, offline=offline, progress=progress)
    record = records.load_record(tree.root)
    if record is not None:
        tree = tree.with_overlay(record.pristine_overlay(tree.root))
    return Workspace(tree.root, tree, record, specs)
