"""The numbers of a scan: by phase, by crate, and what is left alone for which reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.plan.model import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision
    from codegen.spec.model import PhaseSpec

NO_CRATE = "(no crate)"


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """The sites whose final form one phase writes."""

    phase: int
    name: str
    handled: int
    pending: int
    stand_ins: int
    """Sites of later phases that this one writes a typed error at."""

    def __str__(self) -> str:
        """`phase 1 core: 92 handled, 3 stand-ins`."""
        parts = [f"{self.handled} handled"] if self.handled or not self.pending else []
        parts += [f"{self.pending}, not applied"] if self.pending else []
        parts += [f"{self.stand_ins} stand-in{'s' * (self.stand_ins != 1)}"] if self.stand_ins else []
        return f"phase {self.phase} {self.name}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class CrateCount:
    """The sites of one crate."""

    crate: str
    phases: tuple[int, ...]
    """Per phase of `Summary.phases`, in the same order."""
    left: int
    unknown: int

    @property
    def total(self) -> int:
        return sum(self.phases) + self.left + self.unknown


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Sites that one spec entry leaves alone."""

    rule: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A scan in numbers."""

    phases: tuple[PhaseCount, ...]
    crates: tuple[CrateCount, ...]
    """In alphabetical order; crates without a site are not there."""
    left_alone: tuple[LeftAlone, ...]
    """Most sites first."""
    handled: int
    pending: int
    left: int
    unknown: int

    @property
    def total(self) -> int:
        return self.handled + self.pending + self.left + self.unknown

    def __str__(self) -> str:
        """The closing line: `294 sites: 97 handled, 99 not applied, 98 left alone, 0 unknown`."""
        counts = ((self.handled, State.HANDLED), (self.pending, State.PENDING), (self.left, State.LEFT))
        known = ", ".join(f"{count} {state.value}" for count, state in counts)
        noun = "site" if self.total == 1 else "sites"
        return f"{self.total} {noun}: {known}, {self.unknown} {State.UNKNOWN.value}"


def summarise(scan: Scan, phases: Sequence[PhaseSpec]) -> Summary:
    """The numbers of a scan; `phases` are all that the specs have."""
    decisions = scan.decisions
    states = Counter(decision.state for decision in decisions)
    landing = Counter((decision.lands, decision.state) for decision in decisions)
    stand_ins = Counter(decision.stand_in for decision in decisions)
    counts = tuple(
        PhaseCount(
            spec.phase,
            spec.name,
            landing[spec.phase, State.HANDLED],
            landing[spec.phase, State.PENDING],
            stand_ins[spec.phase],
        )
        for spec in phases
    )
    return Summary(
        phases=counts,
        crates=_by_crate(decisions, [spec.phase for spec in phases]),
        left_alone=_left_alone(scan),
        handled=states[State.HANDLED],
        pending=states[State.PENDING],
        left=states[State.LEFT],
        unknown=states[State.UNKNOWN],
    )


def _by_crate(decisions: Iterable[Decision], phases: Sequence[int]) -> tuple[CrateCount, ...]:
    counts: dict[str, Counter[int | State]] = {}
    for decision in decisions:
        settled = decision.state in (State.LEFT, State.UNKNOWN) or decision.lands is None
        column = decision.state if settled else decision.lands
        assert column is not None
        counts.setdefault(decision.crate or NO_CRATE, Counter())[column] += 1
    return tuple(
        CrateCount(crate, tuple(count[phase] for phase in phases), count[State.LEFT], count[State.UNKNOWN])
        for crate, count in sorted(counts.items())
    )


def _left_alone(scan: Scan) -> tuple[LeftAlone, ...]:
    """Sites inside one that is left alone count with it: their own reason names the holder's line only."""
    counts = Counter((d.rule, _reason(d, scan)) for d in scan.of_state(State.LEFT))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(LeftAlone(rule, reason, count) for (rule, reason), count in ordered)


def _reason(decision: Decision, scan: Scan) -> str:
    phased = scan.rules.get(decision.rule)
    own = phased.rule.reason if phased is not None else None
    return " ".join(own.split()) if own else decision.reason
