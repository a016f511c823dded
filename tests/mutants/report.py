"""The table of a campaign, and its survivors with their places in the generated file and in the template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.report.source_line import line_in_source, template_of
from mutants.campaign import tally
from mutants.trial import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mutants.accepted import Review
    from mutants.mutant import Mutant
    from mutants.results import Result


def place_in_template(mutant: Mutant, generated: Mapping[str, bytes], templates: Mapping[str, bytes]) -> str:
    """`templates/rust/...j2:17`; without the line where the template has no such line."""
    text = generated[mutant.file].decode()
    template = template_of(text)
    if template is None or template not in templates:
        return "of no template"
    line = line_in_source(text.splitlines(), mutant.line, template, templates[template].decode().splitlines())
    return f"{template}:{line}" if line else template


def survivors(mutants: Sequence[Mutant], results: Mapping[str, Result], review: Review) -> list[Mutant]:
    """Those that no test caught and nobody has accepted."""
    return [
        mutant
        for mutant in mutants
        if mutant.name in results and results[mutant.name].verdict.survived and mutant.name not in review.accepted
    ]


def summary(mutants: Sequence[Mutant], results: Mapping[str, Result], review: Review) -> str:
    """How many of each verdict, and how much of what compiles was caught."""
    tried = {mutant.name: results[mutant.name] for mutant in mutants if mutant.name in results}
    counts = tally(tried.values())
    accepted = sum(1 for name, result in tried.items() if result.verdict.survived and name in review.accepted)
    caught = counts[Verdict.CAUGHT] + counts[Verdict.TIMEOUT]
    judged = caught + counts[Verdict.SURVIVED] + counts[Verdict.UNREACHED]
    seconds = sum(result.seconds for result in tried.values())
    lines = [f"{verdict.value:12} {count:5}" for verdict, count in counts.items() if count]
    lines.append(f"{'accepted':12} {accepted:5}  of those that survive or are not reached")
    share = f"{100 * caught / judged:.1f} %" if judged else "nothing"
    rate = f"{seconds / judged:.1f} s each" if judged else ""
    return "\n".join([*lines, f"caught {share} of {judged} that compile, {rate}".rstrip(", ")])


def described(mutant: Mutant, result: Result, line: str, template: str) -> str:
    """One survivor, for people."""
    return f"{mutant.name}\n    {template}\n    {line.strip()}\n    {result.verdict.value}: {result.by}"
