"""Declarations of one file: signatures in one spelling, members, and the trees of `use`."""

from __future__ import annotations

import pytest
from check import parsed

from codegen.syntax.declared import Declared, Impl, Used, items_in, own_gate, plain


def one(text: str) -> Declared:
    """The only item of a snippet."""
    (item,) = items_in(parsed(text).root)
    assert isinstance(item, Declared)
    return item


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("pub fn f() {}", "fn()"),
        ("fn f(&self, _n : usize,) -> crate::Result< Self > {}", "fn(&self, usize) -> Result<Self>"),
        ("pub unsafe fn f<T: a::b::C + D,>(mut self, x: &'a mut [T]) {}", "unsafe fn<T: C + D>(self, &'a mut[T])"),
        ("fn f<F>(f: F) where F: Fn(u8) -> u8, {}", "fn<F>(F) where F: Fn(u8) -> u8"),
        ("fn f(x: ::std::sync::Arc<X>) -> &X {}", "fn(Arc<X>) -> &X"),
        ("const fn f(a: (u8, u16,)) {}", "const fn((u8, u16))"),
        ("pub struct S<T>(T);", "<T>"),
        ("pub trait T: Sized + a::B {}", ": Sized + B"),
        ("pub type S = super::Slice<u8>;", "Slice<u8>"),
        ("pub const N: usize = 32;", "usize"),
        ("pub static N: AtomicBool = AtomicBool::new(false);", "AtomicBool"),
        ("macro_rules! m { () => {} }", ""),
    ],
)
def test_signatures(text: str, signature: str) -> None:
    assert one(text).signature == signature


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("fn(a::B, u8)", "fn(\n    B,\n    u8,\n)"),
        ("Vec<Vec<u8>>", "std::vec::Vec< Vec<u8> >"),
        ("&'a T", "& 'a T"),
        ("impl Fn(&B) -> C + 'a", "impl Fn(&a::B)->C+'a"),
    ],
)
def test_one_spelling(text: str, same: str) -> None:
    assert plain(text) == plain(same)


@pytest.mark.parametrize(("text", "other"), [("&T", "&mut T"), ("u8", "u16"), ("A<B>", "A<C>"), ("'a", "'b")])
def test_what_differs_stays_different(text: str, other: str) -> None:
    assert plain(text) != plain(other)


def members(text: str) -> list[str]:
    return [f"{each.kind} {each.name} {each.signature}".rstrip() for each in one(text).members]


def test_members_of_an_enum() -> None:
    text = """
        pub enum E {
            /// One.
            A,
            #[error("{0}")]
            B(#[from] a::Error, Box<dyn std::error::Error + Send>),
            C { x: a::X, /* why */ n: usize, },
        }
    """

    assert members(text) == ["variant A", "variant B (Error, Box<dyn Error + Send>)", "variant C {x: X, n: usize}"]


def test_members_of_a_struct_are_its_public_fields() -> None:
    assert members("pub struct S { pub a: x::A, b: u8, pub(crate) c: u8 }") == ["field a A"]
    assert members("pub struct S(u8, pub Vec<u8>, pub(crate) u8);") == ["field 1 Vec<u8>"]
    assert members("pub struct S;") == []


def test_members_of_a_trait_are_public() -> None:
    text = "pub trait T { const N: usize; type A: Sized; fn f(&self); fn g() -> u8 { 1 } }"

    assert members(text) == ["const N usize", "type A : Sized", "fn f fn(&self)", "fn g fn() -> u8"]
    assert all(each.public for each in one(text).members)


def test_visibility_gates_and_exported_macros() -> None:
    items = list(
        items_in(
            parsed("""
                #[cfg(feature = "x")]
                /// About it.
                pub fn a() {}
                pub(crate) fn b() {}
                fn c() {}
                #[macro_export]
                macro_rules! d { () => {} }
                macro_rules! e { () => {} }
            """).root
        )
    )

    found = [(each.name, each.public, each.gate, each.exported) for each in items if isinstance(each, Declared)]
    assert found == [
        ("a", True, 'feature = "x"', False),
        ("b", False, "", False),
        ("c", False, "", False),
        ("d", False, "", True),
        ("e", False, "", False),
    ]


def test_the_gate_of_a_file() -> None:
    assert (
        own_gate(parsed('#![cfg(unix)]\n#![allow(dead_code)]\n#![cfg(feature = "x")]\n').root) == 'unix, feature = "x"'
    )
    assert own_gate(parsed("#![allow(dead_code)]\n").root) == ""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("use a;", {"a": "a"}),
        ("pub use a::b::C;", {"C": "a::b::C"}),
        ("use a::b as c;", {"c": "a::b"}),
        ("use a::{self, b::{C, D as E}, /* no */ f::*};", {"a": "a", "C": "a::b::C", "E": "a::b::D", "*": "a::f"}),
        ("use crate::x;", {"x": "crate::x"}),
        ("use super::*;", {"*": "super"}),
        ("use {a, b::c};", {"a": "a", "c": "b::c"}),
        ("use a::{self as b};", {"b": "a"}),
    ],
)
def test_names_of_a_use(text: str, names: dict[str, str]) -> None:
    found = [each for each in items_in(parsed(text).root) if isinstance(each, Used)]

    assert {each.alias: "::".join(each.target) for each in found} == names
    assert all(each.public == text.startswith("pub") for each in found)


def test_impls_of_types_and_not_of_traits() -> None:
    text = """
        #[cfg(unix)]
        impl<T> a::S<T> { pub fn f() {} fn g() {} pub const N: u8 = 1; }
        impl Clone for S { fn clone(&self) -> Self { S } }
    """
    (block,) = items_in(parsed(text).root)

    assert isinstance(block, Impl)
    assert (block.target, block.gate) == (("a", "S"), "unix")
    assert [(each.name, each.public) for each in block.members] == [("f", True), ("g", False), ("N", True)]
