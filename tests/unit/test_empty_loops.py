"""No test passes because there was nothing to look at; and the search for such tests, on tests made up for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from empty_loops import EmptyLoop, empty_loops
from some import some

TESTS = Path(__file__).parents[1]


def test_no_test_has_all_its_assertions_in_a_loop_that_may_be_empty() -> None:
    modules = some(sorted(TESTS.rglob("test_*.py")))
    found = {path: list(empty_loops(path.read_text(encoding="utf-8"))) for path in modules}

    assert [f"{path}:{each.line}: {each.test}" for path, loops in found.items() for each in loops] == []


@pytest.mark.parametrize(
    "body",
    [
        "for x in found():\n        assert x",
        "for x in OTHERS:\n        assert x",
        "for x in sorted(folder.glob('*')):\n        check(x)",
        "with some_file() as file:\n        for line in file:\n            assert line",
        "for x in [y for y in (1, 2) if y > 5]:\n        assert x",
        "for x in ():\n        assert x",
        "for x in range(len(found())):\n        with pytest.raises(ValueError):\n            x()",
        "if found():\n        for x in found():\n            assert x",
    ],
)
def test_a_loop_that_may_be_empty(body: str) -> None:
    line = 2 + body[: body.index("for ")].count("\n")
    assert list(empty_loops(f"def test_it(folder):\n    {body}\n")) == [EmptyLoop("test_it", line)]


@pytest.mark.parametrize(
    "body",
    [
        "for x in some(found()):\n        assert x",
        "for x in (1, 2):\n        assert x",
        "for x in enumerate(KNOWN):\n        assert x",
        "for x in itertools.product(KNOWN, (True, False)):\n        assert x",
        "for x in Gating:\n        assert x",
        "for x in range(3):\n        assert x",
        "own = ['a']\n    for x in own:\n        assert x",
        "assert found()\n    for x in found():\n        assert x",
        "for x in found():\n        assert x\n    assert len(seen) == 3",
        "for x in found():\n        print(x)",
        "with pytest.raises(ValueError):\n        for x in found():\n            assert x",
    ],
)
def test_a_loop_that_is_none_or_does_not_matter(body: str) -> None:
    assert list(empty_loops(f"KNOWN = ('a', 'b')\n\ndef test_it():\n    {body}\n")) == []


def test_laws_may_hold_of_nothing() -> None:
    law = "@given(lists())\ndef test_law(found):\n    for x in found:\n        assert x\n"
    assert list(empty_loops(law)) == []
    assert len(list(empty_loops(law.removeprefix("@given(lists())\n")))) == 1


def test_some_is_more_than_none() -> None:
    assert some(iter("ab")) == ("a", "b")
    with pytest.raises(AssertionError, match="nothing here"):
        some([])
