"""Reads the `candle-rocm.yaml` of a tree on top of candle-rocm's own specs: valid, or every finding with its place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, SpecInvalid
from codegen.spec.check import (
    Known,
    entries_with_id,
    lists_reasons,
    pattern_problems,
    range_problems,
    rule_problems,
    tree_path_problems,
)
from codegen.spec.document import ListNode, MappingNode, ScalarNode, read_document
from codegen.spec.loaded import LoadedSpecs, TreeSpecs
from codegen.spec.loader import in_order
from codegen.spec.tree_model import TO_FILL_IN, TreeSpec
from codegen.spec.validation import validate
from codegen.spec.wording import did_you_mean, quoted
from codegen.tree_path import TREE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codegen.spec.document import Document, Mark, Node
    from codegen.spec.tree_model import TreeRule

LARGEST = 64 << 10
"""Bytes. A rule has some 200."""
PREFIX = "tree."
"""What the ids of a tree's rules begin with, so that they are told from candle-rocm's own."""
MOST_FINDINGS = 50
REMEDY = f"correct {TREE_FILE}; docs/forks.md says what it may hold, `candle-rocm spec schema --kind tree` prints it"
_LISTS = ("crates", "enums", "backends", "cuda_libraries", "foreign")


@dataclass(frozen=True, slots=True)
class _Own:
    """What candle-rocm's own specs have, by name."""

    rules: Mapping[str, int]
    """The phase of each rule."""
    names: Mapping[str, frozenset[str]]
    """Of the lists of candle.yaml in which a name may stand only once."""
    known: Known


def with_tree_specs(specs: LoadedSpecs, content: bytes) -> LoadedSpecs:
    """`specs` and what the tree's own file adds to them. Raises `SpecInvalid` with what is wrong with the file."""
    if len(content) > LARGEST:
        raise SpecInvalid(Problem(f"{TREE_FILE} has more than {LARGEST >> 10} KiB"), remedy=REMEDY)
    document = read_document(TREE_FILE, content)
    spec, problems = validate(document, TreeSpec)
    own = _own(specs, document)
    found = in_order([*document.problems, *problems, *_inconsistencies(document, own)])
    if found or spec is None:
        more = len(found) - MOST_FINDINGS
        found = found[:MOST_FINDINGS] + ([Problem(f"and {more} more")] if more > 0 else [])
        raise SpecInvalid(found, remedy=REMEDY)
    candle = specs.candle
    merged = candle.model_copy(
        update={
            "crates": (*candle.crates, *spec.crates),
            "enums": (*candle.enums, *spec.enums),
            "cuda_libraries": (*candle.cuda_libraries, *spec.cuda_libraries),
            "foreign": (*candle.foreign, *spec.foreign),
            "protected": (*candle.protected, *spec.protected),
        }
    )
    places = dict(_places(document, specs))
    rules = tuple((_phase(rule, own.rules), rule) for rule in spec.rules)
    lines = {name: f"{place.file}:{place.line}" for name, place in places.items()}
    return replace(
        specs,
        specs=specs.specs.model_copy(update={"candle": merged}),
        lines=MappingProxyType({**specs.lines, **lines}),
        tree=TreeSpecs(spec, rules, MappingProxyType(places)),
    )


def _phase(rule: TreeRule, phases: Mapping[str, int]) -> int:
    """A rule that leaves a site alone belongs to no phase; what it is counted with makes no difference."""
    if rule.phase is not None:
        return rule.phase
    return phases.get(rule.instead_of or "", 1)


def _own(specs: LoadedSpecs, document: Document) -> _Own:
    candle = specs.candle
    names = {
        "crates": frozenset(crate.name for crate in candle.crates),
        "enums": frozenset(enum.name for enum in candle.enums),
        "backends": frozenset({"Cpu", "Cuda", "Metal", "Rocm"}),
    }
    theirs = {
        key: frozenset(text for entry in document.mapping.mappings(key) if (text := entry.text("name")) is not None)
        for key in names
    }
    return _Own(
        {rule.id: phase.phase for phase in specs.phases for rule in phase.rules},
        names,
        Known(
            phases=frozenset(phase.phase for phase in specs.phases),
            templates=frozenset(),
            crates=names["crates"] | theirs["crates"],
            enums=names["enums"] | theirs["enums"],
        ),
    )


def _inconsistencies(document: Document, own: _Own) -> Iterator[Problem]:
    root = document.mapping
    ids = Counter(name for name, _, _ in entries_with_id(document))
    first: dict[str, int] = {}
    for name, node, entry in entries_with_id(document):
        if not name.startswith(PREFIX):
            yield document.problem(f"the id of a tree's rule begins with '{PREFIX}', unlike {quoted(name)}", node.mark)
        if ids[name] > 1 and name in first:
            yield document.problem(f"the id {quoted(name)} is already used on line {first[name]}", node.mark)
        first.setdefault(name, node.mark.line)
        yield from range_problems(document, entry)
    for rule in root.mappings("rules"):
        yield from _rule(document, rule, own)
    for key, names in own.names.items():
        yield from _listed_before(document, key, names)
    yield from lists_reasons(document)
    for enum in root.mappings("enums"):
        yield from pattern_problems(document, enum.scalars("crate"), own.known.crates, "crate")
        yield from _known_phase(document, enum.get("phase"), own)
    for entry in root.mappings("foreign"):
        for glob in entry.scalars("path"):
            yield from tree_path_problems(document, glob)
    yield from _to_fill_in(document, document.root)


def _rule(document: Document, rule: MappingNode, own: _Own) -> Iterator[Problem]:
    yield from rule_problems(document, rule, own.known)
    verb, node = rule.text("verb"), rule.get("verb")
    text, instead = rule.entry("text"), rule.get("instead_of")
    if verb is None or node is None:
        return
    if verb == "override" and text is None:
        yield document.problem("verb 'override' needs a text", node.mark)
    if verb != "override" and text is not None:
        yield document.problem(f"verb {quoted(verb)} takes no text", text.mark)
    if verb != "leave" and rule.entry("phase") is None and instead is None:
        yield document.problem(f"verb {quoted(verb)} needs a phase that writes it", node.mark)
    yield from _known_phase(document, rule.get("phase"), own)
    if isinstance(instead, ScalarNode) and isinstance(instead.value, str) and instead.value not in own.rules:
        hint = did_you_mean(instead.value, own.rules)
        yield document.problem(f"candle-rocm has no rule {quoted(instead.value)}{hint}", instead.mark)


def _known_phase(document: Document, node: Node | None, own: _Own) -> Iterator[Problem]:
    if isinstance(node, ScalarNode) and type(node.value) is int and node.value not in own.known.phases:
        phases = ", ".join(map(str, sorted(own.known.phases)))
        yield document.problem(f"there is no phase {node.value}; phases: {phases}", node.mark)


def _listed_before(document: Document, key: str, names: frozenset[str]) -> Iterator[Problem]:
    """A name that candle-rocm's specs list already, or this file on an earlier line."""
    first: dict[str, int] = {}
    for entry in document.mapping.mappings(key):
        name, node = entry.text("name"), entry.get("name")
        if name is None or node is None:
            continue
        if name in names:
            yield document.problem(f"candle-rocm's own specs know {quoted(name)} already", node.mark)
        elif name in first:
            yield document.problem(f"{quoted(name)} is already listed on line {first[name]}", node.mark)
        first.setdefault(name, node.mark.line)


def _to_fill_in(document: Document, node: Node | None) -> Iterator[Problem]:
    """What `scan --suggest` leaves to a person, and no person has written yet."""
    match node:
        case MappingNode(entries):
            for entry in entries:
                yield from _to_fill_in(document, entry.value)
        case ListNode(items):
            for item in items:
                yield from _to_fill_in(document, item)
        case ScalarNode(str(value)) if value.lstrip().upper().startswith(TO_FILL_IN):
            yield document.problem("a person has to write this: why is it right for ROCm?", node.mark)


def _places(document: Document, specs: LoadedSpecs) -> Iterator[tuple[str, Location]]:
    """Where each entry stands: rules by id, those of the lists by name and index in the merged lists."""
    candle = specs.candle
    before = {key: len(getattr(candle, key, ())) for key in _LISTS}
    for key in _LISTS:
        for index, entry in enumerate(document.mapping.mappings(key)):
            yield f"{key}[{before[key] + index}]", _location(document, entry.mark)
    for index, scalar in enumerate(document.mapping.scalars("protected")):
        yield f"protected[{index}]", _location(document, scalar.mark)
    for name, _, entry in entries_with_id(document):
        yield name, _location(document, entry.mark)


def _location(document: Document, mark: Mark) -> Location:
    return Location.in_text(document.file, document.text, mark.line, mark.column)
