"""The comparison of public items as lines, as JSON and as the page docs/parity.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.report.json_document import SCHEMA_VERSION, document, problem_entry
from codegen.report.parity import State
from codegen.report.wording import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from codegen.report.json_document import Document
    from codegen.report.parity import Compared, Row

DOCUMENTED = "docs/parity.md"
"""Made by `candle-rocm parity --markdown` for all tested releases."""
TEMPLATE = "docs/parity.md.j2"


@dataclass(frozen=True, slots=True)
class Merged:
    """An item that several releases have with the same answer."""

    row: Row
    """As in the newest of them."""
    releases: str
    """`from 0.9.2`, `to 0.11.0`; empty where all have it."""

    @property
    def counterparts(self) -> tuple[str, ...]:
        """Paths on ROCm's side."""
        return self.row.counterparts


def merged(releases: Sequence[Compared]) -> tuple[Merged, ...]:
    """The items of all releases, which are given in ascending order; sorted by path."""
    having: dict[tuple[str, str, State, tuple[str, ...], str], list[tuple[int, Row]]] = {}
    for number, compared in enumerate(releases):
        for row in compared.rows:
            key = (row.item.path, row.item.kind, row.state, row.counterparts, row.note)
            having.setdefault(key, []).append((number, row))
    names = [compared.release for compared in releases]
    found = [Merged(rows[-1][1], _span(names, [number for number, _ in rows])) for _, rows in having.items()]
    return tuple(sorted(found, key=lambda each: (each.row.item.path, each.row.item.kind)))


def _span(names: Sequence[str], having: Sequence[int]) -> str:
    """Which releases these are, in words."""
    first, last = having[0], having[-1]
    if len(having) != last - first + 1:
        return ", ".join(names[number] for number in having)
    if len(having) == len(names):
        return ""
    if first == last:
        return names[first]
    if last == len(names) - 1:
        return f"from {names[first]}"
    return f"to {names[last]}" if first == 0 else f"{names[first]} to {names[last]}"


def parity_lines(releases: Sequence[Compared], states: Collection[State] = ()) -> Iterator[str]:
    """A line for each item in one of the states (all when none is given), then one for each release."""
    for each in merged(releases):
        if not states or each.row.state in states:
            yield _line(each)
    for compared in releases:
        yield f"Candle {compared.release}: {_sum(compared)}"


def _line(each: Merged) -> str:
    row = each.row
    where = f" ({each.releases})" if each.releases else ""
    said = "; ".join(part for part in (", ".join(row.counterparts), row.note) if part)
    return f"{row.item.path}{where}: {row.state.value}: {said}"


def _sum(compared: Compared) -> str:
    counts = (
        f"{compared.count(state)} {state.value}" for state in State if compared.count(state) or state is State.SAME
    )
    used = len(compared.missing_in_use)
    waiting = f" ({used} in use)" if used else ""
    return f"{plural(len(compared.rows), 'public item')} of CUDA's side: {', '.join(counts)}{waiting}"


def release_document(compared: Compared, states: Collection[State] = (), *, tried: bool) -> Document:
    """The document about one release."""
    return document("parity", release=compared.release, tried=tried, **_content(compared, states))


def releases_document(releases: Iterable[Compared], states: Collection[State] = ()) -> Document:
    """The document about all tested releases."""
    entries = [{"release": compared.release, **_content(compared, states)} for compared in releases]
    return {"schema_version": SCHEMA_VERSION, "command": "parity", "releases": entries}


def _content(compared: Compared, states: Collection[State]) -> Document:
    return {
        "counts": {state.value: compared.count(state) for state in State},
        "items": [_entry(row) for row in compared.rows if not states or row.state in states],
        "problems": [problem_entry(problem) for problem in (*compared.unanswered, *compared.stale)],
    }


def _entry(row: Row) -> Document:
    item, place = row.item, row.item.location
    return {
        "item": item.path,
        "kind": item.kind,
        "paths": list(item.paths),
        "signature": item.signature,
        "path": place.file,
        "line": place.line,
        "state": row.state.value,
        "rocm": list(row.counterparts),
        "note": row.note,
        "programs": row.uses,
    }


def parity_page(releases: Sequence[Compared]) -> str:
    """The page about some releases, in ascending order."""
    from codegen.render.environment import render

    rows = merged(releases)
    crates = list(dict.fromkeys(each.row.item.path.partition("::")[0] for each in rows))
    content = {
        "crates": crates,
        "newest": releases[-1],
        "releases": releases,
        "rows": {crate: [each for each in rows if each.row.item.path.split("::")[0] == crate] for crate in crates},
        "states": [state for state in State if state is not State.UNANSWERED],
    }
    return render(TEMPLATE, content)
