"""Which rule speaks about a site."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.plan.select import RuleBook, glob_matches, selects
from codegen.spec.kinds import Gating, Verb
from codegen.spec.model import PhaseSpec, Rule, Selector
from codegen.syntax.site import Site

SITE = Site(
    path="candle-core/src/storage.rs",
    kind="match",
    start=10,
    end=90,
    line=3,
    column=9,
    item="Storage::scale",
    name="",
    snippet="match self {",
    enums=("Storage",),
    gate='feature = "cuda"',
    exhaustive=True,
)
TEXT = "match self { Self::Cuda(storage) => 1, _ => 2 }"


@pytest.mark.parametrize(
    ("selector", "other"),
    [
        ({"kind": "match"}, {"kind": "fn"}),
        ({"kind": ["fn", "match"]}, {"kind": ["fn", "use"]}),
        ({"crate": "candle-core"}, {"crate": ["candle-nn", "candle-pyo3"]}),
        ({"path": "candle-core/src/*.rs"}, {"path": "candle-core/*.rs"}),
        ({"path": ["nothing", "**/storage.rs"]}, {"path": "*/storage.rs"}),
        ({"item": "Storage::*"}, {"item": "Device::*"}),
        ({"item": "Storage::scale"}, {"item": "Storage"}),
        ({"name": ""}, {"name": "scale"}),
        ({"enum": ["Device", "Storage"]}, {"enum": "Device"}),
        ({"gate": '*feature = "cuda"*'}, {"gate": ""}),
        ({"exhaustive": True}, {"exhaustive": False}),
        ({"text": r"Cuda\(\w+\)"}, {"text": "metal"}),
        ({}, {"metal_only": True}),
        ({"kind": "match", "crate": "candle-core"}, {"kind": "match", "crate": "candle-nn"}),
    ],
)
def test_every_key_decides(selector: dict[str, object], other: dict[str, object]) -> None:
    """Each case is one selector that takes the site, and one with the same keys that does not."""
    assert selects(Selector.model_validate(selector), SITE, "candle-core", TEXT)
    assert not selects(Selector.model_validate(other), SITE, "candle-core", TEXT)


def test_metal_only_sites_are_selected_on_purpose_only() -> None:
    metal = replace(SITE, metal_only=True)

    assert not selects(Selector(), metal, "candle-core", TEXT)
    assert selects(Selector(metal_only=True), metal, "candle-core", TEXT)


@pytest.mark.parametrize(
    ("glob", "value", "matches"),
    [
        ("a/*.rs", "a/b.rs", True),
        ("a/*.rs", "a/b/c.rs", False),
        ("a/**", "a/b/c.rs", True),
        ("a/**/c.rs", "a/b/d/c.rs", True),
        ("moe**", "moe/mod.rs", True),
        ("moe**", "moe.rs", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("cuda_fwd*", "my_cuda_fwd", False),
        ("tests.rs", "testsXrs", False),
        ("", "", True),
        ("*", "", True),
        ("*", "a\nb", True),
        ("[ab]", "a", False),
    ],
)
def test_globs(glob: str, value: str, matches: bool) -> None:  # noqa: FBT001 - a column of the table
    assert glob_matches(glob, value) is matches


@given(st.text(max_size=20), st.text(st.sampled_from("ab/*.?["), max_size=8))
def test_law_globs_never_fail_and_text_matches_itself(value: str, glob: str) -> None:
    glob_matches(glob, value)
    if not set("*?") & set(value):
        assert glob_matches(value, value)
    assert glob_matches("**", value)


def rule(name: str, **keys: object) -> Rule:
    return Rule.model_validate({"id": f"core.{name}", "sites": {}, "verb": "mirror", **keys})


def found(*rules: Rule, gating: Gating = Gating.DUMMY, release: str = "0.11.1") -> str | None:
    phase = PhaseSpec(phase=1, name="core", summary="", rules=rules)
    book = RuleBook.of([phase], release=release, gating=gating)
    answer = book.find(SITE, "candle-core", TEXT)
    return answer.rule.id if answer is not None else None


def test_the_first_rule_that_matches_speaks() -> None:
    assert found(rule("one", sites={"kind": "fn"}), rule("two"), rule("three")) == "core.two"
    assert found(rule("one", sites={"kind": "fn"})) is None


def test_fallback_rules_are_asked_last() -> None:
    assert found(rule("last", fallback=True), rule("first")) == "core.first"
    assert found(rule("last", fallback=True), rule("first", sites={"kind": "fn"})) == "core.last"


def test_fallback_rules_come_after_the_rules_of_later_phases() -> None:
    early, late = rule("unseen", fallback=True), rule("late")
    phases = [
        PhaseSpec(phase=1, name="a", summary="", rules=(early,)),
        PhaseSpec(phase=5, name="b", summary="", rules=(late,)),
    ]

    book = RuleBook.of(phases, release="0.11.1", gating=Gating.DUMMY)

    answer = book.find(SITE, "candle-core", TEXT)
    assert answer is not None
    assert (answer.rule, answer.phase) == (late, 5)


def test_rules_of_another_gating_or_release_are_silent() -> None:
    gated = rule("gated", gating="cfg", verb="leave", reason="not with this gating")
    assert found(gated, rule("two")) == "core.two"
    assert found(gated, rule("two"), gating=Gating.CFG) == "core.gated"
    assert gated.verb is Verb.LEAVE

    old, new = rule("old", until="0.9.1"), rule("new")
    assert found(old, new) == "core.new"
    assert found(old, new, release="0.9.1") == "core.old"
