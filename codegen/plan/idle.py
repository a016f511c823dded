"""Entries of a tree's own specs that decide nothing: a selector with a slip, or a site that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from codegen.errors import Problem
from codegen.plan.select import glob_matches, in_force, tree_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from codegen.candle.tree import CandleTree
    from codegen.errors import Location
    from codegen.plan.model import Decision
    from codegen.spec.kinds import Gating
    from codegen.spec.loaded import LoadedSpecs

T = TypeVar("T")


def idle_entries(
    tree: CandleTree, specs: LoadedSpecs, decisions: Mapping[Gating, Sequence[Decision]]
) -> tuple[Problem, ...]:
    """What the tree's own specs say in vain, in the order of the file; `decisions` by the gatings that were scanned."""
    if specs.tree is None:
        return ()
    every = [decision for each in decisions.values() for decision in each]
    found = [*_rules(tree, specs, decisions), *_listed(tree, specs, every)]
    places = specs.tree.places
    located = [(places[name], message) for name, message in found]
    return tuple(Problem(message, place) for place, message in sorted(located, key=_in_file))


def _in_file(found: tuple[Location, str]) -> tuple[int, int]:
    return found[0].line, found[0].column


def _rules(
    tree: CandleTree, specs: LoadedSpecs, decisions: Mapping[Gating, Sequence[Decision]]
) -> Iterator[tuple[str, str]]:
    used = {decision.rule for each in decisions.values() for decision in each}
    for phased in tree_rules(specs.tree):
        if phased.rule.id not in used and any(in_force(phased, tree.release, gating) for gating in decisions):
            yield phased.rule.id, f"the rule {phased.rule.id} decides no site of this tree"


def _listed(tree: CandleTree, specs: LoadedSpecs, decisions: Sequence[Decision]) -> Iterator[tuple[str, str]]:
    assert specs.tree is not None
    spec, candle = specs.tree.spec, specs.candle
    crates = {name for crate in tree.crates for name in (crate.name, crate.path.split("/", 1)[0])}
    for index, crate in _behind(candle.crates, spec.crates):
        if crate.name not in crates:
            yield f"crates[{index}]", f"the tree has no crate {crate.name}"
    for index, enum in _behind(candle.enums, spec.enums):
        if enum.crate not in crates:
            yield f"enums[{index}]", f"the tree has no crate {enum.crate}"
    for index, foreign in _behind(candle.foreign, spec.foreign):
        if not _matched(foreign.path, [d.site.path for d in decisions if d.rule == "candle.foreign"]):
            yield f"foreign[{index}]", "no source of the tree that names a backend lies there"
    for index, library in _behind(candle.cuda_libraries, spec.cuda_libraries):
        if not _matched(library.feature, [d.site.name for d in decisions if d.rule == "candle.cuda-libraries"]):
            yield f"cuda_libraries[{index}]", "no crate of the tree has a feature of that name"
    for index, backend in enumerate(spec.backends):
        if not any(d.rule == "tree.backends" and d.site.name == backend.name for d in decisions):
            yield f"backends[{index}]", f"no backend enum of the tree has a variant {backend.name}"
    texts = [tree.read(path) for path in sorted({d.site.path for d in decisions})] if spec.protected else []
    for index, word in enumerate(spec.protected):
        if not any(word.encode() in text for text in texts):
            yield f"protected[{index}]", f"no source of the tree that names a backend has the word {word}"


def _behind(merged: Sequence[T], own: Sequence[object]) -> Iterator[tuple[int, T]]:
    """The tree's own entries, which stand behind candle-rocm's, with their index among all."""
    start = len(merged) - len(own)
    return ((start + index, entry) for index, entry in enumerate(merged[start:]))


def _matched(globs: Collection[str], values: Sequence[str]) -> bool:
    return any(glob_matches(glob, value) for glob in globs for value in values)
