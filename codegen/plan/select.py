"""Which rule speaks about a site: the first that matches, fallback rules last."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.spec.kinds import Gating
    from codegen.spec.model import PhaseSpec, Rule, Selector
    from codegen.syntax.site import Site


@dataclass(frozen=True, slots=True)
class PhasedRule:
    """A rule and the phase whose spec it stands in."""

    rule: Rule
    phase: int


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules that are in force for one release and gating, in the order they are asked."""

    rules: tuple[PhasedRule, ...]

    @classmethod
    def of(cls, phases: Iterable[PhaseSpec], *, applies: Iterable[Rule], gating: Gating) -> RuleBook:
        """The book of the rules in `applies` (those whose version range holds) for the gating."""
        in_range = set(map(id, applies))
        found = [
            PhasedRule(rule, phase.phase)
            for phase in phases
            for rule in phase.rules
            if id(rule) in in_range and rule.gating in (None, gating)
        ]
        return cls(tuple(sorted(found, key=lambda phased: phased.rule.fallback)))

    def find(self, site: Site, crate: str, text: str) -> PhasedRule | None:
        """The first rule that selects the site; `text` is the site's whole text."""
        for phased in self.rules:
            if selects(phased.rule.sites, site, crate, text):
                return phased
        return None


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
    return _pattern(glob).fullmatch(value) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*|\?)", glob)
    table = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(table.get(part, re.escape(part)) for part in parts), re.DOTALL)
