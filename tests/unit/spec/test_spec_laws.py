"""Whatever the bytes of a spec file are, the answer is a valid spec or located problems, never a traceback."""

from __future__ import annotations

import re
import tempfile
import warnings
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from spec_repository import CANDLE, CORE, SETUP, Repository

from codegen.errors import SpecInvalid
from codegen.spec.check import check
from codegen.spec.document import ListNode, MappingNode, Node, read_document
from codegen.spec.loader import load_specs
from codegen.spec.model import CandleSpec, PhaseSpec
from codegen.spec.validation import validate

PIECES = [
    "\t", "\n", "\r", "  ", "- ", ": ", "? ", ", ", "#", "[", "]", "{", "}", "&a ", "*a", "!x ", "!!int ", "|\n",
    "'", '"', '"\\ud800"', '"\\U0011FFFF"', "%YAML 1.1\n", "---\n", "...\n", "<<: *a\n", "@", "`", "~",
    "\x00", "\x0c", "\x85", "\u2028", "\ufeff", "é", "\U0001f600",
    "1e999", ".nan", "0x1f", "9" * 30, "yes", "a{99999999999}", "(?P<a", "[[a]",
    "phase: 1\n", "rules:\n", "  - id: core.a\n", "    verb: mirror\n", "    sites: {kind: fn}\n", "cargo: {}\n",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid spec file in which a few places were overwritten."""
    text = draw(st.sampled_from([CANDLE, SETUP, CORE]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.sampled_from(PIECES)) + text[end:]
    return text.encode()


any_bytes = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(str.encode),
    st.lists(st.sampled_from(PIECES), max_size=40).map(lambda pieces: "".join(pieces).encode()),
    damaged(),
)


def nodes(node: Node) -> list[Node]:
    inner: list[Node] = []
    if isinstance(node, MappingNode):
        inner = [entry.value for entry in node.entries]
    elif isinstance(node, ListNode):
        inner = list(node.items)
    return [node, *(descendant for child in inner for descendant in nodes(child))]


@settings(max_examples=150, deadline=None)
@given(any_bytes)
def test_any_bytes_give_a_spec_or_located_problems(content: bytes) -> None:
    document = read_document("specs/phases/1-x.yaml", content)
    lines = document.text.splitlines()
    assert (document.root is None) <= bool(document.problems)
    for model in (CandleSpec, PhaseSpec):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # re.compile warns about odd but valid expressions
            instance, found = validate(document, model)
        assert instance is not None or found or document.problems
        for problem in (*document.problems, *found, *check(document, [document], ["a"])):
            place = problem.location
            assert place is not None
            assert 1 <= place.line <= len(lines) + 1
            assert 1 <= place.column <= (len(lines[place.line - 1]) if place.line <= len(lines) else 0) + 1
            str(problem).encode()  # can be printed


@settings(max_examples=30, deadline=None)
@given(damaged())
def test_loading_damaged_files_raises_nothing_but_spec_invalid(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        repository = Repository(Path(folder))
        repository.write("specs/phases/1-core.yaml", content)
        error = rejection(repository)
    if error is not None:
        found = [problem.location for problem in error.problems]
        assert None not in found
        keys = [(place.file, place.line, place.column) for place in found if place is not None]
        assert keys == sorted(keys)
        assert re.match(r"invalid spec: specs/\S+:\d+:\d+: ", str(error))


def rejection(repository: Repository) -> SpecInvalid | None:
    try:
        load_specs(repository.root)
    except SpecInvalid as error:
        return error
    return None


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "Zs", "P"]), max_size=30))
def test_quoted_text_is_read_as_it_is(text: str) -> None:
    escaped = text.replace("'", "''")
    document = read_document("x.yaml", f"a: '{escaped}'\n".encode())
    assert document.problems == ()
    assert document.mapping.text("a") == text


@settings(max_examples=50, deadline=None)
@given(any_bytes)
def test_every_node_lies_in_the_file(content: bytes) -> None:
    document = read_document("x.yaml", content)
    if document.root is not None:
        lines = len(document.text.splitlines())
        assert all(1 <= node.mark.line <= lines + 1 for node in nodes(document.root))
