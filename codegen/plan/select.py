"""Which rule speaks about a site: the first that matches, fallback rules last."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from codegen.release import in_range
from codegen.spec.tree_model import TreeGlob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codegen.spec.kinds import Gating
    from codegen.spec.loaded import TreeSpecs
    from codegen.spec.model import PhaseSpec, Rule, Selector
    from codegen.spec.tree_model import TreeRule
    from codegen.syntax.site import Site


@dataclass(frozen=True, slots=True)
class PhasedRule:
    """A rule and the phase whose spec it stands in, or that a tree's own rule names."""

    rule: Rule | TreeRule
    phase: int
    of_tree: bool = False


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules that are in force for one release and gating, in the order they are asked."""

    rules: tuple[PhasedRule, ...]
    instead: Mapping[str, tuple[PhasedRule, ...]] = field(default_factory=dict, hash=False)
    """Rules of the tree that decide in place of one of ours, by its id."""

    @classmethod
    def of(
        cls, phases: Iterable[PhaseSpec], *, release: str, gating: Gating, tree: TreeSpecs | None = None
    ) -> RuleBook:
        """The rules that hold for the release and gating: ours, then the tree's, then those for sites unseen."""
        ours = [PhasedRule(rule, phase.phase) for phase in phases for rule in phase.rules]
        theirs = tree_rules(tree)
        found = [phased for phased in (*ours, *theirs) if in_force(phased, release, gating)]
        asked = [phased for phased in found if not _replaced(phased)]
        instead: dict[str, tuple[PhasedRule, ...]] = {}
        for phased in found:
            if replaced := _replaced(phased):
                instead[replaced] = (*instead.get(replaced, ()), phased)
        return cls(tuple(sorted(asked, key=lambda phased: phased.rule.fallback)), instead)

    @property
    def all_rules(self) -> tuple[PhasedRule, ...]:
        """Those too that decide in place of others."""
        return (*self.rules, *(phased for each in self.instead.values() for phased in each))

    def find(self, site: Site, crate: str, text: str) -> PhasedRule | None:
        """The first rule that selects the site; `text` is the site's whole text."""
        found = next((each for each in self.rules if selects(each.rule.sites, site, crate, text)), None)
        if found is None:
            return None
        better = self.instead.get(found.rule.id, ())
        return next((each for each in better if selects(each.rule.sites, site, crate, text)), found)


def tree_rules(tree: TreeSpecs | None) -> tuple[PhasedRule, ...]:
    """The rules of the tree's own specs."""
    return tuple(PhasedRule(rule, phase, of_tree=True) for phase, rule in (tree.rules if tree is not None else ()))


def in_force(phased: PhasedRule, release: str, gating: Gating) -> bool:
    """Whether a rule is for this release and gating."""
    rule = phased.rule
    return in_range(release, rule.since, rule.until) and rule.gating in (None, gating)


def _replaced(phased: PhasedRule) -> str | None:
    return getattr(phased.rule, "instead_of", None)


def selects(selector: Selector, site: Site, crate: str, text: str) -> bool:
    """True if every key that the selector gives matches the site."""
    return (
        selector.metal_only == site.metal_only
        and (not selector.kind or site.kind in {kind.value for kind in selector.kind})
        and (not selector.crate or crate in selector.crate)
        and (not selector.path or any(glob_matches(glob, site.path) for glob in selector.path))
        and (not selector.item or any(glob_matches(glob, site.item) for glob in selector.item))
        and (not selector.name or any(glob_matches(glob, site.name) for glob in selector.name))
        and (not selector.enum or any(enum in selector.enum for enum in site.enums))
        and (not selector.gate or any(glob_matches(glob, site.gate) for glob in selector.gate))
        and (selector.exhaustive is None or selector.exhaustive == site.exhaustive)
        and (selector.text is None or re.search(selector.text, text) is not None)
    )


def glob_matches(glob: str, value: str) -> bool:
    """Shell-like matching of a whole path or item: `*` stops at `/`, `**` does not."""
    if isinstance(glob, TreeGlob):
        return _matches_in_one_pass(glob, value)
    return _pattern(glob).fullmatch(value) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    table = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(table.get(part, re.escape(part)) for part in _parts(glob)), re.DOTALL)


def _parts(glob: str) -> list[str]:
    return re.split(r"(\*\*|\*|\?)", glob)


@lru_cache(maxsize=1 << 15)
def _matches_in_one_pass(glob: str, value: str) -> bool:
    """As the regular expression, in time linear in the value: a glob with many stars would make that one go back."""
    steps = [step for part in _parts(glob) for step in ([part] if part in ("**", "*", "?") else part)]
    stars = {"**", "*"}

    def reached(places: set[int]) -> set[int]:
        """A star may stand for nothing."""
        found = set(places)
        for place in places:
            while place < len(steps) and steps[place] in stars:
                place += 1
                found.add(place)
        return found

    places = reached({0})
    for character in value:
        moved: set[int] = set()
        for place in places:
            step = steps[place] if place < len(steps) else ""
            if step == "**" or (step == "*" and character != "/"):
                moved.add(place)
            elif step == character or (step == "?" and character != "/"):
                moved.add(place + 1)
        places = reached(moved)
        if not places:
            return False
    return len(steps) in places
