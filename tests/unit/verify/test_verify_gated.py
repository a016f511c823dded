"""Which examples behind `required-features` a step reaches, and what it says about the others."""

from __future__ import annotations

import tomllib
from typing import Any

from codegen.verify.gated import EXAMPLE_FEATURES, NOT_BUILT, UNKNOWN, LeftOut, fitted, left_out
from codegen.verify.steps import STEPS, Judge, Step

MANIFEST = """
[package]
name = "candle-examples"

[dependencies]
candle = "1"
symphonia = { version = "1", optional = true }
palette = { version = "1", optional = true }
required = { version = "1" }

[features]
depth_anything_v2 = ["dep:palette", "both"]
both = ["symphonia"]
onnx = []

[[example]]
name = "plain"

[[example]]
name = "listens"
required-features = ["symphonia"]

[[example]]
name = "sees"
required-features = ["depth_anything_v2", "symphonia"]

[[example]]
name = "reads"
required-features = ["symphonia", "onnx"]

[[bench]]
name = "unheard-of"
required-features = ["palette"]
"""
STEP = Step(
    "all-targets-on",
    "title",
    "clippy",
    ("candle-core", "candle-examples"),
    Judge.LINT,
    1,
    features=("rocm",),
    options=("--all-targets",),
    optional_features=("depth_anything_v2", "palette", "required", "symphonia", "tekken"),
)


def manifests(text: str = MANIFEST) -> dict[str, Any]:
    return {"candle-core": {"package": {"name": "candle-core"}}, "candle-examples": tomllib.loads(text)}


def test_features_and_optional_dependencies_of_the_tree_are_turned_on() -> None:
    """`palette` is no feature, because another one names it with `dep:`; `required` is not optional."""
    step = fitted(STEP, manifests())
    assert step.features == ("rocm", "depth_anything_v2", "symphonia")
    assert step.baseline_features == ("depth_anything_v2", "symphonia")


def test_a_step_about_other_crates_gets_none() -> None:
    assert fitted(STEP, {"candle-core": manifests()["candle-core"]}).features == ("rocm",)


def test_what_is_left_out_is_named_with_the_feature_and_why() -> None:
    assert left_out(fitted(STEP, manifests()), manifests()) == (
        LeftOut("candle-examples", "reads", ("onnx",), "needs protoc"),
        LeftOut("candle-examples", "unheard-of", ("palette",), UNKNOWN),
    )


def test_a_feature_brings_others_along() -> None:
    only = manifests(MANIFEST.replace('both = ["symphonia"]', 'both = ["onnx"]\nsymphonia = ["dep:symphonia"]'))
    assert "reads" not in [each.target for each in left_out(fitted(STEP, only), only)]


def test_steps_that_do_not_build_examples_leave_none_out() -> None:
    one = next(step for step in STEPS if step.id == "check-on")
    assert left_out(one, {"candle-core": {"example": [{"name": "a", "required-features": ["cuda"]}]}}) == ()


def test_a_feature_is_either_built_or_not() -> None:
    assert set(EXAMPLE_FEATURES) & set(NOT_BUILT) == set()
