"""A draft of a tree's own specs: for each unknown site the entry that is most likely right, for a person to review.

A site whose CUDA form can be mirrored is mirrored, a condition widened; where every verb refuses, the site is left
alone for a reason that a person still has to write. `spec lint` refuses the draft until then.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from codegen.plan.edits import EditPlanner
from codegen.plan.model import State
from codegen.spec.kinds import Gating, SiteKind, Verb
from codegen.spec.tree_model import LONGEST_GLOB, TO_FILL_IN, TreeRule
from codegen.terminal import shown_name
from codegen.tree_path import TREE_FILE, is_tree_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import Choice
    from codegen.syntax.site import Site

_WIDENED = (Verb.OR_IN, Verb.CHAIN)
_VERBS: dict[str, tuple[Verb, ...]] = {
    SiteKind.ENUM: (Verb.MIRROR,),
    SiteKind.MATCH: (Verb.MIRROR, Verb.FOREIGN),
    SiteKind.MATCH_STR: (Verb.MIRROR,),
    SiteKind.FN: (Verb.SWAP, Verb.MIRROR, Verb.OR_IN),
    SiteKind.FWD: (Verb.MIRROR,),
    SiteKind.STATIC: (Verb.MIRROR,),
    SiteKind.MOD: (Verb.MIRROR,),
    SiteKind.USE: (Verb.OR_IN, Verb.MIRROR),
    SiteKind.IF_LET: (Verb.OR_IN, Verb.MIRROR),
    SiteKind.CONDITION: _WIDENED,
    SiteKind.MATCHES: _WIDENED,
    SiteKind.CFG_MACRO: _WIDENED,
    SiteKind.CALL: (Verb.CHAIN, Verb.OR_IN),
    SiteKind.STATEMENT: (Verb.OR_IN, Verb.MIRROR),
    SiteKind.CFG_ITEM: (Verb.OR_IN, Verb.MIRROR),
    SiteKind.PY_CONDITION: (Verb.OR_IN, Verb.MIRROR),
}
"""The verbs to try, by kind. A function is exchanged first where it holds a match that rustc wants complete."""
_PYTHON = (Verb.MIRROR, Verb.OR_IN)
_DEMANDED_EARLY = (SiteKind.ENUM, SiteKind.MOD, SiteKind.USE)
CORE, TENSORS, NN, PYTHON, PROGRAMS = 1, 3, 5, 6, 7
"""Phases."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What would decide one unknown site."""

    decision: Decision
    verb: Verb
    phase: int | None
    reason: str | None = None


def draft(scans: Sequence[Scan], specs: LoadedSpecs) -> str:
    """The YAML text for what is unknown in any of the scans (one for each gating); empty if nothing is."""
    unknown: dict[tuple[str, int, str], Decision] = {}
    for scan in scans:
        for decision in scan.of_state(State.UNKNOWN):
            unknown.setdefault((decision.site.path, decision.site.start, decision.site.name), decision)
    if not unknown:
        return ""
    decisions = sorted(unknown.values(), key=lambda each: (each.site.path, each.site.start, each.site.name))
    lists = [*_backends(decisions), *_crates(decisions), *_enums(decisions, specs), *_libraries(decisions, scans[0])]
    unforeseen = [d.site for scan in scans for d in scan.decisions if d.fallback]
    matched = [choice for choice in specs.candle.choices if choice.named_by is None]
    kernels = [d for d in decisions if _needs_a_kernel(d, matched)]
    rules = _rules(
        [_suggested(d, scans, specs) for d in decisions if _needs_a_rule(d) and d not in kernels], unforeseen
    )
    return "\n".join([*_head(specs, len(decisions)), *_without_rule(kernels), *lists, *rules]) + "\n"


def _head(specs: LoadedSpecs, count: int) -> Iterator[str]:
    sites = "1 site that nothing decides" if count == 1 else f"{count} sites that nothing decides"
    yield f"# A draft by `candle-rocm scan --suggest` of what {TREE_FILE} may say about {sites}."
    yield "# Review each entry: a mirrored text compiles, and may still be wrong for ROCm. Where it says FILL IN, write"
    yield "# why ROCm needs nothing there, or another rule. Then run `candle-rocm spec lint` on the tree."
    if specs.tree is not None:
        yield f"# The tree has a {TREE_FILE} already: these entries belong into it, below the same keys."


def _needs_a_kernel(decision: Decision, matched: Iterable[Choice]) -> bool:
    """Whether the backend would not compile without an answer: a match has to know the variant.

    That over block formats does not: what has no kernels is stored.
    """
    site = decision.site
    return site.kind == SiteKind.OPERATION and any(
        site.name == choice.enum or (site.item == choice.enum and not choice.plain) for choice in matched
    )


def _without_rule(decisions: Iterable[Decision]) -> Iterator[str]:
    for decision in decisions:
        site = decision.site
        yield f"# {shown_name(site.id)}: it needs a kernel, which no rule of a tree can give: {decision.reason}"


def _needs_a_rule(decision: Decision) -> bool:
    site = decision.site
    return site.kind != SiteKind.CARGO_FEATURE and not _is_backend(decision)


def _is_backend(decision: Decision) -> bool:
    site = decision.site
    return site.kind == SiteKind.ENUM and "cuda" not in site.name.lower() and not site.metal_only


def _backends(decisions: Iterable[Decision]) -> Iterator[str]:
    names = sorted({d.site.name for d in decisions if _is_backend(d)})
    if names:
        yield "backends:"
    for name in names:
        yield f"  - name: {_text(name)}"
        yield f"    reason: {_text(f'{TO_FILL_IN}: why does ROCm need nothing where {name} is named and CUDA is not?')}"


def _crates(decisions: Iterable[Decision]) -> Iterator[str]:
    """Crates that no spec lists, and that have the feature that ROCm's is made after."""
    names = sorted({d.crate for d in decisions if d.site.kind == SiteKind.CARGO_FEATURE and d.site.name == "cuda"})
    if names:
        yield "crates:"
    yield from (f"  - {{name: {_text(name)}, rocm: true}}" for name in names)


def _enums(decisions: Sequence[Decision], specs: LoadedSpecs) -> Iterator[str]:
    known = {enum.name for enum in specs.candle.enums}
    matched = {enum for d in decisions for enum in d.site.enums} - known
    held = {d.site.item.rpartition("::")[2]: d for d in decisions if d.site.kind == SiteKind.ENUM}
    found = sorted(matched & held.keys())
    if found:
        yield "enums:"
    for name in found:
        yield f"  - {{name: {_text(name)}, crate: {_text(held[name].crate)}, phase: {_phase(held[name])}}}"


def _libraries(decisions: Iterable[Decision], scan: Scan) -> Iterator[str]:
    del scan
    names = sorted({d.site.name for d in decisions if d.site.kind == SiteKind.CARGO_FEATURE and d.site.name != "cuda"})
    if names:
        yield "cuda_libraries:"
    for name in names:
        yield f"  - feature: {_text(name)}"
        yield f"    reason: {_text(f'{TO_FILL_IN}: what does this feature switch that only CUDA has?')}"


def _suggested(decision: Decision, scans: Sequence[Scan], specs: LoadedSpecs) -> Suggestion:
    site = decision.site
    if site.kind == SiteKind.ELEMENT_TYPE:
        reason = "a type of this tree: ROCm stores, loads and moves it, and every operation answers with a typed error"
        return Suggestion(decision, Verb.LEAVE, None, reason)
    phase = _phase(decision)
    refused = ""
    for verb in _verbs(decision):
        rule = _trial(verb, phase)
        refusals = [
            EditPlanner(scan, specs, gating=gating).refusal(decision, rule)
            for scan, gating in zip(scans, Gating, strict=True)
        ]
        if not any(refusals):
            return Suggestion(decision, verb, phase)
        refused = refused or next(filter(None, refusals))
    why = f" ({refused})" if refused else ""
    return Suggestion(decision, Verb.LEAVE, None, f"{TO_FILL_IN}: why does ROCm need nothing here?{why}")


def _verbs(decision: Decision) -> tuple[Verb, ...]:
    site = decision.site
    if site.metal_only:
        return ()
    if site.within is not None:
        return (Verb.FOREIGN,)
    if site.path.endswith((".py", ".pyi")):
        return _PYTHON
    verbs = _VERBS.get(site.kind, ())
    return verbs if site.exhaustive or site.kind != SiteKind.FN else tuple(v for v in verbs if v is not Verb.SWAP)


def _trial(verb: Verb, phase: int) -> TreeRule:
    return TreeRule.model_validate({"id": "tree.trial", "sites": {}, "verb": verb, "phase": phase})


def _phase(decision: Decision) -> int:
    """The phase that writes what else is like it; what rustc demands comes earlier by itself."""
    path, kind = decision.site.path, decision.site.kind
    if re.search(r"/(tests|benches|examples)/", path):
        return PROGRAMS
    if decision.crate == "candle-core":
        return CORE if kind in _DEMANDED_EARLY else TENSORS
    if decision.crate == "candle-pyo3":
        return PYTHON
    return PROGRAMS if decision.crate == "candle-examples" else NN


def _rules(suggestions: Sequence[Suggestion], unforeseen: Sequence[Site]) -> Iterator[str]:
    if not suggestions:
        return
    yield "rules:"
    used: set[str] = set()
    ordered = sorted(suggestions, key=_alike)
    for _, group in groupby(ordered, key=_alike):
        members = list(group)
        own = {member.decision.site.id for member in members}
        others = [s.decision.site for s in suggestions if s.decision.site.id not in own]
        yield from _rule(members, [*others, *unforeseen], used)


def _alike(suggestion: Suggestion) -> tuple[str, str, str, str, int, str]:
    """Sites with the same text that get the same are one rule."""
    site = suggestion.decision.site
    same = "" if site.kind in (SiteKind.MATCH, SiteKind.MATCH_STR) else site.snippet
    where = site.path if not same else ""
    return (where, site.kind, site.name, same, suggestion.phase or 0, f"{suggestion.verb} {suggestion.reason}")


def _rule(members: Sequence[Suggestion], others: Sequence[Site], used: set[str]) -> Iterator[str]:
    first = members[0]
    named = [m for m in members if is_tree_path(m.decision.site.path) and len(m.decision.site.path) <= LONGEST_GLOB]
    for member in members:
        site = member.decision.site
        yield f"  # {shown_name(site.id)}: {shown_name(site.snippet)}"
        if member not in named:
            yield "  # (no rule can name this file: its path is too long or has odd characters)"
        if member.decision.review:
            yield f"  # {shown_name(member.decision.review)}"
    if not named:
        return
    yield f"  - id: {_id(first, used)}"
    yield f"    sites: {{{', '.join(f'{key}: {value}' for key, value in _selector(named, others).items())}}}"
    yield f"    verb: {first.verb}"
    if first.phase is not None:
        yield f"    phase: {first.phase}"
    if first.reason is not None:
        yield f"    reason: {_text(first.reason)}"


def _selector(members: Sequence[Suggestion], every: Sequence[Site]) -> dict[str, str]:
    """Keys that select the members and none of the other sites that a rule of the tree would take; as few as do."""
    site = members[0].decision.site
    paths = sorted({m.decision.site.path for m in members})
    keys = {"kind": _text(site.kind), "path": _text(paths[0]) if len(paths) == 1 else json.dumps(paths)}
    alike = (each for each in every if (each.kind, each.metal_only) == (site.kind, site.metal_only))
    others = [each for each in alike if each.path in paths]
    if site.metal_only:
        keys["metal_only"] = "true"
    items = sorted({m.decision.site.item for m in members})
    for key, value, same in (
        ("name", _text(site.name), lambda other: other.name == site.name),
        ("item", _text(items[0]) if len(items) == 1 else json.dumps(items), lambda other: other.item in items),
        ("text", _text(site.snippet[:LONGEST_GLOB]), lambda other: other.snippet == site.snippet),
    ):
        if any(not same(other) for other in others) and value != '""':
            keys[key] = value
            others = [other for other in others if same(other)]
    return keys


def _id(suggestion: Suggestion, used: set[str]) -> str:
    site = suggestion.decision.site
    crate = suggestion.decision.crate.removeprefix("candle-") or "file"
    words = re.findall(r"[a-z0-9]+", f"{crate} {site.name or site.item.rpartition('::')[2]} {site.kind}".lower())
    base = "tree." + "-".join(words)
    name, number = base, 2
    while name in used:
        name, number = f"{base}-{number}", number + 1
    used.add(name)
    return name


def _text(value: str) -> str:
    """A YAML scalar: bare where it is a plain word, else in quotes."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*", value) and value.lower() not in ("true", "false", "null"):
        return value
    return json.dumps(value, ensure_ascii=False)
