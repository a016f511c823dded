"""Reading rustc's JSON: spans, macro expansions, notes."""

from __future__ import annotations

import pytest
from fake_cargo import message, span

from codegen.verify.diagnostics import Span, read_diagnostic

ROOT = "/home/me/candle"


def test_a_plain_error_has_level_code_message_and_primary_span() -> None:
    found = read_diagnostic(message("mismatched types", span("core/src/a.rs", 3, 7), code="E0308"), root=ROOT)
    assert found is not None
    assert found.headline == "error[E0308]: mismatched types"
    assert found.span == Span("core/src/a.rs", 3, 7, 3, 12)
    assert found.expanded_from is None
    assert found.is_error


def test_absolute_paths_become_relative_and_foreign_ones_are_dropped() -> None:
    inside = read_diagnostic(message("m", span(f"{ROOT}/core/a.rs", 1)), root=ROOT)
    outside = read_diagnostic(message("m", span("/registry/other/a.rs", 1)), root=ROOT)
    assert inside is not None
    assert inside.span is not None
    assert inside.span.file == "core/a.rs"
    assert outside is not None
    assert outside.span is None


def test_an_expansion_reports_the_outermost_place_in_the_workspace_and_the_macro_body() -> None:
    call = span("core/use.rs", 40, 9)
    middle = span("core/macro2.rs", 12, expansion={"span": call, "macro_decl_name": "b!", "def_site_span": None})
    body = span("core/macro.rs", 5, 2, expansion={"span": middle, "macro_decl_name": "a!", "def_site_span": None})
    found = read_diagnostic(message("m", body), root=ROOT)
    assert found is not None
    assert found.span is not None
    assert (found.span.file, found.span.first_line) == ("core/use.rs", 40)
    assert found.expanded_from is not None
    assert (found.expanded_from.file, found.expanded_from.first_line) == ("core/macro.rs", 5)
    assert Span("core/macro2.rs", 12, 1, 12, 6) in found.related


@pytest.mark.parametrize("body", ["/rustc/library/core/panic.rs", "<std macros>"])
def test_an_expansion_of_a_macro_from_elsewhere_reports_the_call(body: str) -> None:
    call = span("core/use.rs", 8)
    outer = span(body, 5, expansion={"span": call, "macro_decl_name": "vec!", "def_site_span": None})
    found = read_diagnostic(message("m", outer), root=ROOT)
    assert found is not None
    assert found.span is not None
    assert (found.span.file, found.span.first_line) == ("core/use.rs", 8)
    assert found.expanded_from is None


def test_notes_are_related_places() -> None:
    note = message("defined here", span("core/def.rs", 2), level="note")
    second = span("core/a.rs", 9, primary=False)
    found = read_diagnostic(message("m", span("core/a.rs", 1), second, children=[note]), root=ROOT)
    assert found is not None
    assert [(one.file, one.first_line) for one in found.related] == [("core/a.rs", 9), ("core/def.rs", 2)]


@pytest.mark.parametrize(
    "inner",
    [
        message("aborting due to 2 previous errors"),
        message("1 warning emitted", level="warning"),
        message("12 warnings emitted", level="warning"),
        message("Some errors have detailed explanations: E0004", level="failure-note"),
    ],
)
def test_summaries_are_no_diagnostics(inner: dict[str, object]) -> None:
    assert read_diagnostic(inner, root=ROOT) is None


def test_a_message_without_a_place_is_kept() -> None:
    found = read_diagnostic(message("linking with `cc` failed"), root=ROOT)
    assert found is not None
    assert found.span is None
