"""The strings that an expression can be."""

from __future__ import annotations

import pytest

from codegen.syntax.matches import descendants
from codegen.syntax.source import Source, text_of
from codegen.syntax.strings import MOST_DEPTH, MOST_LETTERS, Spelled, strings_of


def spelled(body: str, *, outside: str = "", parameters: str = "kind: Kind, rows: usize") -> tuple[Spelled, ...]:
    """What the argument of the last call of `load` can be."""
    source = Source.parse("lib.rs", f"{outside}\nfn f({parameters}) {{\n{body}\n}}\n".encode())
    assert source.error_ranges() == ()
    calls = [call for call in descendants(source.root, "call_expression") if text_of(call).startswith("load(")]
    arguments = calls[-1].child_by_field_name("arguments")
    assert arguments is not None
    return strings_of(source, arguments.named_children[0])


def texts(body: str, *, outside: str = "", parameters: str = "kind: Kind, rows: usize") -> list[str | None]:
    return [each.text for each in spelled(body, outside=outside, parameters=parameters)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('load("a");', ["a"]),
        ('load(r#"a"#);', ["a"]),
        ('load(&"a".to_string());', ["a"]),
        ('load(&String::from("a"));', ["a"]),
        ('let name = "a"; load(name);', ["a"]),
        ('let name = "a"; let name = "b"; load(&name);', ["b"]),
        ('let name = "a"; { let name = "b"; } load(name);', ["a"]),
        ('let (width, (name, _)) = (1, ("a", 2)); load(name);', ["a"]),
        ('let name = if rows > 1 { "many" } else { "one" }; load(name);', ["many", "one"]),
        ('let name = if a { "a" } else if b { "b" } else { return Err(e) }; load(name);', ["a", "b"]),
        ('let name = match kind { A => "a", B | C => { "b" } }; load(name);', ["a", "b"]),
        ('let name = match kind { A => "a", _ => crate::bail!("none of {kind:?}") }; load(name);', ["a"]),
        ('let name = match kind { A => "a", _ => { return None; } }; load(name);', ["a"]),
        ('let name = match kind { A => "a", _ => Err(e)? }; load(name);', ["a"]),
        ('let (w, name) = match kind { A => (1, "a"), B => (2, "b") }; load(name);', ["a", "b"]),
        ('let (name, w) = unsafe { ("a", 1) }; load(name);', ["a"]),
        ('const NAME: &str = "a"; load(NAME);', ["a"]),
    ],
)
def test_what_can_be_read(body: str, found: list[str]) -> None:
    assert texts(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('load(&format!("a"));', ["a"]),
        ('load(&format!("a{rows}_b"));', ["a*_b"]),
        ('load(&format!("a{}_{}", rows, 2));', ["a*_*"]),
        ('load(&format!("{{a}}{rows:02}"));', ["{a}*"]),
        ('let n = "x"; load(&format!("a_{n}"));', ["a_x"]),
        ('let n = "x"; load(&format!("a_{}{}", rows, n));', ["a_*x"]),
        ('let n = "x"; load(&format!("a_{m}", m = n));', ["a_x"]),
        ('let n = "x"; load(&format!("a_{}", n.len()));', ["a_*"]),
        ('let n = match kind { A => "x", B => "y" }; let n = format!("{n}{rows}"); load(&n);', ["x*", "y*"]),
        (
            'let n = if a { "x" } else { "y" }; let m = if b { "1" } else { "2" }; load(&format!("{n}_{m}"));',
            ["x_1", "x_2", "y_1", "y_2"],
        ),
    ],
)
def test_what_a_format_makes(body: str, found: list[str]) -> None:
    assert texts(body) == found


@pytest.mark.parametrize(
    "body",
    [
        "load(rows);",
        "load(name_of(kind));",
        "load(&self.name);",
        "load(NAME);",
        'let mut name = "a"; name = "b"; load(name);',
        'let name; if rows > 1 { name = "a" } else { name = "b" } load(name);',
        'let name = "a"; each(|name| load(name));',
        'let name = "a"; for name in names { load(name); }',
        'let name = "a"; if let Some(name) = other { load(name); }',
        'let name = "a"; match other { Some(name) => load(name), None => {} }',
        'let name = "a"; let Names { name, .. } = other; load(name);',
        'let name = "a"; fn g(name: &str) { load(name); }',
        'let name = "a"; fn g() { load(name); }',
        "let (name, w) = pair; load(name);",
        "load(&format!(TEMPLATE, 1));",
    ],
)
def test_what_cannot_be_read(body: str) -> None:
    assert texts(body) == [None]


def test_an_arm_that_cannot_be_read_is_told_from_the_others() -> None:
    found = spelled('let name = match kind { A => "a", B => other(kind) };\nload(name);')

    assert [(each.text, text_of(each.node)) for each in found] == [("a", '"a"'), (None, "other(kind)")]


def test_a_name_has_the_place_of_the_literal_that_makes_it() -> None:
    found = spelled(
        'let name = match kind {\nA => "a",\nB => "b" };\nlet name = format!("{name}{rows}");\nload(&name);'
    )

    assert [(each.text, text_of(each.node)) for each in found] == [("a*", '"a"'), ("b*", '"b"')]


def test_constants_of_the_file_are_found_from_anywhere_in_it() -> None:
    assert texts("load(NAME);", outside='const NAME: &str = "a";') == ["a"]
    assert texts("load(NAME);", outside='const NAME: &str = "a";', parameters="NAME: &str") == [None]


def test_constants_that_name_each_other_end() -> None:
    assert texts("load(A);", outside="const A: &str = B;\nconst B: &str = A;") == [None]


def test_what_is_too_deep_or_too_much_cannot_be_read() -> None:
    chained = "".join(f"let a{n} = a{n - 1};" for n in range(1, MOST_DEPTH + 1))
    assert texts(f'let a0 = "x"; {chained} load(a{MOST_DEPTH // 2});') == ["x"]
    assert texts(f'let a0 = "x"; {chained} load(a{MOST_DEPTH});') == [None]

    doubled = "".join(f'let a{n} = format!("{{a{n - 1}}}{{a{n - 1}}}");' for n in range(1, 40))
    assert all(text is None or len(text) <= MOST_LETTERS for text in texts(f'let a0 = "x"; {doubled} load(&a39);'))

    choices = "".join(f'let b{n} = if c {{ "0" }} else {{ "1" }};' for n in range(20))
    holes = "".join(f"{{b{n}}}" for n in range(20))
    assert texts(f'{choices} load(&format!("{holes}"));') == [None]
