"""How a piece of generated text came about, in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codegen.spec.kinds import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codegen.patch.changes import Origin
    from codegen.plan.model import Decision

_SOURCES = {
    Verb.MIRROR: "mirrored from CUDA",
    Verb.SWAP: "swapped with CUDA",
    Verb.FOREIGN: "derived from the Metal arm",
    Verb.OR_IN: "widened condition",
    Verb.CHAIN: "chained condition",
}


@dataclass(frozen=True, slots=True)
class Authorship:
    """What a scan decided, as far as it says how text is made."""

    verbs: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By rule id."""
    stand_ins: Mapping[tuple[str, int], int] = field(default_factory=dict, hash=False)
    """By rule id and the phase that writes a stand-in: the phase that writes the final form."""

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> Authorship:
        """The authorship of everything that is made at these sites."""
        known = tuple(decisions)
        return cls(
            {decision.rule: decision.verb for decision in known if decision.verb},
            {
                (decision.rule, decision.stand_in): decision.lands
                for decision in known
                if decision.stand_in is not None and decision.lands is not None
            },
        )

    def source(self, origin: Origin) -> str:
        """The template's path, `mirrored from CUDA`, `stand-in until phase 2`, or `the spec entry itself`."""
        if origin.template is not None:
            return f"templates/{origin.template}"
        final = self.stand_ins.get((origin.rule, origin.phase))
        if final is not None:
            return f"stand-in until phase {final}"
        verb = self.verbs.get(origin.rule)
        return _SOURCES.get(Verb(verb), "the spec entry itself") if verb else "the spec entry itself"

    def made_by(self, origin: Origin) -> str:
        """`rule core.dispatch, specs/phases/1-core.yaml:42, mirrored from CUDA`."""
        return f"rule {origin.rule}, {origin.spec}, {self.source(origin)}"
