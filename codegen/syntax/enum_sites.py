"""Variants of enums that no spec expects: each is a site, though it names neither CUDA nor Metal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.syntax.constructs import name_of
from codegen.syntax.site import Site
from codegen.syntax.source import text_of
from codegen.syntax.variants import variants_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from codegen.syntax.source import Source

_SNIPPET = 120


def unexpected_variants(source: Source, enum: str, expected: Collection[str], *, kind: str) -> tuple[Site, ...]:
    """A site of the kind for each variant of a file's enum that is not among the expected ones."""
    return tuple(
        Site(
            path=source.path,
            kind=kind,
            start=variant.start_byte,
            end=variant.end_byte,
            line=source.line_of(variant.start_byte),
            column=source.column_of(variant.start_byte),
            item=enum,
            name=name_of(variant),
            snippet=text_of(variant).split("\n", 1)[0].strip()[:_SNIPPET],
        )
        for variant in variants_of(source, enum) or ()
        if name_of(variant) not in expected
    )
