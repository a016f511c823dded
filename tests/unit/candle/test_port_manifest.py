"""The feature `rocm` that a port gives a crate."""

from __future__ import annotations

import tomllib

import pytest

from codegen.candle.port_manifest import CUDA_ONLY, Entry, port_manifest

HEAD = '[package]\nname = "mine"\n\n'
CANDLE = '[dependencies]\ncandle = { package = "candle-core", version = "0.11" }\n'


def feature(text: str, *own: str) -> tuple[list[str], tuple[Entry, ...]]:
    """The entries of the new feature, and what is said of the rest; everything else stays."""
    made = port_manifest(HEAD + text, "Cargo.toml", {}, set(own))
    after = tomllib.loads(made.text)
    entries = after["features"].pop("rocm")
    before = tomllib.loads(HEAD + text)
    assert after == {**before, "features": before.get("features", {})}
    return entries, made.entries


def test_what_cuda_turns_on_has_a_twin() -> None:
    entries, said = feature(
        '[features]\ncuda = ["candle/cuda", "nn?/cuda", "dep:half", "half/std", "fast"]\nfast = []\n' + CANDLE
    )
    assert entries == ["candle/rocm", "dep:half", "half/std", "fast"]
    assert [(each.what, each.outcome) for each in said] == [
        ("feature cuda: candle/cuda", "mirrored"),
        ("feature cuda: nn?/cuda", "by hand"),
        ("feature cuda: dep:half", "mirrored"),
        ("feature cuda: half/std", "mirrored"),
        ("feature cuda: fast", "mirrored"),
    ]
    assert {each.line for each in said} == {5}


@pytest.mark.parametrize("crate", CUDA_ONLY)
def test_crates_of_cudas_own_are_named_with_the_reason(crate: str) -> None:
    entries, said = feature(
        f'[features]\ncuda = ["dep:{crate}"]\n{CANDLE}{crate} = {{ version = "1", optional = true }}\n'
    )
    assert entries == ["candle/rocm"]
    assert [(each.outcome, each.note) for each in said] == [("by hand", CUDA_ONLY[crate])]


def test_other_features_that_turn_cuda_on_are_named() -> None:
    text = '[features]\ndefault = ["gpu"]\ngpu = ["cuda"]\ncuda = ["candle/cuda"]\n' + CANDLE
    made = port_manifest(HEAD + text, "Cargo.toml", {}, set())
    assert made.default_cuda
    assert [each.what for each in made.entries] == ["feature cuda: candle/cuda", "feature gpu"]


def test_cuda_without_a_feature_is_named() -> None:
    text = '[dependencies]\ncandle-core = { version = "0.11", features = ["cuda"] }\ncudarc = "0.1"\n'
    entries, said = feature(text)
    assert entries == ["candle-core/rocm"]
    assert [each.what for each in said] == ["dependency candle-core, with cuda", "dependency cudarc"]


def test_packages_of_the_same_workspace_are_ported_as_well() -> None:
    text = '[features]\ncuda = ["candle/cuda", "kernels/cuda"]\n' + CANDLE + 'kernels = { path = "../kernels" }\n'
    assert feature(text, "kernels")[0] == ["candle/rocm", "kernels/rocm"]
    assert feature(text)[0] == ["candle/rocm"]


def test_a_feature_that_is_there_is_extended_and_a_virtual_manifest_left() -> None:
    text = HEAD + '[features]\ncuda = ["candle/cuda", "dep:half"]\nrocm = ["candle/rocm"]\n' + CANDLE
    made = port_manifest(text, "Cargo.toml", {}, set())
    assert tomllib.loads(made.text)["features"]["rocm"] == ["candle/rocm", "dep:half"]
    assert port_manifest(made.text, "Cargo.toml", {}, set()).text == made.text
    assert port_manifest("[workspace]\n", "Cargo.toml", {}, set()).text == "[workspace]\n"
