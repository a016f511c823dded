"""Method signatures, read from small traits and impl blocks."""

from __future__ import annotations

import pytest

from codegen.errors import ExitCode, UnknownSite
from codegen.syntax.signatures import Method, parse_imports, parse_inherent, parse_trait

TRAIT = b"""\
use crate::op::{UnaryOpT, CmpOp as Cmp};
use crate::{DType, Layout, Result, self as root};
use std::fmt::*;

pub trait Store: Sized {
    type Device: Queue;
    type Plain;

    /// Doc comment.
    fn dtype(&self) -> DType;

    // A plain comment.
    fn each<B: UnaryOpT, T>(&mut self, first: &Layout, _: (usize, T)) -> Result<Self>
    where
        T: Clone,
        B: Send;

    #[cfg(feature = "x")]
    #[allow(clippy::too_many_arguments)]
    unsafe fn wide(
        &self,
        a: Option<
            f64,
        >,
        b: crate::conv::Params,
    ) -> Result<()>;

    fn new(_: usize) -> crate::Result<Self>;

    fn done(self: Box<Self>) {}

    fn cmp(&self, op: Cmp) -> root::Flag;
}
"""


def methods() -> dict[str, Method]:
    return {m.name: m for m in parse_trait(TRAIT, "Store", path="backend.rs").methods}


def test_methods_come_in_source_order() -> None:
    assert list(methods()) == ["dtype", "each", "wide", "new", "done", "cmp"]


def test_a_plain_method() -> None:
    dtype = methods()["dtype"]
    assert (dtype.receiver, dtype.params, dtype.returns) == ("&self", (), "DType")
    assert (dtype.generics, dtype.where_clause, dtype.attributes) == ("", (), ())
    assert dtype.text == "fn dtype(&self) -> DType"
    assert not dtype.is_unsafe
    assert not dtype.is_fallible
    assert not dtype.has_default_body


def test_generics_and_where_clause() -> None:
    each = methods()["each"]
    assert each.generics == "<B: UnaryOpT, T>"
    assert each.receiver == "&mut self"
    assert each.params == ("&Layout", "(usize, T)")
    assert each.where_clause == ("T: Clone", "B: Send")


def test_types_of_several_lines_become_one() -> None:
    assert methods()["wide"].params == ("Option<f64>", "crate::conv::Params")


def test_unsafe_and_attributes() -> None:
    wide = methods()["wide"]
    assert wide.is_unsafe
    assert wide.modifiers == ("unsafe",)
    assert wide.cfg == ('#[cfg(feature = "x")]',)
    assert wide.attributes == ('#[cfg(feature = "x")]', "#[allow(clippy::too_many_arguments)]")


def test_attributes_belong_to_the_next_method_only() -> None:
    assert methods()["new"].attributes == ()


def test_an_associated_function_has_no_receiver() -> None:
    assert methods()["new"].receiver is None


def test_fallible_methods_return_a_result() -> None:
    assert [name for name, method in methods().items() if method.is_fallible] == ["each", "wide", "new"]


def test_a_default_body_is_not_part_of_the_text() -> None:
    done = methods()["done"]
    assert done.has_default_body
    assert done.receiver == "self: Box<Self>"
    assert done.text == "fn done(self: Box<Self>)"
    assert done.returns is None


def test_names_a_signature_needs() -> None:
    found = methods()
    assert found["each"].types == ("UnaryOpT", "Layout", "Result", "Clone", "Send")
    assert found["wide"].types == ("Option", "Result")
    assert found["cmp"].types == ("Cmp", "root")


def test_associated_types() -> None:
    trait = parse_trait(TRAIT, "Store", path="backend.rs")
    assert [(t.name, t.bounds) for t in trait.types] == [("Device", "Queue"), ("Plain", "")]


def test_what_a_trait_extends() -> None:
    found = [parse_trait(source, "A", path="a.rs") for source in (b"trait A: B<u8>\n    + c::D {}", b"trait A {}")]
    assert [trait.bounds for trait in found] == ["B<u8> + c::D", ""]


def test_a_method_is_found_by_name() -> None:
    trait = parse_trait(TRAIT, "Store", path="backend.rs")
    assert trait.method("dtype") is trait.methods[0]
    assert trait.method("none") is None


def test_locations_count_from_one() -> None:
    dtype = methods()["dtype"]
    assert str(dtype.location) == "backend.rs:10:5"
    assert dtype.location.source_line == "    fn dtype(&self) -> DType;"


def test_columns_are_characters() -> None:
    source = "trait T { /* \N{GREEK SMALL LETTER LAMDA}\N{GREEK SMALL LETTER LAMDA} */ fn f(); }".encode()
    location = parse_trait(source, "T", path="t.rs").methods[0].location
    assert location.column == 20


def test_a_trait_in_a_module_is_found() -> None:
    assert parse_trait(b"mod m { pub trait T { fn f(&self); } }", "T", path="t.rs").methods[0].name == "f"


def test_a_missing_trait_is_an_unknown_site() -> None:
    with pytest.raises(UnknownSite) as caught:
        parse_trait(b"struct S;\n", "BackendStorage", path="src/backend.rs")
    assert caught.value.exit_code == ExitCode.UNKNOWN_SITE
    assert "src/backend.rs:1:1: no trait BackendStorage in this file" in str(caught.value)


def test_a_broken_trait_is_an_unknown_site() -> None:
    with pytest.raises(UnknownSite, match=r"b\.rs:2:\d+: trait T does not parse"):
        parse_trait(b"trait T {\n    fn f(&self) -> = ;\n}\n", "T", path="b.rs")


def test_an_error_elsewhere_does_not_matter() -> None:
    source = b"fn broken( -> ;\ntrait T { fn f(&self); }\n"
    assert [m.name for m in parse_trait(source, "T", path="b.rs").methods] == ["f"]


def test_an_item_of_a_new_kind_is_an_unknown_site() -> None:
    with pytest.raises(UnknownSite, match=r"b\.rs:2:5: trait T has an item of a new kind \(const_item\)"):
        parse_trait(b"trait T {\n    const N: usize;\n}\n", "T", path="b.rs")


def test_inherent_methods_of_every_impl_block() -> None:
    source = b"""\
impl D { pub fn new(_: usize) -> Result<Self> { todo!() } }
impl Clone for D { fn clone(&self) -> Self { D } }
impl Other { fn no(&self) {} }
impl D { pub(crate) fn id(&self) -> usize { 0 } }
"""
    found = parse_inherent(source, "D", path="d.rs")
    assert [(m.visibility, m.name) for m in found] == [("pub", "new"), ("pub(crate)", "id")]


def test_no_impl_block_is_no_methods() -> None:
    assert parse_inherent(b"struct D;", "D", path="d.rs") == ()


def test_imports() -> None:
    assert parse_imports(TRAIT) == {
        "UnaryOpT": "crate::op::UnaryOpT",
        "Cmp": "crate::op::CmpOp",
        "DType": "crate::DType",
        "Layout": "crate::Layout",
        "Result": "crate::Result",
        "root": "crate",
    }


def test_nested_and_plain_imports() -> None:
    source = b"use a::{b::{self, C}, d::E};\nuse f;\nuse g::h;\n"
    assert parse_imports(source) == {"b": "a::b", "C": "a::b::C", "E": "a::d::E", "f": "f", "h": "g::h"}
