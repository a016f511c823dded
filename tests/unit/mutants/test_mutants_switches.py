"""Switches: what is written for each kind of mutant, and who is blamed for an error."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import mutants
import pytest
from mutants.building import Switchboard, blame, read_compilation
from mutants.mutant import Mutant
from mutants.switches import NoSwitch, offset, place_of, plainly, switched

from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mutants.building import Compilation


def mutant(text: str, at: str, replacement: str, genre: str = "BinaryOperator", number: int = 0, **more: str) -> Mutant:
    """A mutant of the first occurrence of `at`."""
    start = text.index(at)
    line, column = text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1
    last = start + len(at)
    end = (text.count("\n", 0, last) + 1, last - (text.rfind("\n", 0, last) + 1) + 1)
    name = f"x.rs:{line}:{column}: replace {at} with {replacement}"
    return Mutant(number, name, "x.rs", (line, column), end, genre, replacement, **more)


def after(text: str, *mutants: Mutant) -> str:
    source = Source.parse("x.rs", text.encode())
    done = switched(source, [place_of(source, each, "m") for each in mutants])
    assert not Source.parse("x.rs", done.text).root.has_error
    return done.text.decode()


def test_an_operator_gets_a_branch_with_the_other_one() -> None:
    text = "fn f(a: u8, b: u8) -> bool { a < b }"
    assert after(text, mutant(text, "<", "<=")) == (
        "fn f(a: u8, b: u8) -> bool { (if m(0) { a <= b } else { a < b }) }"
    )


def test_operators_nest_and_the_branches_have_the_original_operands() -> None:
    text = "fn f(a: u8) -> u8 { a + 2 * a }"
    done = after(text, mutant(text, "+", "-", number=1), mutant(text, "*", "/", number=2))
    assert done == ("fn f(a: u8) -> u8 { (if m(1) { a - 2 * a } else { a + (if m(2) { 2 / a } else { 2 * a }) }) }")


def test_several_mutants_of_one_operator() -> None:
    text = "fn f(a: u8) -> bool { a < 7 }"
    done = after(text, mutant(text, "<", "==", number=1), mutant(text, "<", ">", number=2))
    assert done == ("fn f(a: u8) -> bool { (if m(2) { a > 7 } else { (if m(1) { a == 7 } else { a < 7 }) }) }")


def test_assignments_negations_and_values_of_functions() -> None:
    text = "fn f(mut a: i8) -> i8 { a += 1; -a }"
    done = after(
        text,
        mutant(text, "+=", "-=", number=1),
        mutant(text, "-", "", "UnaryOperator", number=2) if text.index("-") > text.index("+=") else _negation(text),
        mutant(text, "a += 1; -a", "Default::default()", "FnValue", number=3, returns="-> i8"),
    )
    assert done.startswith("fn f(mut a: i8) -> i8 { if m(3) { return Default::default(); }  (if m(1) { a -= 1 }")


def _negation(text: str) -> Mutant:
    column = text.index("-a") + 1
    return Mutant(2, "x.rs: delete -", "x.rs", (1, column), (1, column + 1), "UnaryOperator", "")


def test_a_negation_is_dropped() -> None:
    text = "fn f(a: bool) -> bool { !a }"
    done = after(text, mutant(text, "!", "", "UnaryOperator"))
    assert done == "fn f(a: bool) -> bool { (if m(0) { a } else { !a }) }"


def test_arms_and_guards() -> None:
    text = "fn f(a: u8) -> u8 { match a { 1 => 2, b if b > 7 => 3, _ => 4 } }"
    first = after(text, mutant(text, "1 => 2,", "", "MatchArm"))
    assert "{ 1 if !m(0) => 2," in first
    guard = after(text, mutant(text, "b > 7", "true", "MatchArmGuard"))
    assert "b if (m(0) || (b > 7)) => 3" in guard
    both = after(
        text,
        mutant(text, "b if b > 7 => 3,", "", "MatchArm", number=1),
        mutant(text, "b > 7", "false", "MatchArmGuard", number=2),
    )
    assert "b if (!m(2) && ((!m(1) && (b > 7)))) => 3" in both


@pytest.mark.parametrize(
    ("text", "at", "genre", "why"),
    [
        ("const N: usize = 2 + 3;", "+", "BinaryOperator", "the compiler computes it"),
        ("const fn f(a: u8) -> u8 { a + 1 }", "+", "BinaryOperator", "a const function"),
        ("fn f(a: u8) -> [u8; 2 + 3] { g(a) }", "+", "BinaryOperator", "the compiler computes it"),
        ('fn f(a: u8) { println!("{}", a + 1) }', "+", "BinaryOperator", "it is an argument of a macro"),
        ("fn f() -> impl Copy { 1 }", "1", "FnValue", "it returns a type without a name"),
        ("fn f() -> S { S { a: 1, ..b } }", "a: 1", "StructField", "no match_arm around it"),
    ],
)
def test_what_has_no_switch_says_why(text: str, at: str, genre: str, why: str) -> None:
    source = Source.parse("x.rs", text.encode())
    with pytest.raises(NoSwitch, match=why):
        place_of(source, mutant(text, at, "-", genre, returns="-> impl Copy" if genre == "FnValue" else ""), "m")


def test_columns_count_characters() -> None:
    assert offset("é x\nüü+".encode(), 2, 3) == len("é x\nüü".encode())


def test_errors_are_blamed_on_the_text_in_force_first_and_on_what_surrounds_it_else() -> None:
    text = "fn f(a: u8) -> u8 { a + 2 * a }"
    source = Source.parse("x.rs", text.encode())
    two = [mutant(text, "+", "-", number=1), mutant(text, "*", "/", number=2)]
    done = switched(source, [place_of(source, each, "m") for each in two])

    def at(part: bytes) -> frozenset[int]:
        start = done.text.index(part)
        return done.blamed(start, start + len(part))

    assert at(b"a - 2") == {1}
    assert at(b"2 / a") == {2}
    assert at(b"else { 2 * a") == {2}
    assert at(b"fn f") == frozenset()


def test_an_error_counts_by_its_main_place_and_by_others_only_without_one() -> None:
    text = "fn f(a: u8) -> u8 { a + 2 * a }"
    source = Source.parse("x.rs", text.encode())
    two = [mutant(text, "+", "-", number=1), mutant(text, "*", "/", number=2)]
    done = switched(source, [place_of(source, each, "m") for each in two])
    first, second = (done.text.index(part) for part in (b"a - 2", b"2 / a"))

    def span(start: int, *, primary: bool) -> dict[str, object]:
        return {"file_name": "x.rs", "byte_start": start, "byte_end": start + 5, "is_primary": primary}

    both = {"message": "no", "spans": [span(first, primary=True), span(second, primary=False)]}
    other = {"message": "no", "spans": [span(0, primary=True), span(second, primary=False)]}
    assert blame([both], {"x.rs": done}) == {1: "no"}
    assert blame([other], {"x.rs": done}) == {2: "no"}


def test_a_match_that_lacks_an_arm_is_blamed_on_those_that_drop_one() -> None:
    text = "fn f(a: Option<u8>) -> u8 { match a { Some(b) if b > 7 => 3, Some(_) => 2, None => 4 } }"
    three = [
        mutant(text, "Some(b) if b > 7 => 3,", "", "MatchArm", number=1),
        mutant(text, "Some(_) => 2,", "", "MatchArm", number=2),
        mutant(text, "b > 7", "true", "MatchArmGuard", number=3),
    ]
    source = Source.parse("x.rs", text.encode())
    done = switched(source, [place_of(source, each, "m") for each in three])
    at = done.text.index(b"a {")
    span = {"file_name": "x.rs", "byte_start": at, "byte_end": at + 1, "is_primary": True}
    error = {"message": "not covered", "spans": [span], "code": {"code": "E0004"}}
    assert blame([error], {"x.rs": done}) == {2: "not covered"}
    assert blame([{**error, "code": {"code": "E0308"}}], {"x.rs": done}) == {}


SOURCE = """\
mod mutated;
fn smaller(a: u8, b: u8) -> bool { a < b }
fn text(a: String) -> String { a + "." }
fn main() { println!("{} {}", smaller(2, 2), text("a".to_string())) }
"""
MODULE = Path(mutants.__file__).parent / "mutated.rs"


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs rustc")
def test_compiled_switches_switch_record_and_leave_out_what_does_not_compile(tmp_path: Path) -> None:
    template = MODULE.read_text("utf-8")

    def write(texts: Mapping[str, bytes]) -> None:
        for path, text in texts.items():
            (tmp_path / path).write_bytes(text)

    board = Switchboard(write, "crate::mutated::mutated", (MODULE.name,), template)
    both = [mutant(SOURCE, "<", "<=", number=7), mutant(SOURCE, "+", "-", number=9)]

    def compiled() -> Compilation:
        command = ["rustc", "--edition=2021", "--error-format=json", "x.rs", "-o", "program"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        wrapped = [f'{{"reason": "compiler-message", "message": {line}}}' for line in done.stderr.splitlines()]
        return read_compilation("\n".join(wrapped), "", ok=done.returncode == 0)

    built = board.build(both, {"x.rs": SOURCE.encode()}, compiled)

    assert built.inside == {7}
    assert board.build(both, {"x.rs": SOURCE.encode()}, compiled, built.unviable) == built, "in one round"
    assert list(built.unviable) == [9]
    assert "cannot subtract" in built.unviable[9]

    def said(**variables: str) -> str:
        return subprocess.run([tmp_path / "program"], env=variables, capture_output=True, text=True, check=True).stdout

    record = tmp_path / "reached"
    assert said(CANDLE_ROCM_REACHED=str(record)) == "false a.\n"
    assert record.read_text("ascii") == "7\n"
    assert said(CANDLE_ROCM_MUTANT="7") == "true a.\n"


def test_a_mutant_without_a_switch_is_made_in_its_place() -> None:
    assert plainly(b"const N: u8 = 2 + 3;", mutant("const N: u8 = 2 + 3;", "+", "-")) == b"const N: u8 = 2 - 3;"
