"""rustc's exhaustive matches against the scan's, site by site."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, UnknownSite
from codegen.verify.oracle import BACKEND_ENUMS, CRATE
from codegen.verify.scratch import ScratchTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codegen.candle.tree import CandleTree
    from codegen.plan.model import Decision
    from codegen.verify.oracle import RustcSite

Place = tuple[str, int]
"""Path relative to the tree, and line from 1."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where the two agree and where not."""

    rustc: int
    scan: int
    expected: int | None
    """What specs/candle.yaml says for the release, None for one that was not tried."""
    only_rustc: tuple[Place, ...]
    """Matches that the scan does not list: it would have skipped them in silence."""
    only_scan: tuple[Place, ...]

    @property
    def agrees(self) -> bool:
        """Whether both list the same matches, as many as the release is known to have."""
        return not self.only_rustc and not self.only_scan and self.expected in (None, self.rustc)

    def __str__(self) -> str:
        """`rustc 52, scan 52 exhaustive matches in candle-core (52 expected): they agree`."""
        expected = "" if self.expected is None else f" ({self.expected} expected)"
        verdict = "they agree" if self.agrees else "they differ"
        return f"rustc {self.rustc}, scan {self.scan} exhaustive matches in {CRATE}{expected}: {verdict}"


def comparison_entry(comparison: Comparison) -> dict[str, object]:
    """The comparison as part of the JSON document of `scan`."""

    def places(found: Iterable[Place]) -> list[dict[str, object]]:
        return [{"path": path, "line": line} for path, line in found]

    return {
        "rustc": comparison.rustc,
        "scan": comparison.scan,
        "expected": comparison.expected,
        "agrees": comparison.agrees,
        "only_rustc": places(comparison.only_rustc),
        "only_scan": places(comparison.only_scan),
    }


def compare(rustc: Iterable[RustcSite], scan: Iterable[Place], expected: int | None) -> Comparison:
    """Compare by path and line; two matches on one line count twice."""
    theirs, ours = Counter((site.file, site.line) for site in rustc), Counter(scan)
    return Comparison(
        rustc=theirs.total(),
        scan=ours.total(),
        expected=expected,
        only_rustc=tuple(sorted((theirs - ours).elements())),
        only_scan=tuple(sorted((ours - theirs).elements())),
    )


def compiled_matches(decisions: Iterable[Decision], features: Mapping[str, tuple[str, ...]]) -> tuple[Place, ...]:
    """The exhaustive matches that the scan lists in candle-core's library and that rustc sees.

    `features` is candle-core's own table; those that `default` does not switch on are off.
    """
    on = _default_features(features)
    return tuple(
        (decision.site.path, decision.site.line)
        for decision in decisions
        if decision.site.kind == "match"
        and decision.site.exhaustive
        and decision.site.path.startswith(f"{CRATE}/src/")
        and any(enum in BACKEND_ENUMS for enum in decision.site.enums)
        and is_compiled(decision.site.gate, on)
    )


def pristine_root(tree: CandleTree, folder: Path) -> Path:
    """A folder with the pristine tree: its own, or a copy below `folder` where phases are applied to it."""
    if not tree.overlay:
        return tree.root
    copy = ScratchTree(folder / tree.release, folder / "owners")
    copy.sync(tree.root, tree.overlay)
    return copy.root


def refuse_disagreement(comparison: Comparison) -> None:
    """Raise `UnknownSite` naming every match that only one of the two lists."""
    if comparison.agrees:
        return
    problems = [Problem(str(comparison))]
    problems += [Problem("rustc demands an arm here; the scan does not list it", _at(p)) for p in comparison.only_rustc]
    problems += [
        Problem("the scan lists an exhaustive match; rustc demands no arm", _at(p)) for p in comparison.only_scan
    ]
    raise UnknownSite(
        problems,
        remedy="a site that only rustc lists needs a construct that codegen/syntax/sites.py does not know yet; "
        "where both agree but not with specs/candle.yaml, correct `exhaustive_matches` there",
    )


def _at(place: Place) -> Location:
    return Location(*place)


def _default_features(features: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    on: set[str] = set()
    todo = ["default"]
    while todo:
        name = todo.pop()
        if name in features and name not in on:
            on.add(name)
            todo += features[name]
    return frozenset(on)


def is_compiled(gate: str, features: frozenset[str]) -> bool:
    """Whether a site with these `cfg` predicates, joined by commas, is part of a library built with `features`.

    What is neither a feature nor `test` (a target, say) counts as switched on.
    """
    tokens = iter([*re.findall(r'[(),=]|"[^"]*"|[^\s(),="]+', gate), ")"])
    return all(_predicates(tokens, features))


def _predicates(tokens: Iterator[str], features: frozenset[str]) -> list[bool]:
    """Values of a comma-separated list up to its closing bracket."""
    values: list[bool] = []
    name = ""
    for token in tokens:
        if token == "(":
            inner = _predicates(tokens, features)
            values.append({"any": any(inner), "not": not all(inner)}.get(name, all(inner)))
            name = ""
        elif token in (",", ")"):
            if name:
                values.append(name != "test")
            name = ""
            if token == ")":
                break
        elif token.startswith('"'):
            values.append(token[1:-1] in features if name == "feature" else True)
            name = ""
        elif token != "=":
            name = token
    return values
