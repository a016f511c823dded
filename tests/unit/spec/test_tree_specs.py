"""The candle-rocm.yaml of a tree: what is wrong with it is said with its place, however hostile it is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.errors import SpecInvalid
from codegen.plan.select import glob_matches
from codegen.spec.loader import load_specs
from codegen.spec.tree_model import TreeGlob
from codegen.spec.tree_specs import with_tree_specs

OURS = load_specs()
RULE = "rules:\n  - id: tree.one\n    sites: {kind: fn, name: a}\n"


def problems(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(SpecInvalid) as caught:
        with_tree_specs(OURS, text.encode())
    return [
        (each.location.line, each.location.column, each.message)
        for each in caught.value.problems
        if each.location is not None
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        pytest.param("rules: 7\n", 1, 8, "expected a list, got the number 7", id="list"),
        pytest.param("files: []\n", 1, 1, "unknown key 'files'", id="files"),
        pytest.param("modules: []\n", 1, 1, "unknown key 'modules'", id="modules"),
        pytest.param(RULE + "    verb: mirror\n", 4, 11, "verb 'mirror' needs a phase that writes it", id="phase"),
        pytest.param(RULE + "    verb: mirror\n    phase: 8\n", 5, 12, "expected 7 or less", id="phase-8"),
        pytest.param(RULE + "    verb: leave\n", 4, 11, "verb 'leave' needs a reason", id="reason"),
        pytest.param(
            RULE + "    verb: leave\n    reason: 'fill in: why?'\n", 5, 13, "a person has to write this", id="fill-in"
        ),
        pytest.param(
            RULE + "    verb: override\n    phase: 1\n    reason: another answer\n", 4, 11, "needs a text", id="text"
        ),
        pytest.param(RULE + "    verb: mirror\n    phase: 1\n    text: x\n", 6, 5, "takes no text", id="no-text"),
        pytest.param(
            RULE + "    verb: override\n    phase: 1\n    reason: another answer\n    template: ../x.j2\n",
            7,
            5,
            "unknown key 'template'",
            id="template",
        ),
        pytest.param(
            "rules:\n  - id: core.mine\n    sites: {kind: fn}\n    verb: swap\n    phase: 1\n",
            2,
            9,
            "the id of a tree's rule begins with 'tree.'",
            id="id",
        ),
        pytest.param(
            RULE + "    verb: mirror\n    instead_of: core.dispach\n",
            5,
            17,
            "did you mean 'core.dispatch'",
            id="instead",
        ),
        pytest.param(
            "crates:\n  - {name: candle-core, rocm: false, reason: not for us}\n",
            2,
            12,
            "know 'candle-core'",
            id="known",
        ),
        pytest.param("crates:\n  - {name: mine, rocm: false}\n", 2, 24, "needs a reason", id="crate"),
        pytest.param("backends:\n  - {name: Cuda, reason: not for us here}\n", 2, 12, "know 'Cuda' already", id="cuda"),
        pytest.param(
            "foreign:\n  - {path: ../../etc/*, reason: far away from here}\n", 2, 12, "is not a path inside", id="path"
        ),
        pytest.param(
            "rules:\n  - id: tree.one\n    sites: {path: " + "'*a*a*a*a*a*a*a*a*a'}\n    verb: swap\n    phase: 1\n",
            3,
            19,
            "at most 8 stars",
            id="stars",
        ),
        pytest.param('crates:\n  - {name: "a\\u001b[31m", rocm: true}\n', 2, 12, "U+001B has no place", id="escape"),
    ],
)
def test_a_fault_is_said_with_its_place(text: str, line: int, column: int, message: str) -> None:
    found = problems(text)
    assert any((at, col) == (line, column) and message in said for at, col, said in found), found


def test_what_a_selector_searches_for_is_no_regular_expression() -> None:
    text = RULE.replace("name: a", "text: '(a+)+$ [b]'") + "    verb: mirror\n    phase: 1\n"
    loaded = with_tree_specs(OURS, text.encode())
    assert loaded.tree is not None
    ((_, rule),) = loaded.tree.rules
    assert rule.sites.text == r"\(a\+\)\+\$\ \[b\]"


def test_lists_are_added_to_ours_and_entries_have_places() -> None:
    text = "crates:\n  - {name: mine, rocm: true}\nprotected: [my_slice]\n" + RULE + "    verb: mirror\n    phase: 5\n"
    loaded = with_tree_specs(OURS, text.encode())
    index = len(OURS.candle.crates)
    assert loaded.candle.crates[index].name == "mine"
    assert loaded.candle.crates[:index] == OURS.candle.crates
    assert loaded.where(f"crates[{index}]") == "candle-rocm.yaml:2"
    assert loaded.where("tree.one") == "candle-rocm.yaml:5"
    assert loaded.candle.protected[-1] == "my_slice"
    assert loaded.tree is not None
    assert [phase for phase, _ in loaded.tree.rules] == [5]


def test_a_file_with_ten_thousand_faults_is_read_in_seconds_and_says_the_first_fifty() -> None:
    start = time.process_time()
    with pytest.raises(SpecInvalid) as caught:
        with_tree_specs(OURS, b"rules:\n" + b"- {}\n" * 10_000)
    assert time.process_time() - start < 10
    assert len(caught.value.problems) == 51
    assert caught.value.problems[-1].message.startswith("and ")


def test_a_glob_of_a_tree_takes_linear_time() -> None:
    start = time.process_time()
    assert not glob_matches(TreeGlob("**a" * 8 + "b"), "a" * 1000)
    assert time.process_time() - start < 1


@given(st.text(st.sampled_from("ab/*?"), max_size=8), st.text(st.sampled_from("ab/"), max_size=8))
def test_law_a_glob_of_a_tree_matches_what_one_of_ours_does(glob: str, value: str) -> None:
    assert glob_matches(TreeGlob(glob), value) is glob_matches(glob, value)


def refused(content: bytes) -> bool:
    """Whether the specs are invalid; any other exception is a bug."""
    try:
        with_tree_specs(OURS, content)
    except SpecInvalid:
        return True
    return False


@given(st.binary(max_size=200))
def test_law_any_bytes_are_valid_or_refused(content: bytes) -> None:
    assert refused(content) in (True, False)


@given(st.text("rules:[]{}-\n \"'tree.a,", max_size=100))
def test_law_any_text_is_valid_or_refused(text: str) -> None:
    assert refused(text.encode()) in (True, False)
