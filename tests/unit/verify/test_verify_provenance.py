"""From a diagnostic back to the rule that made the line."""

from __future__ import annotations

from codegen.patch.changes import Origin, Region
from codegen.verify.diagnostics import Diagnostic, Span
from codegen.verify.provenance import made_by, origin_at, trace

MIRRORED = Origin("core.dispatch", "specs/phases/1-core.yaml:42", 1)
TEMPLATED = Origin("core.new-device", "specs/phases/1-core.yaml:7", 1, "rust/edits/new_rocm.rs.j2")
REGIONS = {
    "core/a.rs": (Region(10, 20, MIRRORED), Region(15, 16, TEMPLATED)),
    "core/enum.rs": (Region(3, 3, MIRRORED),),
}


def place(file: str, first: int, last: int | None = None) -> Span:
    return Span(file, first, 5, last or first, 9)


def error(span: Span | None, *related: Span, expanded_from: Span | None = None) -> Diagnostic:
    return Diagnostic("error", "E0001", "it is wrong", span, expanded_from, related)


def test_a_generated_line_names_its_rule_spec_and_source() -> None:
    traced = trace(error(place("core/a.rs", 12)), REGIONS)
    assert traced.in_generated_text
    assert str(traced) == (
        "error[E0001]: it is wrong\n"
        "  --> core/a.rs:12:5\n"
        "  = made by rule core.dispatch (specs/phases/1-core.yaml:42), mirrored from CUDA"
    )


def test_a_template_is_named_instead_of_mirroring() -> None:
    assert made_by(TEMPLATED) == (
        "made by rule core.new-device (specs/phases/1-core.yaml:7), template rust/edits/new_rocm.rs.j2"
    )


def test_the_innermost_region_wins() -> None:
    assert origin_at(place("core/a.rs", 15), REGIONS) == TEMPLATED
    assert origin_at(place("core/a.rs", 14), REGIONS) == MIRRORED


def test_region_borders_are_inclusive() -> None:
    assert [origin_at(place("core/a.rs", line), REGIONS) for line in (9, 10, 20, 21)] == [
        None,
        MIRRORED,
        MIRRORED,
        None,
    ]


def test_a_span_that_only_reaches_into_a_region_belongs_to_the_region_where_it_starts() -> None:
    two = {"a.rs": (Region(1, 1, MIRRORED), Region(2, 2, TEMPLATED))}
    assert origin_at(place("a.rs", 1, 2), two) == MIRRORED
    assert origin_at(place("core/a.rs", 5, 10), REGIONS) == MIRRORED


def test_candles_own_line_is_traced_through_the_note() -> None:
    traced = trace(error(place("core/match.rs", 7), place("core/enum.rs", 3)), REGIONS)
    assert not traced.in_generated_text
    assert traced.origin == MIRRORED
    assert str(traced).endswith(
        "  = Candle's own line; it mentions core/enum.rs:3:5, "
        "made by rule core.dispatch (specs/phases/1-core.yaml:42), mirrored from CUDA"
    )


def test_the_body_of_a_generated_macro_counts_as_the_diagnostics_own_text() -> None:
    traced = trace(error(place("core/match.rs", 7), expanded_from=place("core/a.rs", 12)), REGIONS)
    assert traced.in_generated_text


def test_a_line_that_no_rule_made_is_said_to_be_candles() -> None:
    traced = trace(error(place("core/other.rs", 1)), REGIONS)
    assert traced.origin is None
    assert not traced.in_generated_text
    assert str(traced).endswith("  = no rule made this line: it is Candle's own")


def test_a_diagnostic_without_a_place_has_no_rule() -> None:
    assert (
        str(trace(error(None), REGIONS)) == "error[E0001]: it is wrong\n  = no rule made this line: it is Candle's own"
    )
