"""The specs after loading: the models, and where each entry stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.errors import Location
    from codegen.spec.model import CandleSpec, PhaseSpec, Specs
    from codegen.spec.tree_model import TreeRule, TreeSpec


@dataclass(frozen=True, slots=True)
class TreeSpecs:
    """What a tree's own candle-rocm.yaml says. Its lists are part of `LoadedSpecs.candle` too, behind our entries."""

    spec: TreeSpec
    rules: tuple[tuple[int, TreeRule], ...]
    """Each with the phase that writes it."""
    places: Mapping[str, Location]
    """By the names of `LoadedSpecs.where`, and `protected[0]` and so on."""


@dataclass(frozen=True, slots=True)
class LoadedSpecs:
    """Valid specs."""

    specs: Specs
    lines: Mapping[str, str]
    """`file:line` of every entry; see `where` for the names."""
    tree: TreeSpecs | None = None
    """What the tree at hand adds, if it has a candle-rocm.yaml."""

    @property
    def candle(self) -> CandleSpec:
        """What a backend site looks like."""
        return self.specs.candle

    @property
    def phases(self) -> tuple[PhaseSpec, ...]:
        """All phases in ascending order."""
        return self.specs.phases

    def where(self, name: str) -> str:
        """Where an entry begins, such as `specs/phases/1-core.yaml:42`, relative to the repository.

        `name` is the id of a rule, file or cargo entry, or list and index of an entry of candle.yaml: `foreign[0]`.
        Raises `KeyError` for a name that no spec has.
        """
        return self.lines[name]
