"""Counting sites, and putting decisions into words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import PHASES, decision, scan_of, specs

from codegen.errors import ExitCode, UsageError
from codegen.patch.changes import Origin
from codegen.plan.model import State
from codegen.report.origin_wording import Authorship
from codegen.report.site_filter import SiteFilter
from codegen.report.summary import NO_CRATE, summarise
from codegen.report.wording import full_item, outcome, plural, site_line, spec_line, untried_note


def test_every_site_is_counted_in_its_phase_crate_and_state() -> None:
    scan = scan_of(
        decision(),
        decision(crate="candle-nn"),
        decision(State.PENDING, stand_in=1),
        decision(State.LEFT),
        decision(State.UNKNOWN, crate=""),
    )
    summary = summarise(scan, PHASES)
    assert str(summary) == "5 sites: 2 handled, 1 not applied, 1 left alone, 1 unknown"
    assert [str(count) for count in summary.phases] == [
        "phase 0 setup: 0 handled",
        "phase 1 core: 2 handled, 1 stand-in",
        "phase 2 later: 1, not applied",
    ]
    assert {count.crate: (count.phases, count.left, count.unknown, count.total) for count in summary.crates} == {
        NO_CRATE: ((0, 0, 0), 0, 1, 1),
        "candle-core": ((0, 1, 1), 1, 0, 3),
        "candle-nn": ((0, 1, 0), 0, 0, 1),
    }


@given(st.lists(st.sampled_from(list(State))))
def test_the_sums_of_all_tables_agree(states: list[State]) -> None:
    summary = summarise(scan_of(*map(decision, states)), PHASES)
    assert summary.total == len(states) == sum(crate.total for crate in summary.crates)
    assert sum(count.handled + count.pending for count in summary.phases) == summary.handled + summary.pending
    assert sum(entry.count for entry in summary.left_alone) == summary.left


def test_a_lone_site_is_not_plural() -> None:
    assert str(summarise(scan_of(decision()), PHASES)).startswith("1 site: 1 handled")
    assert plural(1, "file") == "1 file"
    assert plural(0, "file") == "0 files"


def test_reasons_with_most_sites_come_first() -> None:
    rare = decision(State.LEFT, rule="a.rare", reason="seldom")
    scan = scan_of(rare, decision(State.LEFT), decision(State.LEFT))
    found = [(entry.rule, entry.count, entry.reason) for entry in summarise(scan, PHASES).left_alone]
    assert found == [("core.left", 2, "only CUDA has it"), ("a.rare", 1, "seldom")]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (decision(), "handled in phase 1"),
        (decision(State.PENDING), "phase 2, not applied"),
        (decision(State.PENDING, stand_in=1), "phase 2, not applied (stand-in in phase 1)"),
        (decision(State.LEFT), "left alone"),
        (decision(State.UNKNOWN), "unknown"),
    ],
)
def test_outcomes(made: object, words: str) -> None:
    assert outcome(made) == words  # type: ignore[arg-type]


def test_a_site_is_one_line() -> None:
    assert site_line(decision(State.LEFT)) == (
        "candle-core/src/device.rs:2:5 enum Device::Cuda -> left alone (core.left, leave; only CUDA has it)"
    )
    bare = decision(State.UNKNOWN, at={"item": "", "name": "", "kind": "use"}, reason="why")
    assert site_line(bare) == "candle-core/src/device.rs:2:5 use -> unknown (why)"


def test_a_macro_that_is_the_kind_is_not_named_twice() -> None:
    assert full_item(decision(at={"kind": "matches!", "name": "matches"}).site) == "Device"
    assert full_item(decision(at={"kind": "macro-arg", "name": "forward"}).site) == "Device::forward"


def test_the_spec_line_of_rules_crates_and_nothing() -> None:
    assert spec_line(decision(), specs()) == "specs/phases/1-core.yaml:9"
    assert spec_line(decision(State.LEFT, rule="candle.crates", crate="candle-lab"), specs()) == "specs/candle.yaml:4"
    assert spec_line(decision(State.UNKNOWN), specs()) is None


def test_the_note_on_an_untried_release_names_those_that_were() -> None:
    assert untried_note("9.9.9", specs().candle.releases) == (
        "this version of candle-rocm was not tested with Candle 9.9.9 (tested: 0.11.1); continuing"
    )


def test_text_says_how_it_was_made() -> None:
    made = Authorship.of([decision(), decision(State.PENDING, stand_in=1), decision(rule="core.swap", verb="swap")])
    where = "specs/phases/1-core.yaml:9"
    assert made.source(Origin("core.dispatch", where, 1)) == "mirrored from CUDA"
    assert made.source(Origin("core.swap", where, 1)) == "swapped with CUDA"
    assert made.source(Origin("later.storage", where, 1)) == "stand-in until phase 2"
    assert made.source(Origin("later.storage", where, 2)) == "mirrored from CUDA"
    assert made.source(Origin("core.file", where, 1, "rust/a.rs.j2")) == "templates/rust/a.rs.j2"
    assert made.source(Origin("setup.dependency", where, 0)) == "the spec entry itself"
    assert made.made_by(Origin("core.dispatch", where, 1)) == f"rule core.dispatch, {where}, mirrored from CUDA"


def chosen(**given: list[object]) -> list[str]:
    keys = {"states": [], "phases": [], "kinds": [], "paths": [], **given}
    sites = [
        decision(),
        decision(State.PENDING, stand_in=1, at={"kind": "match"}),
        decision(State.LEFT, at={"path": "a/b/c.rs"}),
    ]
    return [each.state.value for each in SiteFilter.of(**keys).select(sites)]  # type: ignore[arg-type]


def test_filters_narrow_and_none_selects_all() -> None:
    assert chosen() == ["handled", "not applied", "left alone"]
    assert chosen(states=["left alone"]) == ["left alone"]
    assert chosen(kinds=["match"]) == ["not applied"]
    assert chosen(paths=["a/**"]) == ["left alone"]
    assert chosen(paths=["a/*"]) == []
    assert chosen(kinds=["match"], states=["handled"]) == []
    assert SiteFilter().selects_all
    assert not SiteFilter(kinds=frozenset({"match"})).selects_all


def test_a_stand_in_counts_for_the_phase_that_writes_it() -> None:
    assert chosen(phases=[1]) == ["handled", "not applied"]
    assert chosen(phases=[2]) == ["not applied"]


def test_a_kind_that_no_site_has_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        chosen(kinds=["matches"])
    assert "there is no site of kind 'matches'" in str(caught.value)
    assert "matches!" in caught.value.remedy
    assert caught.value.exit_code is ExitCode.USAGE
