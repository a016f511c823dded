"""rustc's matches against the scan's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from report_samples import decision

from codegen.candle.tree import CandleTree
from codegen.errors import ExitCode, UnknownSite
from codegen.verify.oracle import RustcSite
from codegen.verify.oracle_compare import (
    compare,
    comparison_entry,
    compiled_matches,
    is_compiled,
    pristine_root,
    refuse_disagreement,
)

if TYPE_CHECKING:
    from pathlib import Path


def rustc(*lines: int) -> list[RustcSite]:
    return [RustcSite("a.rs", line, 15, "not covered") for line in lines]


def scan(*lines: int) -> list[tuple[str, int]]:
    return [("a.rs", line) for line in lines]


def test_the_same_matches_agree() -> None:
    found = compare(rustc(1, 2), scan(2, 1), 2)
    assert found.agrees
    assert str(found) == "rustc 2, scan 2 exhaustive matches in candle-core (2 expected): they agree"
    refuse_disagreement(found)


def test_an_untried_release_has_no_expectation() -> None:
    found = compare(rustc(1), scan(1), None)
    assert found.agrees
    assert str(found) == "rustc 1, scan 1 exhaustive matches in candle-core: they agree"


def test_every_difference_is_named() -> None:
    found = compare(rustc(1, 2), scan(2, 3), 2)
    assert not found.agrees
    with pytest.raises(UnknownSite) as caught:
        refuse_disagreement(found)
    message = str(caught.value)
    assert "rustc 2, scan 2 exhaustive matches in candle-core (2 expected): they differ" in message
    assert "a.rs:1:1: rustc demands an arm here; the scan does not list it" in message
    assert "a.rs:3:1: the scan lists an exhaustive match; rustc demands no arm" in message
    assert caught.value.exit_code is ExitCode.UNKNOWN_SITE


def test_two_matches_on_one_line_count_twice() -> None:
    assert compare(rustc(1, 1), scan(1), None).only_rustc == (("a.rs", 1),)
    assert compare(rustc(1, 1), scan(1, 1), None).agrees


def test_agreeing_on_another_number_than_the_spec_is_a_difference() -> None:
    found = compare(rustc(1), scan(1), 2)
    assert not found.agrees
    with pytest.raises(UnknownSite, match=r"\(2 expected\): they differ"):
        refuse_disagreement(found)


def test_the_entry_lists_places() -> None:
    assert comparison_entry(compare(rustc(1), scan(), None)) == {
        "rustc": 1,
        "scan": 0,
        "expected": None,
        "agrees": False,
        "only_rustc": [{"path": "a.rs", "line": 1}],
        "only_scan": [],
    }


@pytest.mark.parametrize(
    ("gate", "compiled"),
    [
        ("", True),
        ('feature = "cuda"', False),
        ('not(feature = "cuda")', True),
        ('feature = "std"', True),
        ('any(feature = "std", feature = "cuda")', True),
        ('all(feature = "std", feature = "cuda")', False),
        ('not(any(feature = "cuda", feature = "metal"))', True),
        ('feature = "std", feature = "metal"', False),
        ("test", False),
        ('target_os = "linux"', True),
        ('all(unix, not(feature = "std"))', False),
    ],
)
def test_gates_are_evaluated(gate: str, *, compiled: bool) -> None:
    assert is_compiled(gate, frozenset({"std"})) is compiled


def test_only_what_rustc_sees_is_compared() -> None:
    seen = {"kind": "match", "exhaustive": True, "enums": ("Device",), "name": ""}
    decisions = [
        decision(at=seen),
        decision(at={**seen, "line": 3, "gate": 'feature = "cuda"'}),
        decision(at={**seen, "line": 4, "gate": 'feature = "fast"'}),
        decision(at={**seen, "line": 5, "exhaustive": False}),
        decision(at={**seen, "line": 6, "enums": ("PyDevice",)}),
        decision(at={**seen, "line": 7, "path": "candle-nn/src/ops.rs"}),
        decision(at={**seen, "line": 8, "kind": "fn"}),
    ]
    features = {"default": ("std",), "std": ("fast",), "fast": (), "cuda": ()}
    assert [line for _, line in compiled_matches(decisions, features)] == [2, 4]


def test_a_tree_without_phases_is_its_own_pristine_root(tmp_path: Path) -> None:
    assert pristine_root(CandleTree(tmp_path, "1.0.0", ()), tmp_path / "work") == tmp_path


def test_applied_phases_are_taken_out_of_the_copy(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.rs").write_text("patched")
    (root / "rocm.rs").write_text("generated")
    tree = CandleTree(root, "1.0.0", (), {"a.rs": b"pristine", "rocm.rs": None})
    copy = pristine_root(tree, tmp_path / "work")
    assert copy != root
    assert [(path.name, path.read_text()) for path in copy.iterdir()] == [("a.rs", "pristine")]
    assert (root / "a.rs").read_text() == "patched"
