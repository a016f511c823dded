"""specs/parity.yaml: what it says of a release, and where it contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.errors import InputOutputError, SpecInvalid
from codegen.spec.parity import PARITY, load_parity, parse_parity

if TYPE_CHECKING:
    from pathlib import Path

VALID = """\
crates: [{name: candle-core}]
names: cuda
features: {cuda: cuda, rocm: rocm}
further:
  - {item: candle_core::Ug, until: 0.11.0, reason: its fields are of CUDA only}
uses:
  candle_core::A: 3
answers:
  - item: candle_core::A
    form: candle_core::B
    how: bytes instead of elements
  - within: candle_core::cuda
    item: [C, D::e]
    since: 0.9.2
    none: there is nothing alike
  - within: candle_core::cuda
    item: C
    until: 0.9.2-alpha.2
    missing: typed memory comes first
"""


def test_what_it_says_of_a_release() -> None:
    parity = parse_parity(VALID.encode())

    old, new = parity.answers_in("0.9.1"), parity.answers_in("0.11.1")
    assert old.keys() == {"candle_core::A", "candle_core::cuda::C"}
    assert new.keys() == {"candle_core::A", "candle_core::cuda::C", "candle_core::cuda::D::e"}
    assert (old["candle_core::cuda::C"].answer.missing, new["candle_core::cuda::C"].answer.none) == (
        "typed memory comes first",
        "there is nothing alike",
    )
    assert str(new["candle_core::cuda::D::e"].place) == f"{PARITY}:13:15"
    assert [(further.item, str(place)) for further, place in parity.further_in("0.11.0")] == [
        ("candle_core::Ug", f"{PARITY}:5:5")
    ]
    assert list(parity.further_in("0.11.1")) == []
    assert [(name, place.line) for name, place in parity.uses] == [("candle_core::A", 7)]


@pytest.mark.parametrize(
    ("before", "after", "message", "line"),
    [
        ("    none: there is nothing alike\n", "", "say one of `form`, `none` and `missing`", 12),
        (
            "    none:",
            "    missing: a thing that comes later\n    none:",
            "say one of `form`, `none` and `missing`",
            12,
        ),
        ("    how: bytes instead of elements\n", "", "`form` and `how` go together", 9),
        ("    none:", "    how: somehow different\n    none:", "`form` and `how` go together", 12),
        ("none: there is nothing alike", "none: no", "at least 10", 15),
        ("item: [C, D::e]", "item: []", "at least 1", 13),
        ("item: [C, D::e]", "item: [C, C]", "line 13 answers candle_core::cuda::C, too", 13),
        ("until: 0.9.2-alpha.2", "until: 0.9.2", "line 13 answers candle_core::cuda::C, too", 17),
        ("    until: 0.9.2-alpha.2\n", "", "line 13 answers candle_core::cuda::C, too", 17),
        ("since: 0.9.2", "since: 0.9.2\n    until: 0.9.1", "no release lies between 0.9.2 and 0.9.1", 13),
        ("candle_core::A: 3", "candle_core::A: 0", "expected 1 or more", 7),
        ("crates: [{name: candle-core}]", "crates: []", "at least 1", 1),
        ("names: cuda", "nams: cuda", "nams", 2),
        ("features: {cuda: cuda, rocm: rocm}", "features: {cuda: cuda}", "rocm", 3),
    ],
)
def test_contradictions_are_findings_with_their_line(before: str, after: str, message: str, line: int) -> None:
    assert VALID.count(before) == 1
    with pytest.raises(SpecInvalid) as caught:
        parse_parity(VALID.replace(before, after).encode())

    found = [(problem.message, problem.location.line) for problem in caught.value.problems if problem.location]
    assert any(message in said and at == line for said, at in found), found


def test_a_repository_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputOutputError, match=r"cannot read specs/parity\.yaml: No such file"):
        load_parity(tmp_path)


def test_what_ships_answers_each_item_for_a_reason() -> None:
    parity = load_parity()

    assert len(parity.answers) > 50
    assert len(parity.uses) > 40
