"""Which examples behind `required-features` a step reaches, and what it says about the others."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

from codegen.verify.feature_examples import (
    BROKEN,
    ELSEWHERE,
    EXAMPLE_FEATURES,
    NOT_BUILT,
    UNKNOWN,
    LeftOut,
    fitted,
    left_out,
)
from codegen.verify.steps import STEPS, PassCriterion, Step

MANIFEST = """
[package]
name = "candle-examples"

[dependencies]
candle = "1"
symphonia = { version = "1", optional = true }
palette = { version = "1", optional = true }
required = { version = "1" }

[features]
tekken = ["dep:palette", "chorus"]
chorus = []
both = ["symphonia"]
onnx = []

[[example]]
name = "plain"

[[example]]
name = "listens"
required-features = ["symphonia"]

[[example]]
name = "sees"
required-features = ["tekken", "chorus"]

[[example]]
name = "reads"
required-features = ["symphonia", "onnx"]

[[bench]]
name = "unheard-of"
required-features = ["palette"]
"""
STEP = Step(
    "gated-examples-on",
    "title",
    "clippy",
    ("candle-examples",),
    PassCriterion.LINT,
    1,
    features=("rocm",),
    options=("--tests",),
    gated=True,
)


def manifests(text: str = MANIFEST) -> dict[str, Any]:
    return {"candle-examples": tomllib.loads(text)}


def test_features_and_optional_dependencies_of_the_tree_are_turned_on_with_their_examples() -> None:
    step = fitted(STEP, manifests())
    assert step.features == ("rocm", "symphonia", "tekken")
    assert step.baseline_features == ("symphonia", "tekken")
    assert step.options == ("--tests", "--example", "listens", "--example", "sees")


def test_a_feature_that_no_example_needs_stays_off() -> None:
    idle = manifests(MANIFEST.replace("onnx = []", "onnx = []\nrubato = []"))
    assert fitted(STEP, idle) == fitted(STEP, manifests())
    used = manifests(
        MANIFEST.replace("onnx = []", "onnx = []\nrubato = []").replace('["symphonia"]\n\n', '["rubato"]\n\n')
    )
    assert "rubato" in fitted(STEP, used).features


def test_an_example_that_does_not_compile_is_left_out_where_it_does_not() -> None:
    broken = manifests(MANIFEST.replace('"listens"', '"voxtral"'))
    step = fitted(STEP, broken)
    assert "voxtral" not in step.options
    assert "symphonia" not in step.features
    assert LeftOut("candle-examples", "voxtral", ("tekken",), BROKEN["voxtral"][1]) in left_out(step, broken)
    mended = manifests(
        MANIFEST.replace('"listens"', '"voxtral"').replace('["symphonia"]\n\n[[', '["symphonia", "tekken"]\n\n[[')
    )
    assert "voxtral" in fitted(STEP, mended).options


def test_a_dependency_that_another_feature_names_or_that_is_not_optional_is_no_feature() -> None:
    named = manifests(MANIFEST.replace('both = ["symphonia"]', 'both = ["dep:symphonia"]'))
    assert "symphonia" not in fitted(STEP, named).features
    always = manifests(MANIFEST.replace('version = "1", optional = true', 'version = "1"'))
    assert "symphonia" not in fitted(STEP, always).features


def test_a_tree_without_the_crate_gives_nothing() -> None:
    assert fitted(STEP, {}) == STEP


def test_a_feature_is_on_where_a_release_has_it() -> None:
    tests = next(step for step in STEPS if step.id == "rocm-tests")
    with_ug = {"candle-core": tomllib.loads("[features]\nrocm = []\nug = []\n")}
    assert fitted(tests, with_ug).features == ("rocm", "ug")
    # Before it was a feature it was a dependency.
    needed = {"candle-core": tomllib.loads('[features]\nrocm = []\n[dependencies]\nug = "0.4"\n')}
    assert fitted(tests, needed).features == ("rocm",)


def test_other_steps_stay_as_they_are() -> None:
    assert all(fitted(step, manifests()) is step for step in STEPS if not step.gated)


def test_what_is_left_out_is_named_with_the_feature_and_why() -> None:
    assert left_out(fitted(STEP, manifests()), manifests()) == (
        LeftOut("candle-examples", "reads", ("onnx",), "needs protoc"),
        LeftOut("candle-examples", "unheard-of", ("palette",), UNKNOWN),
    )


def test_without_the_features_their_examples_are_left_to_the_other_step() -> None:
    step = replace(STEP, gated=False, options=("--all-targets",))
    reasons = {each.target: each.reason for each in left_out(step, manifests())}
    assert reasons == {"listens": ELSEWHERE, "sees": UNKNOWN, "reads": "needs protoc", "unheard-of": UNKNOWN}


def test_a_feature_brings_others_along() -> None:
    only = manifests(MANIFEST.replace("chorus = []", 'chorus = ["onnx"]'))
    assert "reads" not in [each.target for each in left_out(fitted(STEP, only), only)]


def test_steps_that_do_not_build_examples_leave_none_out() -> None:
    one = next(step for step in STEPS if step.id == "check-on")
    assert left_out(one, {"candle-core": {"example": [{"name": "a", "required-features": ["cuda"]}]}}) == ()


def test_a_feature_is_either_built_or_not() -> None:
    assert set(EXAMPLE_FEATURES) & set(NOT_BUILT) == set()
