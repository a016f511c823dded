"""The modules that execute kernels (emulator/runtime/src/exec) know each other in one direction only."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

EXEC = Path(__file__).parents[2] / "emulator/runtime/src/exec"
_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_LEADS_UP = re.compile(r"\b(?:super|crate::exec)::(?:(\w+)|\{([^;]*)\})")
_ITEMS = re.compile(r"::\{[^{}]*\}")
_COMMENT = re.compile(r"//.*")


def known(sources: dict[str, str]) -> dict[str, set[str]]:
    """The modules that each one names; `mod` is the folder's own, which has what no module of this name has."""
    graph = {}
    for name, source in sources.items():
        text = _COMMENT.sub("", _TESTS.sub("", source))
        declared = re.findall(r"^mod (\w+);", text, re.MULTILINE)
        graph[name] = set(declared)
        for one, several in _LEADS_UP.findall(text):
            found = [one] if one else re.findall(r"(?:^|,)\s*(\w+)", _ITEMS.sub("", several))
            graph[name] |= {each if each in sources else "mod" for each in found} if name != "mod" else set()
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, its first one twice; none if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle() -> None:
    sources = {file.stem: file.read_text(encoding="utf-8") for file in EXEC.glob("*.rs")}
    graph = known(sources)
    assert graph["mod"] == set(sources) - {"mod"}  # each file is a module
    assert {"engine", "checker", "describe"} <= graph["check"]
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("use super::a::A;", {"a"}),
        ("use super::{a, b::{B, C}};", {"a", "b"}),
        ("fn f() { crate::exec::b::run() }", {"b"}),
        ("use super::Launch;", {"mod"}),
        ("// as super::a\nuse crate::memory::Arena;", set()),
        ("#[cfg(test)]\nmod tests {\n    use super::*;\n    use super::super::a::A;\n}\n", set()),
    ],
)
def test_what_a_module_knows(source: str, expected: set[str]) -> None:
    assert known({"mod": "mod a;\nmod b;\nmod c;\n", "a": "", "b": "", "c": source})["c"] == expected


def test_a_circle_is_named() -> None:
    sources = {"mod": "mod a;\nmod b;\n", "a": "use super::b::B;", "b": "use super::a::A;"}
    assert set(circle(known(sources))) == {"a", "b"}
    assert circle(known(sources | {"b": "use super::Launch;"})) != []
    assert circle(known(sources | {"b": ""})) == []
