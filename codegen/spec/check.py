"""What must hold between the entries of the specs, and between an entry's own keys.

Works on the parsed documents rather than on the models, so that one wrong entry hides nothing about the others: every
check looks only at keys that have the right type, and leaves wrong types and missing keys to `validation`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen.release import is_version, precedence
from codegen.spec.document import MappingNode, ScalarNode
from codegen.spec.folders import check_folder
from codegen.spec.gaps import gaps
from codegen.spec.kinds import BACKENDS
from codegen.spec.wording import did_you_mean, one_of, quoted
from codegen.tree_path import is_tree_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from codegen.errors import Problem
    from codegen.spec.document import Document, Mark, Node

VERBS_WITHOUT_MIRRORED_TEXT = ("override", "leave")
VERBS_WITH_REASON = ("override", "leave")


@dataclass(frozen=True, slots=True)
class Known:
    """Names that entries may refer to; None where the file that lists them cannot be read."""

    phases: frozenset[int]
    templates: frozenset[str]
    crates: frozenset[str] | None
    enums: frozenset[str] | None


def check(candle: Document | None, phases: Sequence[Document], templates: Collection[str]) -> tuple[Problem, ...]:
    """Every finding in all documents. `templates` are paths below `templates/`; a missing `candle` hides its checks."""
    known = Known(
        phases=frozenset(number for document in phases for number in _phase_numbers(document)),
        templates=frozenset(templates),
        crates=_listed_names(candle, "crates"),
        enums=_listed_names(candle, "enums"),
    )
    problems = list(_ids_used_twice(phases))
    problems += _phases_described_twice(phases)
    if candle is not None:
        problems += _candle(candle, known)
    releases = _listed_names(candle, "releases", "version") or frozenset()
    for document in phases:
        problems += _phase(document, known)
        problems += check_folder(document, sorted(templates))
        problems += gaps(document, releases)
    return tuple(problems)


def entries_with_id(document: Document) -> Iterator[tuple[str, ScalarNode, MappingNode]]:
    """Each entry of a phase file that has an id: the id, its node, and the entry."""
    for entry in _listed_entries(document.mapping):
        node = entry.get("id")
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            yield node.value, node, entry


def _listed_entries(mapping: MappingNode) -> Iterator[MappingNode]:
    """The mappings in all lists of a file, those under its `cargo` included."""
    for entry in mapping.entries:
        yield from mapping.mappings(entry.key)
        if isinstance(entry.value, MappingNode):
            yield from _listed_entries(entry.value)


def _ids_used_twice(phases: Iterable[Document]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for document in phases:
        for name, node, _ in entries_with_id(document):
            if name in first:
                yield document.problem(f"the id {quoted(name)} is already used at {first[name]}", node.mark)
            else:
                first[name] = f"{document.file}:{node.mark.line}"


def _phases_described_twice(phases: Iterable[Document]) -> Iterator[Problem]:
    first: dict[int, str] = {}
    for document in phases:
        number, node = document.mapping.integer("phase"), document.mapping.get("phase")
        if number is None or node is None:
            continue
        if number in first:
            yield document.problem(f"phase {number} is already described by {first[number]}", node.mark)
        first.setdefault(number, document.file)
        if number != _number_in_name(document.file):
            name = PurePosixPath(document.file).name
            yield document.problem(f"phase {number}, but the file's name is {quoted(name)}", node.mark)


def _phase_numbers(document: Document) -> Iterator[int]:
    """The phase that a file describes; by its name too, so that a broken file is not an unknown phase for others."""
    for number in (document.mapping.integer("phase"), _number_in_name(document.file)):
        if number is not None:
            yield number


def _number_in_name(file: str) -> int | None:
    match = re.match(r"[0-9]{1,3}(?=[-.])", PurePosixPath(file).name)
    return int(match[0]) if match else None


def _listed_names(candle: Document | None, key: str, name: str = "name") -> frozenset[str] | None:
    if candle is None or candle.root is None:
        return None
    return frozenset(text for entry in candle.mapping.mappings(key) if (text := entry.text(name)) is not None)


def _candle(document: Document, known: Known) -> Iterator[Problem]:
    root = document.mapping
    yield from _listed_twice(document, "releases", ("version",))
    yield from _listed_twice(document, "crates", ("name",))
    yield from _listed_twice(document, "enums", ("crate", "name"))
    yield from lists_reasons(document)
    yield from _variants(document)
    for enum in root.mappings("enums"):
        yield from _crate_name(document, enum.get("crate"), known)
        yield from _phase_number(document, enum.get("phase"), known)


def _variants(document: Document) -> Iterator[Problem]:
    """Spellings of variants that Candle's backends do not have, and one that stands for two of them."""
    variants = document.mapping.get("variants")
    owners: dict[str, str] = {}
    for entry in variants.entries if isinstance(variants, MappingNode) else ():
        if entry.key not in BACKENDS:
            known = ", ".join(BACKENDS)
            yield document.problem(f"{quoted(entry.key)} is none of Candle's backends: {known}", entry.mark)
        for spelling in variants.scalars(entry.key) if isinstance(variants, MappingNode) else ():
            name = str(spelling.value)
            if owners.setdefault(name, entry.key) != entry.key:
                yield document.problem(f"{quoted(name)} is {owners[name]} already", spelling.mark)


def lists_reasons(document: Document) -> Iterator[Problem]:
    """Crates without ROCm that do not say why."""
    for crate in document.mapping.mappings("crates"):
        rocm = crate.get("rocm")
        if isinstance(rocm, ScalarNode) and rocm.value is False and crate.entry("reason") is None:
            yield document.problem("a crate without ROCm needs a reason", rocm.mark)


def _listed_twice(document: Document, key: str, names: tuple[str, ...]) -> Iterator[Problem]:
    first: dict[tuple[str, ...], int] = {}
    for entry in document.mapping.mappings(key):
        identity = tuple(value for name in names if (value := entry.text(name)) is not None)
        node = entry.get(names[-1])
        if len(identity) < len(names) or node is None:
            continue
        if identity in first:
            yield document.problem(f"{quoted(identity[-1])} is already listed on line {first[identity]}", node.mark)
        first.setdefault(identity, node.mark.line)


def _phase(document: Document, known: Known) -> Iterator[Problem]:
    root = document.mapping
    own = root.integer("phase")
    for required in root.scalars("requires"):
        if required.value not in known.phases:
            yield from _phase_number(document, required, known)
        elif type(required.value) is int and own is not None and required.value >= own:
            yield document.problem(f"phase {own} can require earlier phases only, not {required.value}", required.mark)
    applied = root.get("applied")
    only_scanned = isinstance(applied, ScalarNode) and applied.value is False
    for rule in root.mappings("rules"):
        yield from rule_problems(document, rule, known)
        verb = rule.get("verb")
        if rule.text("verb") == "override" and verb is not None and rule.entry("template") is None and not only_scanned:
            yield document.problem("verb 'override' needs a template", verb.mark)
    for file in root.mappings("files"):
        yield from _file(document, file, known)
    for module in root.mappings("modules"):
        yield from tree_path_problems(document, module.get("path"))
    for copy in root.mappings("copies"):
        yield from tree_path_problems(document, copy.get("path"))
        yield from tree_path_problems(document, copy.get("source"), of="candle-rocm's repository")
    for entry in _listed_entries(root):
        yield from range_problems(document, entry)
        yield from _landing(document, entry, own, known)
    cargo = root.get("cargo")
    if isinstance(cargo, MappingNode):
        yield from _cargo(document, cargo, known)


def rule_problems(document: Document, rule: MappingNode, known: Known) -> Iterator[Problem]:
    verb = rule.text("verb")
    verb_node = rule.get("verb")
    if verb is not None and verb_node is not None:
        if verb in VERBS_WITH_REASON and rule.entry("reason") is None:
            yield document.problem(f"verb '{verb}' needs a reason", verb_node.mark)
        template = rule.entry("template")
        if template is not None and verb != "override":
            yield document.problem(f"verb {quoted(verb)} takes no template", template.mark)
        replace = rule.entry("replace")
        if replace is not None and verb in VERBS_WITHOUT_MIRRORED_TEXT:
            yield document.problem(f"verb '{verb}' mirrors no text that 'replace' could correct", replace.mark)
    yield from _template(document, rule.get("template"), known)
    yield from _replacements(document, rule.get("replace"))
    sites = rule.get("sites")
    if isinstance(sites, MappingNode):
        if not sites.entries and rule.entry("fallback") is None:
            yield document.problem("a selector without keys would select every site", sites.mark)
        yield from pattern_problems(document, sites.scalars("crate"), known.crates, "crate")
        yield from pattern_problems(document, sites.scalars("enum"), known.enums, "backend enum")


def _replacements(document: Document, replace: Node | None) -> Iterator[Problem]:
    if isinstance(replace, MappingNode):
        for entry in replace.entries:
            if entry.key == "":
                yield document.problem("an empty text cannot be replaced", entry.mark)


def _file(document: Document, file: MappingNode, known: Known) -> Iterator[Problem]:
    template, mirror = file.entry("template"), file.entry("mirror")
    if template is None and mirror is None:
        yield document.problem("a file needs a 'template' or a 'mirror'", file.mark)
    if template is not None and mirror is not None:
        yield document.problem("a file has a 'template' or a 'mirror', not both", mirror.mark)
    yield from _template(document, file.get("template"), known)
    for key in ("path", "mirror"):
        yield from tree_path_problems(document, file.get(key))


def _cargo(document: Document, cargo: MappingNode, known: Known) -> Iterator[Problem]:
    for key in ("dependencies", "targets"):
        for entry in cargo.mappings(key):
            yield from _crate_name(document, entry.get("crate"), known)
    for feature in cargo.mappings("features"):
        extra = feature.get("extra")
        if isinstance(extra, MappingNode):
            for crate in extra.entries:
                yield from _crate_name(document, ScalarNode(crate.key, crate.mark), known)


def range_problems(document: Document, entry: MappingNode) -> Iterator[Problem]:
    since, until = entry.text("since"), entry.text("until")
    node = entry.get("since")
    if since is None or until is None or node is None:
        return
    if is_version(since) and is_version(until) and precedence(since) > precedence(until):
        yield document.problem(f"since {since} is later than until {until}: no release is in between", node.mark)


def _landing(document: Document, entry: MappingNode, own: int | None, known: Known) -> Iterator[Problem]:
    node = entry.get("lands_in")
    landing = entry.integer("lands_in")
    if node is None or landing is None:
        return
    if landing not in known.phases:
        yield from _phase_number(document, node, known)
    elif own is not None and landing >= own:
        yield document.problem(f"lands_in {landing} is not earlier than the entry's own phase {own}", node.mark)


def _template(document: Document, node: Node | None, known: Known) -> Iterator[Problem]:
    if isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value not in known.templates:
        hint = did_you_mean(node.value, known.templates)
        yield document.problem(f"there is no template {quoted(node.value)} below templates/{hint}", node.mark)


def _phase_number(document: Document, node: Node | None, known: Known) -> Iterator[Problem]:
    if isinstance(node, ScalarNode) and type(node.value) is int and node.value not in known.phases:
        phases = ", ".join(map(str, sorted(known.phases)))
        yield document.problem(f"there is no phase {node.value}; phases: {phases}", node.mark)


def _crate_name(document: Document, node: Node | None, known: Known) -> Iterator[Problem]:
    if known.crates is None or not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return
    if node.value not in known.crates:
        yield _unlisted(document, node.mark, node.value, known.crates, "crate")


def pattern_problems(
    document: Document, nodes: Iterable[ScalarNode], names: Collection[str] | None, what: str
) -> Iterator[Problem]:
    """A selector's glob must match one of the names that candle.yaml lists, or it would never select anything."""
    for node in nodes:
        if names is None or not isinstance(node.value, str):
            continue
        if not any(fnmatchcase(name, node.value) for name in names):
            yield _unlisted(document, node.mark, node.value, names, what)


def _unlisted(document: Document, mark: Mark, word: str, names: Collection[str], what: str) -> Problem:
    hint = one_of(word, sorted(names), what=f"{what}s")
    return document.problem(f"specs/candle.yaml lists no {what} {quoted(word)}{hint}", mark)


def tree_path_problems(document: Document, node: Node | None, of: str = "the Candle tree") -> Iterator[Problem]:
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return
    path = node.value
    if not is_tree_path(path) or "\\" in path or re.match(r"[A-Za-z]:", path):
        yield document.problem(f"{quoted(path)} is not a path inside {of}", node.mark)
