"""Public items of CUDA's side of a release, and what ROCm's side has for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.errors import Problem, SpecInvalid, UnansweredItem
from codegen.spec.parity import PARITY
from codegen.syntax.public_items import public_items
from codegen.syntax.rename import rename
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from codegen.candle.tree import CandleTree
    from codegen.errors import CandleRocmError, Location
    from codegen.plan.model import Plan
    from codegen.spec.parity import Parity, Placed
    from codegen.syntax.public_items import PublicItem

TARGET = ("unix", 'target_family="unix"', 'target_os="linux"', 'target_arch="x86_64"')
"""What `cfg` finds set besides features."""
USED = 2
"""Programs that make an item one that is in use."""


class State(StrEnum):
    """What ROCm's side has for an item."""

    SAME = "same"
    """The renamed item with the renamed signature, by every renamed path."""
    OTHER = "other form"
    NONE = "none"
    MISSING = "missing"
    UNANSWERED = "unanswered"
    """Neither a counterpart nor a reason."""


@dataclass(frozen=True, slots=True)
class Row:
    """One item and its state."""

    item: PublicItem
    state: State
    counterparts: tuple[str, ...] = ()
    """Paths on ROCm's side."""
    note: str = ""
    """How they differ, why there is none, what it waits for; of an item without an answer, what there is."""
    uses: int = 0
    """Of the 24 programs that were looked at."""


@dataclass(frozen=True, slots=True)
class Compared:
    """All items of a release."""

    release: str
    rows: tuple[Row, ...]
    """Sorted by path; a type comes before its members."""
    stale: tuple[Problem, ...]
    """What specs/parity.yaml says that is not so."""

    def count(self, state: State) -> int:
        """How many items are in a state."""
        return sum(row.state is state for row in self.rows)

    @property
    def missing_in_use(self) -> tuple[Row, ...]:
        """Missing items that two or more of the programs use."""
        return tuple(row for row in self.rows if row.state is State.MISSING and row.uses >= USED)

    @property
    def unanswered(self) -> Iterator[Problem]:
        """Items without an answer, but for the members of such an item."""
        open_rows = {row.item.path: row for row in self.rows if row.state is State.UNANSWERED}
        for path, row in open_rows.items():
            if row.item.parent not in open_rows:
                yield Problem(f"{path}: {row.note}", row.item.location)

    @property
    def error(self) -> CandleRocmError | None:
        """As `error_of`, for this release."""
        return error_of([self])


def error_of(releases: Sequence[Compared]) -> CandleRocmError | None:
    """What is wrong: items without an answer, or else answers that answer nothing. Each is named once."""
    unanswered = dict.fromkeys(problem for each in releases for problem in each.unanswered)
    if unanswered:
        remedy = f"give the item its counterpart, or say in {PARITY} what there is instead, and why"
        return UnansweredItem(unanswered, remedy=remedy)
    stale = dict.fromkeys(problem for each in releases for problem in each.stale)
    return SpecInvalid(stale, remedy=f"correct {PARITY}; its top explains the keys") if stale else None


def compare(tree: CandleTree, plan: Plan, parity: Parity, *, exact: bool = True) -> Compared:
    """The public items of CUDA's side of a pristine tree, each with what the planned tree has for it.

    Where not `exact`, answers about items that the release does not have are no finding: releases that were tried have
    ranges of their own, and others may have lost an item. Raises InputOutputError for a file that cannot be read.
    """
    spec = parity.spec
    there = frozenset(tree.rust_files())
    pristine = _Sources(lambda path: tree.read(path) if path in there else None)
    after = {change.path: change.after for change in plan.changes}
    patched = _Sources(after.get, pristine)
    marks = _Marks.of(parity, tree.release)
    cuda = [item for item in _items(tree, parity, pristine, spec.features.cuda) if marks.are_on(item)]
    book = _Book(_items(tree, parity, patched, spec.features.rocm))
    answers = parity.answers_in(tree.release)
    rows: list[Row] = []
    known: dict[str, Row] = {}
    stale: list[Problem] = []
    for item in cuda:
        row, problem = _row(item, book, answers.get(item.path), known.get(item.parent), spec.uses.get(item.path, 0))
        rows.append(row)
        known.setdefault(item.path, row)
        stale += [problem] if problem is not None else []
    if exact:
        stale += _of_nothing(tree.release, known, answers, parity)
    return Compared(tree.release, tuple(rows), tuple(stale))


class _Sources:
    """Files of a tree, each parsed once."""

    def __init__(self, read: Callable[[str], bytes | None], otherwise: _Sources | None = None) -> None:
        self._read = read
        self._otherwise = otherwise
        self._parsed: dict[str, Source | None] = {}

    def __call__(self, path: str) -> Source | None:
        if path not in self._parsed:
            text = self._read(path)
            if text is None and self._otherwise is not None:
                return self._otherwise(path)
            self._parsed[path] = None if text is None else Source.parse(path, text)
        return self._parsed[path]


class _Book:
    """ROCm's side by path."""

    def __init__(self, items: Iterable[PublicItem]) -> None:
        self._by_path: dict[str, list[PublicItem]] = {}
        for item in items:
            for path in item.paths:
                self._by_path.setdefault(path, []).append(item)

    def at(self, path: str) -> list[PublicItem]:
        """What a path leads to."""
        return self._by_path.get(path, [])

    def twin(self, item: PublicItem) -> PublicItem | None:
        """What stands at the renamed path of an item of CUDA's.

        Where renaming changes nothing, it has to be made for ROCm: to name it, or to stand under a `cfg` that does.
        """
        path = rename(item.path)
        found = [each for each in self.at(path) if path != item.path or _names_rocm(each)]
        alike = [each for each in found if each.kind == item.kind]
        return next(iter((*alike, *found)), None)

    def moved(self, item: PublicItem, parents: Iterable[str]) -> str | None:
        """The path of the same member, by name, kind and signature, of what its parent has as its form."""
        name = item.path.rpartition("::")[2]
        for path in (f"{parent}::{name}" for parent in parents):
            if any((each.kind, each.signature) == (item.kind, rename(item.signature)) for each in self.at(path)):
                return path
        return None


def _names_rocm(item: PublicItem) -> bool:
    return any("rocm" in text.lower() for text in (item.text, *item.gates))


def _items(
    tree: CandleTree, parity: Parity, sources: Callable[[str], Source | None], features: Iterable[str]
) -> Iterator[PublicItem]:
    options = frozenset({*TARGET, *(f'feature="{name}"' for name in features)})
    folders = {crate.name: crate.path for crate in tree.crates}
    for crate in parity.spec.crates:
        root = f"{folders.get(crate.name, crate.name)}/src/lib.rs"
        yield from public_items(crate.name.replace("-", "_"), root, sources, options)


@dataclass(frozen=True, slots=True)
class _Marks:
    """What shows in a release that an item is there for CUDA."""

    crates: frozenset[str]
    """Crates of which every item is, as Rust spells them."""
    paths: tuple[str, ...]
    """Further items, of which those below them are, too."""
    features: frozenset[str]
    names: tuple[str, ...]
    """In lower case."""

    @classmethod
    def of(cls, parity: Parity, release: str) -> _Marks:
        """Those of the specs."""
        spec = parity.spec
        return cls(
            frozenset(crate.name.replace("-", "_") for crate in spec.crates if crate.whole),
            tuple(each.item for each, _ in parity.further_in(release)),
            frozenset(spec.features.cuda) - frozenset(spec.features.rocm),
            tuple(name.lower() for name in spec.names),
        )

    def are_on(self, item: PublicItem) -> bool:
        """Whether they are on the item's crate, path, `cfg` or signature."""
        if item.path.partition("::")[0] in self.crates:
            return True
        if any(item.path == path or item.path.startswith(f"{path}::") for path in self.paths):
            return True
        gated = {name for gate in item.gates for name in re.findall(r'feature\s*=\s*"([^"]+)"', gate)}
        if gated & self.features or any(name in path.lower() for path in item.paths for name in self.names):
            return True
        text = item.text.lower()
        return any(name in text for name in self.names) and any(name in item.signature.lower() for name in self.names)


def _row(
    item: PublicItem, book: _Book, placed: Placed | None, parent: Row | None, uses: int
) -> tuple[Row, Problem | None]:
    """The item's row, and what is wrong with the answer that names it."""
    twin = book.twin(item)
    difference = _difference(item, twin, book)
    if not difference:
        assert twin is not None, "what is the same is there"
        row = Row(item, State.SAME, (rename(item.path),), uses=uses)
        problem = f"{item.path} has its counterpart, {rename(item.path)}: the answer has to go"
        return row, None if placed is None else Problem(problem, placed.place)
    if placed is not None:
        return _answered(item, placed, uses), _contradiction(item, placed, twin, book)
    if parent is not None and parent.state in (State.NONE, State.MISSING) and twin is None:
        return Row(item, parent.state, (), parent.note, uses), None
    if parent is not None and parent.state is State.OTHER and twin is None:
        moved = book.moved(item, parent.counterparts)
        if moved is not None:
            return Row(item, State.OTHER, (moved,), parent.note, uses), None
    return Row(item, State.UNANSWERED, () if twin is None else (rename(item.path),), difference, uses), None


def _answered(item: PublicItem, placed: Placed, uses: int) -> Row:
    answer = placed.answer
    if answer.form:
        return Row(item, State.OTHER, answer.form, answer.how or "", uses)
    if answer.none is not None:
        return Row(item, State.NONE, (), answer.none, uses)
    return Row(item, State.MISSING, (), answer.missing or "", uses)


def _contradiction(item: PublicItem, placed: Placed, twin: PublicItem | None, book: _Book) -> Problem | None:
    """What ROCm's side has that the answer denies, or lacks that the answer names."""
    forms = placed.answer.form
    absent = [form for form in forms if not book.at(form)]
    if absent:
        return Problem(f"ROCm's side has no public item {absent[0]}", placed.place)
    path = rename(item.path)
    if twin is not None and path != item.path and path not in forms:
        return Problem(f"{path} is there: name it as `form`, and say in what it differs", placed.place)
    return None


def _difference(item: PublicItem, twin: PublicItem | None, book: _Book) -> str:
    """Why what stands at the renamed path is not the same; empty where it is."""
    path = rename(item.path)
    if twin is None:
        return f"ROCm's side has no {path}"
    if twin.kind != item.kind:
        return f"{path} is of another kind, {twin.kind}"
    wanted = rename(item.signature)
    if twin.signature != wanted:
        return f"{path} is `{twin.signature}` and not `{wanted}`"
    for other in item.paths[1:]:
        if not any(each is twin for each in book.at(rename(other))):
            return f"{path} is not {rename(other)}, too"
    return ""


def _of_nothing(
    release: str, known: Container[str], answers: Mapping[str, Placed], parity: Parity
) -> Iterator[Problem]:
    named: list[tuple[str, Location]] = [(path, placed.place) for path, placed in answers.items()]
    named += [(further.item, place) for further, place in parity.further_in(release)]
    for path, place in named:
        if path not in known:
            yield Problem(f"CUDA's side of {release} has no public item {path}", place)
