"""Manifests and cargo's configuration: what a phase adds, where, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up import CORE_MANIFEST, grow, replace_in
from some import some

from codegen.candle.tree import Crate, open_tree
from codegen.errors import Conflict
from codegen.patch.attributed_text import EditedText
from codegen.patch.changes import Origin, Region
from codegen.plan.cargo import CONFIG, feature_entries, manifests
from codegen.spec.kinds import Runtime
from codegen.spec.loader import load_specs
from codegen.spec.model import CargoFeature, CargoSpec, PhaseSpec

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.spec.loaded import LoadedSpecs


@pytest.fixture(scope="module")
def specs() -> LoadedSpecs:
    return load_specs()


def setup_of(root: Path, specs: LoadedSpecs) -> dict[str, EditedText]:
    return manifests(open_tree(root), specs.phases[0], specs, Runtime.ROCM_RS, {})


def lines_by_rule(entry: EditedText) -> dict[str, list[str]]:
    lines = entry.text.splitlines()
    found: dict[str, list[str]] = {}
    for region in entry.regions:
        found.setdefault(region.origin.rule, []).extend(lines[region.first - 1 : region.last])
    return found


def test_each_added_line_knows_its_rule(pristine: Path, specs: LoadedSpecs) -> None:
    made = setup_of(pristine, specs)

    assert lines_by_rule(made[CORE_MANIFEST]) == {
        "setup.rocm-rs": ["rocm-rs = { workspace = true, optional = true }"],
        "setup.feature": ['rocm = ["dep:rocm-rs"]'],
        "setup.smoke-target": ["", "[[example]]", 'name = "rocm_smoke"', 'required-features = ["rocm"]'],
    }
    assert lines_by_rule(made["Cargo.toml"]) == {
        "setup.rocm-rs": ['rocm-rs = { version = "0.5.2", default-features = false, features = ["macros"] }']
    }
    (config,) = lines_by_rule(made[CONFIG]).values()
    assert config[0] == "[env]"
    assert config[-1] == 'SKIP_BINDGEN = "1"'


def test_every_other_line_stays(pristine: Path, specs: LoadedSpecs) -> None:
    for path, entry in some(setup_of(pristine, specs).items()):
        before = (pristine / path).read_text().splitlines() if (pristine / path).exists() else []
        added = {line for region in entry.regions for line in range(region.first, region.last + 1)}
        assert [line for number, line in enumerate(entry.text.splitlines(), 1) if number not in added] == before


def test_crates_without_rocm_are_not_touched(pristine: Path, specs: LoadedSpecs) -> None:
    assert set(setup_of(pristine, specs)) == {
        CONFIG,
        "Cargo.toml",
        *(f"candle-{name}/Cargo.toml" for name in ("core", "nn", "transformers", "examples", "pyo3")),
    }


def test_a_crate_that_the_tree_lacks_is_passed_over(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / "Cargo.toml", ', "candle-pyo3"', "")

    assert "candle-pyo3/Cargo.toml" not in setup_of(candle, specs)


def test_a_configuration_that_is_there_is_extended(candle: Path, specs: LoadedSpecs) -> None:
    grow(candle, {CONFIG: '[build]\nrustflags = ["-C", "target-cpu=native"]\n'})

    entry = setup_of(candle, specs)[CONFIG]

    assert entry.text.startswith('[build]\nrustflags = ["-C", "target-cpu=native"]\n')
    assert entry.text.endswith('SKIP_BINDGEN = "1"\n')
    assert [(region.first, region.last) for region in entry.regions] == [(3, len(entry.text.splitlines()))]


def test_an_entry_in_another_form_is_a_conflict(candle: Path, specs: LoadedSpecs) -> None:
    grow(candle, {CONFIG: '[env]\nSKIP_BINDGEN = "0"\n'})

    with pytest.raises(
        Conflict, match=r'\.cargo/config\.toml:2:1: `SKIP_BINDGEN` is in \[env\] with another value: "0"'
    ):
        setup_of(candle, specs)


def test_what_is_there_as_wanted_is_not_a_change(pristine: Path, specs: LoadedSpecs) -> None:
    phase = specs.phases[0]
    done = manifests(open_tree(pristine), phase, specs, Runtime.ROCM_RS, {})

    assert manifests(open_tree(pristine), phase, specs, Runtime.ROCM_RS, done) == {}


def test_a_later_phase_moves_the_regions_of_an_earlier_one(pristine: Path, specs: LoadedSpecs) -> None:
    """The second phase writes above what the first one wrote."""
    first = EditedText("[features]\ncuda = []\nlast = []\n", (Region(3, 3, Origin("one.last", "a.yaml:1", 0)),))
    feature = CargoFeature(id="setup.feature", name="rocm", mirrors="cuda")
    phase = PhaseSpec(phase=1, name="two", summary="", cargo=CargoSpec(features=(feature,)))

    made = manifests(open_tree(pristine), phase, specs, Runtime.ROCM_RS, {CORE_MANIFEST: first})

    assert lines_by_rule(made[CORE_MANIFEST]) == {"one.last": ["last = []"], "setup.feature": ["rocm = []"]}


FEATURE = CargoFeature(id="setup.feature", name="rocm", mirrors="cuda", extra={"candle-core": ("dep:rocm-rs",)})


def entries(name: str, *cuda: str) -> list[str] | None:
    crates = {each: Crate(each, each, f"{each}/Cargo.toml", {}) for each in ("candle-core", "candle-nn")}
    return feature_entries(FEATURE, Crate(name, name, f"{name}/Cargo.toml", {"cuda": cuda} if cuda else {}), crates)


@pytest.mark.parametrize(
    ("cuda", "rocm"),
    [
        (("candle/cuda",), ["candle/rocm"]),
        (("candle-core/cuda", "candle-nn/cuda"), ["candle-core/rocm", "candle-nn/rocm"]),
        (("candle-nn?/cuda",), ["candle-nn?/rocm"]),
        (("candle/cudnn", "cudarc", "dep:cudarc", "cudarc/cuda"), []),
        (("candle-flash-attn/cuda", "candle-flash-attn?/cuda"), []),
    ],
)
def test_feature_entries(cuda: tuple[str, ...], rocm: list[str]) -> None:
    assert entries("candle-examples", *cuda) == rocm


def test_extra_entries_come_first() -> None:
    assert entries("candle-core", "candle-nn/cuda") == ["dep:rocm-rs", "candle-nn/rocm"]


def test_a_crate_without_the_cuda_feature_gets_none() -> None:
    assert entries("candle-core") is None
