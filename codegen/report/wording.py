"""How a decision is put into words, and where the spec entry behind it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.plan.model import State
from codegen.plan.select import glob_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.plan.model import Decision
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import Release
    from codegen.syntax.site import Site

CRATE_RULE = "candle.crates"
"""The decision's rule when specs/candle.yaml gives the whole crate no ROCm story."""


def outcome(decision: Decision) -> str:
    """`handled in phase 1`, `phase 2, not applied (stand-in in phase 1)`, `left alone`, `unknown`."""
    match decision.state:
        case State.HANDLED:
            return f"handled in phase {decision.lands}"
        case State.PENDING:
            waiting = f"phase {decision.lands}, not applied"
            return waiting if decision.stand_in is None else f"{waiting} (stand-in in phase {decision.stand_in})"
    return decision.state.value


def ground(decision: Decision) -> str:
    """`core.dispatch, mirror; reason`: what stands in brackets behind the outcome."""
    named = ", ".join(part for part in (decision.rule, decision.verb) if part)
    return "; ".join(part for part in (named, decision.reason) if part)


def site_line(decision: Decision) -> str:
    """`path:line:column kind item -> outcome (rule, verb; reason)`, on one line."""
    site = decision.site
    what = f"{site.kind} {full_item(site)}".rstrip()
    return f"{site.id} {what} -> {outcome(decision)} ({ground(decision)})"


def full_item(site: Site) -> str:
    """The enclosing items and the site's own name, such as `Device::new_cuda`; empty for a nameless one in a file."""
    name = "" if site.kind == f"{site.name}!" else site.name
    return "::".join(part for part in (site.item, name) if part)


def spec_line(decision: Decision, specs: LoadedSpecs) -> str | None:
    """`specs/phases/1-core.yaml:42`: where the entry that decided stands, or None if none did."""
    return next((specs.lines[name] for name in _entries(decision, specs) if name in specs.lines), None)


def _entries(decision: Decision, specs: LoadedSpecs) -> list[str]:
    """The names of the entries that the decision's rule stands for."""
    candle, site = specs.candle, decision.site
    match decision.rule:
        case "candle.crates":
            folders = (decision.crate, site.path.split("/", 1)[0])
            return [f"crates[{i}]" for i, crate in enumerate(candle.crates) if crate.name in folders]
        case "candle.cuda-libraries":
            libraries = enumerate(candle.cuda_libraries)
            return [f"cuda_libraries[{i}]" for i, each in libraries if _names(each.feature, site.name)]
        case "candle.cuda-kernels":
            from codegen.plan.cuda_kernels import KernelBook

            entries = enumerate(candle.cuda_kernels)
            return [f"cuda_kernels[{i}]" for i, each in entries if KernelBook.of([each]).entry_of(site.name)]
        case "candle.foreign":
            return [f"foreign[{i}]" for i, each in enumerate(candle.foreign) if _names(each.path, site.path)]
        case "tree.backends" if specs.tree is not None:
            return [f"backends[{i}]" for i, each in enumerate(specs.tree.spec.backends) if each.name == site.name]
    return [decision.rule]


def _names(globs: Iterable[str], value: str) -> bool:
    return any(glob_matches(glob, value) for glob in globs)


def untried_note(release: str, tried: Iterable[Release]) -> str:
    """The line for a release on which the oracles were not run."""
    versions = ", ".join(each.version for each in tried)
    return f"this version of candle-rocm was not tested with Candle {release} (tested: {versions}); continuing"


def unforeseen_notes(decisions: Iterable[Decision]) -> Iterator[str]:
    """One line for each site that only a fallback rule knows, those inside another left out: a person should look."""
    for decision in decisions:
        if decision.fallback and not decision.inside:
            yield f"new to the specs, please review: {site_line(decision)}"


def review_notes(decisions: Iterable[Decision]) -> Iterator[str]:
    """One line for each site whose mirrored text a person should look at, because it answers as CUDA does."""
    for decision in decisions:
        if decision.review:
            yield f"please review: {site_line(decision)}: {decision.review}"


def left_notes(unknown: Sequence[Decision]) -> Iterator[str]:
    """How many sites are left for later, and one line for each."""
    if unknown:
        yield f"{plural(len(unknown), 'unknown site')} left for later and not changed:"
    for decision in unknown:
        demanded = "; rustc demands an arm here, so the tree will not compile" if decision.site.exhaustive else ""
        yield f"left for later: {site_line(decision)}{demanded}"


def plural(count: int, noun: str) -> str:
    """`1 site`, `2 sites`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
