"""From a compiler message about the patched tree back to the rule, spec line and template that made the line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codegen.patch.changes import Origin, Region
    from codegen.verify.diagnostics import Diagnostic, Span

    Regions = Mapping[str, tuple[Region, ...]]


@dataclass(frozen=True, slots=True)
class TracedDiagnostic:
    """A diagnostic with the rule behind it, if there is one."""

    diagnostic: Diagnostic
    origin: Origin | None
    """None when neither the line nor any place that the message mentions was generated."""
    at: Span | None
    """The place inside the generated region: the diagnostic's own, or one that its notes point at."""

    @property
    def in_generated_text(self) -> bool:
        """True when the diagnostic's own line was generated, not just one that it mentions."""
        own = (self.diagnostic.span, self.diagnostic.expanded_from)
        return self.origin is not None and self.at in own

    def __str__(self) -> str:
        lines = [self.diagnostic.headline]
        if self.diagnostic.span is not None:
            lines.append(f"  --> {self.diagnostic.span}")
        lines.append(f"  = {self._reason()}")
        return "\n".join(lines)

    def _reason(self) -> str:
        if self.origin is None:
            return "no rule made this line: it is Candle's own"
        if self.in_generated_text:
            return made_by(self.origin)
        return f"Candle's own line; it mentions {self.at}, {made_by(self.origin)}"


def trace(diagnostic: Diagnostic, regions: Regions) -> TracedDiagnostic:
    """Find the generated region that a diagnostic is about.

    The diagnostic's own places come first (its line, then the macro body it was expanded from), then those that its
    notes point at: a match that lacks an arm is Candle's line, but rustc's note names the variant that a rule added.
    """
    own = [diagnostic.span, diagnostic.expanded_from]
    for span in (*own, *diagnostic.related):
        if span is not None and (origin := origin_at(span, regions)) is not None:
            return TracedDiagnostic(diagnostic, origin, span)
    return TracedDiagnostic(diagnostic, None, None)


def trace_all(diagnostics: Iterable[Diagnostic], regions: Regions) -> tuple[TracedDiagnostic, ...]:
    """`trace` for each diagnostic, in order."""
    return tuple(trace(diagnostic, regions) for diagnostic in diagnostics)


def origin_at(span: Span, regions: Regions) -> Origin | None:
    """The origin of the smallest region that overlaps the span's lines, or None."""
    touched = [
        region
        for region in regions.get(span.file, ())
        if region.first <= span.last_line and span.first_line <= region.last
    ]
    # A span may reach from Candle's text into ours: the line where it starts decides among regions of the same size.
    touched.sort(key=lambda region: (not region.first <= span.first_line <= region.last, region.last - region.first))
    return touched[0].origin if touched else None


def made_by(origin: Origin) -> str:
    """`made by rule core.dispatch (specs/phases/1-core.yaml:42), mirrored from CUDA`, or its template."""
    source = f"template {origin.template}" if origin.template else "mirrored from CUDA"
    return f"made by rule {origin.rule} ({origin.spec}), {source}"
