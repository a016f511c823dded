"""The variants of an enum, read from Rust."""

from __future__ import annotations

import pytest

from codegen.errors import UnknownSite
from codegen.syntax.variants import enum_variants

SOURCE = b"""\
pub enum Other {
    No,
}

#[derive(Clone)]
pub enum Shade {
    // Plain comment.
    Light,
    /// Documented.
    #[allow(dead_code)]
    Dark(u8),
    Mixed { of: u8 },
    Numbered = 4,
}
"""


def test_variants_of_every_form_in_source_order() -> None:
    assert enum_variants(SOURCE, "Shade", path="shade.rs") == ("Light", "Dark", "Mixed", "Numbered")


def test_an_enum_that_is_missing_is_named_with_its_file() -> None:
    with pytest.raises(UnknownSite) as caught:
        enum_variants(SOURCE, "Colour", path="shade.rs")
    assert caught.value.problems[0].message == "no enum Colour in this file"
    assert caught.value.problems[0].location is not None
    assert caught.value.problems[0].location.file == "shade.rs"
