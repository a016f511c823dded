"""Which files a step compiles and runs, of a made-up workspace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codegen.verify.crate_targets import View
from codegen.verify.reach import Reader, is_evidence
from codegen.verify.steps import STEPS, PassCriterion, Step

if TYPE_CHECKING:
    from pathlib import Path

ROOT = '[workspace]\n[workspace.dependencies]\ncandle = { path = "./core", package = "core" }\n'
MANIFEST = """\
[package]
name = "{name}"
[features]
rocm = []
extra = []
"""
GATED = '[[example]]\nname = "gated"\nrequired-features = ["extra"]\n'
FILES = {
    "Cargo.toml": ROOT,
    "core/Cargo.toml": MANIFEST.format(name="core"),
    "core/build.rs": "fn main() {}\n",
    "core/src/lib.rs": """\
#[cfg(feature = "rocm")]
mod backend;
#[cfg(not(feature = "rocm"))]
mod dummy;
#[cfg(test)]
mod tests;
#[cfg(candle_rocm_absent = "amdhip64")]
mod absent;
""",
    "core/src/backend.rs": "",
    "core/src/dummy.rs": "",
    "core/src/tests.rs": "",
    "core/src/absent.rs": "",
    "core/tests/basic.rs": "mod part;\n",
    "core/tests/part/mod.rs": "",
    "core/tests/other.rs": "",
    "core/tests/provider.rs": '#![cfg(feature = "extra")]\n',
    "core/benches/main.rs": "",
    "core/examples/plain.rs": "",
    "core/examples/gated.rs": "",
    "nn/Cargo.toml": MANIFEST.format(name="nn") + GATED + "[dependencies]\ncandle.workspace = true\n",
    "nn/src/lib.rs": "",
    "nn/examples/gated.rs": "",
    "nn/examples/plain.rs": "",
}
CHECK = Step("s", "s", "check", ("core",), PassCriterion.BUILDS, phase=1)
TESTS = replace(
    CHECK, subcommand="test", criterion=PassCriterion.TESTS, options=("--tests",), features=("rocm",), device=True
)
ALWAYS = {"Cargo.toml", ".cargo/config.toml", "core/Cargo.toml", "core/build.rs"}


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(View(tmp_path, {path: text.encode() for path, text in FILES.items()}))


def compiled(reader: Reader, step: Step) -> set[str]:
    return {path for path in reader.reach(step).compiled - ALWAYS if path in FILES and path.endswith(".rs")}


def test_a_library_is_followed_with_the_features_of_the_step(reader: Reader) -> None:
    assert compiled(reader, CHECK) == {"core/src/lib.rs", "core/src/dummy.rs", "core/src/absent.rs"}
    on = replace(CHECK, features=("rocm",))
    assert compiled(reader, on) == {"core/src/lib.rs", "core/src/backend.rs", "core/src/absent.rs"}
    assert reader.reach(CHECK).ran == frozenset()
    assert reader.reach(CHECK).compiled >= ALWAYS


def test_tests_are_compiled_and_run(reader: Reader) -> None:
    reached = reader.reach(TESTS)

    assert reached.ran == {
        "core/src/lib.rs",
        "core/src/backend.rs",
        "core/src/tests.rs",
        "core/tests/basic.rs",
        "core/tests/part/mod.rs",
        "core/tests/other.rs",
    }
    assert "core/benches/main.rs" not in reached.compiled
    assert reader.reach(replace(TESTS, subcommand="clippy")).ran == frozenset()


def test_a_file_whose_own_condition_fails_is_empty_and_counts_as_not_compiled(reader: Reader) -> None:
    assert "core/tests/provider.rs" not in reader.reach(TESTS).compiled
    assert "core/tests/provider.rs" in reader.reach(replace(TESTS, features=("rocm", "extra"))).ran


def test_one_named_test(reader: Reader) -> None:
    reached = reader.reach(replace(TESTS, options=("--test", "basic")))
    assert reached.ran == {"core/tests/basic.rs", "core/tests/part/mod.rs"}
    assert "core/src/lib.rs" in reached.compiled


def test_all_targets_but_those_whose_features_are_off(reader: Reader) -> None:
    whole = replace(CHECK, crates=("nn",), options=("--all-targets",), features=("rocm",))
    assert compiled(reader, whole) == {
        "nn/src/lib.rs",
        "nn/examples/plain.rs",
        "core/src/lib.rs",
        "core/src/backend.rs",
        "core/src/absent.rs",
    }
    assert "nn/examples/gated.rs" in compiled(reader, replace(whole, features=("extra",)))
    assert reader.reach(whole).crates == {"", "nn", "core"}


def test_a_step_that_is_evidence_judges_programs_on_the_device() -> None:
    found = {step.id for step in STEPS if is_evidence(step)}
    assert {"rocm-tests", "rocm-nn-tests", "smoke-tensors"} <= found
    assert not found & {"cpu-tests-off", "cpu-tests-on", "clippy-on", "python-tests-off"}
