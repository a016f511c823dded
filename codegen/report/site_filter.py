"""Which sites a user asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import UsageError
from codegen.plan.select import glob_matches
from codegen.spec.kinds import SiteKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.plan.model import Decision


@dataclass(frozen=True, slots=True)
class SiteFilter:
    """All keys given must match; a key matches if one of its members does; an empty key matches all."""

    states: frozenset[str] = frozenset()
    phases: frozenset[int] = frozenset()
    """A site belongs to the phase that writes its final form and to the one that writes its stand-in."""
    kinds: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    """Globs over the path: `*` stops at `/`, `**` does not."""

    @classmethod
    def of(
        cls, *, states: Iterable[str], phases: Iterable[int], kinds: Iterable[str], paths: Iterable[str]
    ) -> SiteFilter:
        """The filter; raises `UsageError` for a kind that no site has."""
        known = {kind.value for kind in SiteKind}
        wanted = frozenset(kinds)
        if wanted - known:
            raise UsageError(
                f"there is no site of kind '{min(wanted - known)}'", remedy=f"kinds are: {', '.join(sorted(known))}"
            )
        return cls(frozenset(states), frozenset(phases), wanted, frozenset(paths))

    @property
    def selects_all(self) -> bool:
        """Whether nothing was asked for."""
        return not (self.states or self.phases or self.kinds or self.paths)

    def select(self, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
        """The decisions that match, in their order."""
        return tuple(decision for decision in decisions if self._matches(decision))

    def _matches(self, decision: Decision) -> bool:
        return (
            (not self.states or decision.state.value in self.states)
            and (not self.phases or bool(self.phases & {decision.lands, decision.stand_in}))
            and (not self.kinds or decision.site.kind in self.kinds)
            and (not self.paths or any(glob_matches(glob, decision.site.path) for glob in self.paths))
        )
