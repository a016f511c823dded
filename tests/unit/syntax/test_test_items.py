"""Items of a Rust file, as far as tests depend on them; and `cfg` predicates."""

from __future__ import annotations

import textwrap

import pytest

from codegen.syntax.cfg import holds
from codegen.syntax.test_items import Attribute, Function, Invocation, Macro, Module, items_of, split_at_commas


def items(text: str) -> tuple[object, ...]:
    return items_of(textwrap.dedent(text).encode()).items


def test_functions_and_modules_with_their_attributes() -> None:
    found = items(
        """
        /// Documented.
        #[test]
        #[should_panic(expected = "x")]
        fn a() {}

        #[cfg(test)]
        mod inner {
            #![allow(dead_code)]
            #[test]
            fn b() {
                #[test]
                fn never_seen() {}
            }
        }
        #[path = "other.rs"]
        mod elsewhere;
        """
    )

    test = Attribute("test")
    inner = (Attribute("cfg", "test"), Attribute("allow", "dead_code"))
    assert found == (
        Function("a", (test, Attribute("should_panic", 'expected = "x"'))),
        Module("inner", inner, (Function("b", (test,)),)),
        Module("elsewhere", (Attribute("path", "other.rs"),), None),
    )


def test_a_file_s_own_attributes() -> None:
    assert items_of(b'#![cfg(feature = "x")]\n').attributes == (Attribute("cfg", 'feature = "x"'),)


def test_macros_and_their_calls() -> None:
    macro, call, braces = items(
        """
        macro_rules! twice {
            ($a: ident, $b: expr,) => {
                fn $a() -> u8 {
                    $b
                }
            };
            ($($rest: tt)*) => {};
        }
        krate::twice!(f, g(1, 2));
        other! { x }
        """
    )

    assert isinstance(macro, Macro)
    first, second = macro.rules
    assert (first.parameters, second.parameters) == (("a", "b"), None)
    assert isinstance(call, Invocation)
    assert (call.name, call.arguments) == ("twice", ("f", "g(1, 2)"))
    assert " ".join((first.expanded(call.arguments) or "").split()) == "fn f() -> u8 { g(1, 2) }"
    assert first.expanded(("f",)) is None
    assert second.expanded(()) is None
    assert braces == Invocation("other", (), " x ")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a, b(c, d), [e, f],", ("a", "b(c, d)", "[e, f]")),
        ('"a, b", c', ('"a, b"', "c")),
        (r'"a\", b", c', (r'"a\", b"', "c")),
    ],
)
def test_commas_part_what_stands_in_no_brackets(text: str, parts: tuple[str, ...]) -> None:
    assert split_at_commas(text) == parts


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("test", True),
        ("windows", False),
        ('feature = "rocm"', True),
        ('feature = "cuda"', False),
        ('all(test, target_os = "linux")', True),
        ('all(test, feature = "cuda")', False),
        ('any(feature = "cuda", feature = "rocm",)', True),
        ("any()", False),
        ("all()", True),
        ('not(feature = "cuda")', True),
        ('all(test, not(any(feature = "rocm", windows)))', False),
        ("version(1)", False),
    ],
)
def test_predicates(predicate: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert holds(predicate, {"test", 'feature="rocm"', 'target_os="linux"'}) is expected
