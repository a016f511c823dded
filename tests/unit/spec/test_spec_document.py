"""Files that are not the YAML that specs are written in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from spec_repository import HEAD, MARK, Repository, check_rejected

from codegen.errors import ToolchainMissing
from codegen.spec.document import MAX_DEPTH, ListNode, MappingNode, Mark, ScalarNode, read_document

if TYPE_CHECKING:
    from pathlib import Path


UNFINISHED = "not valid YAML: while parsing a flow node, did not find expected node content"


def first_problem(content: bytes) -> tuple[int, int, str]:
    document = read_document("x.yaml", content)
    assert document.root is None
    (problem,) = document.problems
    assert problem.location is not None
    return problem.location.line, problem.location.column, problem.message


@pytest.mark.parametrize(
    ("content", "line", "column", "message"),
    [
        pytest.param(b"", 1, 1, "the file is empty", id="empty"),
        pytest.param(b"# nothing\n\n", 1, 1, "the file is empty", id="only-comment"),
        pytest.param(b"a: 1\nb: \xff\n", 2, 4, "not UTF-8 text: byte 0xff", id="not-utf8"),
        pytest.param("ä: é".encode() + b"\xc3", 1, 5, "not UTF-8 text: byte 0xc3", id="cut-utf8"),
        pytest.param(b"a: 1\nb: \x00\n", 2, 4, "the character U+0000 has no place in a spec", id="nul"),
        pytest.param("a: 1\nb: x\u2028".encode(), 2, 5, "the character U+2028 has no place in a spec", id="separator"),
        pytest.param("a: \ufeff1".encode(), 1, 4, "the character U+FEFF has no place in a spec", id="inner-bom"),
        pytest.param(
            b"a: 1\n b: 2\n", 2, 3, "not valid YAML: mapping values are not allowed in this context", id="indent"
        ),
        pytest.param(
            b"a:\n\t- b\n",
            2,
            1,
            "not valid YAML: while scanning for the next token, found character that cannot start any token; "
            "indent with spaces, not tabs",
            id="tab",
        ),
        pytest.param(
            b"a: [1",
            1,
            6,
            "not valid YAML: while parsing a flow sequence, did not find expected ',' or ']'",
            id="unclosed",
        ),
        pytest.param(
            b'a: "\\UFFFFFFFF"',
            1,
            7,
            "not valid YAML: while parsing a quoted scalar, found invalid Unicode character escape code",
            id="no-such-character",
        ),
        pytest.param(
            b'a: "\\ud800"',
            1,
            7,
            "not valid YAML: while parsing a quoted scalar, found invalid Unicode character escape code",
            id="half-of-a-surrogate-pair",
        ),
        pytest.param(
            b"[" * 500,
            1,
            MAX_DEPTH + 1,
            f"not valid YAML: more than {MAX_DEPTH} mappings and lists inside one another",
            id="deep",
        ),
    ],
)
def test_broken_file_is_located(content: bytes, line: int, column: int, message: str) -> None:
    assert first_problem(content) == (line, column, message)


def test_a_file_that_is_deeper_than_libyaml_reads() -> None:
    """libyaml has a limit of its own from 0.2.6 on, and reads ahead: which of the two is met first depends on it."""
    line, _, message = first_problem(b"[" * 100_000)
    assert line == 1
    assert re.search("inside one another|nesting depth", message)


def test_depth_below_the_limit_is_read() -> None:
    document = read_document("x.yaml", b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert document.problems == ()


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("name: core\n‸name: other\n", ["the key 'name' is already on line 1"]),
        (
            "a: 1\n‸a: 2\n‸a: 3\n",
            ["the key 'a' is already on line 1", "the key 'a' is already on line 1"],
        ),
        ("a: {b: 1, ‸b: 2}\n", ["the key 'b' is already on line 1"]),
        (
            "a: ‸&x 1\nb: ‸*x\n",
            [
                "anchors and aliases have no place in a spec ('&x'); write the value out",
                "anchors and aliases have no place in a spec ('*x'); write the value out",
            ],
        ),
        (
            "a: ‸&x [‸*x]\n",
            [
                "anchors and aliases have no place in a spec ('&x'); write the value out",
                "anchors and aliases have no place in a spec ('*x'); write the value out",
            ],
        ),
        ("a: ‸!!python/none b\n", ["tags have no place in a spec ('tag:yaml.org,2002:python/none')"]),
        ("‸1: a\n", ["a key is text, not the number 1; quote it"]),
        ("‸true: a\n", ["a key is text, not true; quote it"]),
        ("? ‸[a]\n: b\n", ["a key is text, not a list"]),
        ("? ‸{a: 1}\n: b\n", ["a key is text, not a mapping"]),
        ("a: 1\n‸---\nb: 2\n", ["a second document; a spec file holds one"]),
    ],
)
def test_what_specs_do_not_use_is_refused(text: str, messages: list[str]) -> None:
    document = read_document("x.yaml", text.replace(MARK, "").encode())
    places = [
        (number, column - line[:column].count(MARK) + 1)
        for number, line in enumerate(text.splitlines(), start=1)
        for column, character in enumerate(line)
        if character == MARK
    ]
    found = {(p.location.line, p.location.column, p.message) for p in document.problems if p.location is not None}
    assert found == {(*place, message) for place, message in zip(places, messages, strict=True)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("2026-01-31", "2026-01-31"),
        ("0.9.1", "0.9.1"),
        ("12", 12),
        ("-3", -3),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("-.inf", float("-inf")),
        ("True", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ('"true"', "true"),
        ("9" * 400, float("inf")),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    document = read_document("x.yaml", f"a: {text}\n".encode())
    node = document.mapping.get("a")
    assert isinstance(node, ScalarNode)
    assert node.value == value
    assert type(node.value) is type(value)


def test_not_a_number_is_a_float() -> None:
    node = read_document("x.yaml", b"a: .NaN").mapping.get("a")
    assert isinstance(node, ScalarNode)
    assert str(node.value) == "nan"


def test_positions_of_keys_and_values() -> None:
    root = read_document("x.yaml", "\ufeffé: [x,\n  {b: c}]\n".encode()).root
    assert isinstance(root, MappingNode)
    (entry,) = root.entries
    assert entry.mark == Mark(1, 1)
    assert isinstance(entry.value, ListNode)
    assert entry.value.mark == Mark(1, 4)
    assert [item.mark for item in entry.value.items] == [Mark(1, 5), Mark(2, 3)]


def test_getters_forgive_wrong_types() -> None:
    mapping = read_document("x.yaml", b"text: 1\nnumber: a\nflag: true\nlist: {}\none: a\n").mapping
    assert mapping.text("text") is None
    assert mapping.integer("number") is None
    assert mapping.integer("flag") is None
    assert mapping.mappings("list") == ()
    assert [node.value for node in mapping.scalars("one")] == ["a"]
    assert mapping.scalars("absent") == ()
    assert read_document("x.yaml", b"- a").mapping.entries == ()


def test_broken_file_hides_nothing_about_the_others(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write("specs/candle.yaml", b"\xff")
    repository.write("specs/phases/0-setup.yaml", "a: [")
    repository.write("specs/phases/1-core.yaml", HEAD + "requires: [0]\nrule: []\n")
    assert [str(problem).splitlines()[0] for problem in repository.rejection().problems] == [
        "specs/candle.yaml:1:1: not UTF-8 text: byte 0xff",
        "specs/phases/0-setup.yaml:1:5: " + UNFINISHED,
        "specs/phases/1-core.yaml:5:1: unknown key 'rule'; did you mean 'rules'?",
    ]


def test_whole_message_with_caret_and_help(tmp_path: Path) -> None:
    error = check_rejected(Repository(tmp_path), HEAD + "‸nam: x\n", "unknown key 'nam'; did you mean 'name'?")
    assert str(error) == (
        "invalid spec: specs/phases/1-core.yaml:4:1: unknown key 'nam'; did you mean 'name'?\n"
        "  4 | nam: x\n"
        "    | ^\n"
        "  = help: correct the spec; `candle-rocm spec schema` prints what editors need to complete and check it"
    )


def test_a_yaml_package_without_libyaml_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yaml.__with_libyaml__", False)
    with pytest.raises(ToolchainMissing, match="without libyaml") as raised:
        read_document("x.yaml", b"a: 1\n")
    assert "pip install" in str(raised.value.remedy)


@pytest.mark.parametrize(
    ("content", "line", "column", "character"),
    [
        (b'a: 1\nb: "x\\0"\n', 2, 4, "U+0000"),
        (b'a: 1\n"\\e[2J": 1\n', 2, 1, "U+001B"),
        (b'a: ["\\u2028"]\n', 1, 5, "U+2028"),
    ],
)
def test_characters_that_may_not_stand_there_may_not_be_spelled_by_an_escape(
    content: bytes, line: int, column: int, character: str
) -> None:
    message = f"the character {character} has no place in a spec, nor has an escape for it"

    problem, *_ = read_document("x.yaml", content).problems

    assert problem.location is not None
    assert (problem.location.line, problem.location.column, problem.message) == (line, column, message)
