"""The names of the tests that a patched crate must run, read from made-up sources."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from codegen.verify.patched_tree import OnDisk, Subject
from codegen.verify.steps import PassCriterion, Step
from codegen.verify.test_names import Expected, TestOrigin, expected_of_step, expected_tests, unreached

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = """\
[package]
name = "{name}"
[features]
default = ["std"]
std = []
cuda = []
more = ["most"]
most = []
"""
ROCM = "rocm = []\n"
DEVICE = """\
#[macro_export]
macro_rules! test_device {
    ($f: ident, $cpu: ident, $cuda: ident) => {
        #[test]
        fn $cpu() {
            $f(0)
        }

        #[cfg(feature = "cuda")]
        #[test]
        fn $cuda() {
            $f(1)
        }
    };
}
"""
VARIANT = """\
        #[cfg(feature = "rocm")]
        mod $cuda {
            #[test]
            fn rocm() {
                $f(2)
            }
        }
    };
"""
PATCHED_DEVICE = DEVICE.replace("    };\n", VARIANT)


@dataclass(frozen=True)
class Candle:
    """A workspace of core and nn on disk, and what a plan would lay over it."""

    root: Path
    pristine: dict[str, str] = field(default_factory=dict)
    patched: dict[str, str | None] = field(default_factory=dict)

    def with_files(self, files: dict[str, str], **patched: str) -> Candle:
        return replace(self, pristine={**self.pristine, **files}, patched={**self.patched, **patched})

    def subject(self) -> Subject:
        for path, text in self.pristine.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(textwrap.dedent(text), encoding="utf-8")
        encoded = {
            path: text if text is None else textwrap.dedent(text).encode() for path, text in self.patched.items()
        }
        before = {path: self.pristine[path].encode() if path in self.pristine else None for path in self.patched}
        return Subject(self.root, OnDisk.UNPATCHED, encoded, before)

    def expected(self, crate: str = "core", *features: str) -> Expected:
        return expected_tests(self.subject(), crate, features or ("rocm",))


def named(expected: Expected) -> list[str]:
    return [f"{target} {test.origin} {test.name}" for target, tests in expected.targets.items() for test in tests]


@pytest.fixture
def candle(tmp_path: Path) -> Candle:
    manifest = MANIFEST.format(name="core")
    return Candle(
        tmp_path,
        {
            "Cargo.toml": '[workspace]\n[workspace.dependencies]\ncandle = { path = "core", package = "core" }\n',
            "core/Cargo.toml": manifest,
            "core/src/lib.rs": "mod device;\n",
            "core/src/device.rs": DEVICE,
            "core/tests/ops.rs": "core::test_device!(add, add_cpu, add_cuda);\n",
        },
        {"core/Cargo.toml": manifest + ROCM, "core/src/device.rs": PATCHED_DEVICE},
    )


def test_a_device_test_has_its_variant_on_rocm(candle: Candle) -> None:
    expected = candle.expected()

    assert named(expected) == ["ops candle add_cpu", "ops variant add_cuda::rocm"]
    assert {str(target): expected.names(target) for target in expected.targets} == {
        "lib:core": frozenset(),
        "ops": {"add_cpu", "add_cuda::rocm"},
    }
    assert (expected.lost, expected.unread) == ((), ())


def test_a_variant_that_the_patch_lost_is_expected_nevertheless(candle: Candle) -> None:
    lost = replace(candle, patched={**candle.patched, "core/src/device.rs": DEVICE}).expected()

    assert named(lost) == ["ops candle add_cpu", "ops variant add_cuda::rocm"]
    assert lost.lost == ("ops add_cuda::rocm",)


def test_a_test_that_the_patch_takes_away_is_expected_nevertheless(candle: Candle) -> None:
    gone = replace(candle, patched={**candle.patched, "core/tests/ops.rs": ""}).expected()

    assert named(gone) == ["ops candle add_cpu", "ops variant add_cuda::rocm"]
    assert gone.lost == ("ops add_cpu", "ops add_cuda::rocm")


def test_without_the_feature_or_the_phase_there_is_no_variant(candle: Candle) -> None:
    assert named(candle.expected("core", "more")) == ["ops candle add_cpu"]
    assert named(expected_tests(candle.subject(), "core", ("rocm",), variants=False))[0] == "ops candle add_cpu"


def test_tests_of_the_patch_are_ours(candle: Candle) -> None:
    new: dict[str, str | None] = {
        "core/tests/rocm_basic.rs": '#![cfg(feature = "rocm")]\n#[test]\nfn works() {}\n',
        "core/src/lib.rs": "mod device;\nmod pool;\n",
        "core/src/pool/mod.rs": "#[cfg(test)]\nmod tests;\n",
        "core/src/pool/tests.rs": "#[test]\nfn splits() {}\n",
    }
    ours = replace(candle, patched={**candle.patched, **new})

    assert named(ours.expected()) == [
        "lib:core ours pool::tests::splits",
        "ops candle add_cpu",
        "ops variant add_cuda::rocm",
        "rocm_basic ours works",
    ]
    assert unreached(ours.subject(), "core", ("rocm",)) == ()


def test_a_new_test_file_that_nothing_declares_is_named(candle: Candle) -> None:
    new: dict[str, str | None] = {
        "core/src/pool/tests.rs": "#[test]\nfn splits() {}\n",
        "core/src/plain.rs": "fn f() {}\n",
    }
    ours = replace(candle, patched={**candle.patched, **new})

    assert unreached(ours.subject(), "core", ("rocm",)) == ("core/src/pool/tests.rs",)


def test_modules_are_followed_as_rustc_does(candle: Candle) -> None:
    nested = candle.with_files(
        {
            "core/src/lib.rs": """\
                mod a;
                mod inline {
                    mod b;
                }
                #[path = "odd/name.rs"]
                mod c;
                #[path = "../tests/shared.rs"]
                mod shared;
                #[cfg(feature = "off")]
                mod gone;
                """,
            "core/src/a.rs": "mod deep;\n",
            "core/src/a/deep.rs": "#[test]\nfn t() {}\n",
            "core/src/inline/b/mod.rs": "mod beside;\n",
            "core/src/inline/b/beside.rs": "#[test]\nfn t() {}\n",
            "core/src/odd/name.rs": "mod sibling;\n",
            "core/src/odd/sibling.rs": 'include!("included.rs");\n',
            "core/src/odd/included.rs": "#[test]\nfn t() {}\n",
            "core/tests/shared.rs": "#[test]\nfn t() {}\n",
            "core/tests/whole/main.rs": "mod part;\n",
            "core/tests/whole/part.rs": "#[test]\nfn t() {}\n",
        }
    )

    assert [each for each in named(nested.expected()) if "ops" not in each] == [
        "lib:core candle a::deep::t",
        "lib:core candle c::sibling::t",
        "lib:core candle inline::b::beside::t",
        "lib:core candle shared::t",
        "shared candle t",
        "whole candle part::t",
    ]


def test_a_module_whose_file_is_not_there_is_named(candle: Candle) -> None:
    (unread,) = candle.with_files({"core/tests/ops.rs": "mod absent;\n"}).expected().unread

    assert unread == "core/tests/absent.rs: is not there"


def test_conditions_and_marks(candle: Candle) -> None:
    marked = candle.with_files(
        {
            "core/tests/ops.rs": """\
                #[test]
                #[cfg(feature = "std")]
                fn by_default() {}
                #[cfg(not(feature = "std"))]
                #[test]
                fn never() {}
                #[test]
                #[ignore = "slow"]
                fn ignored() {}
                #[test]
                #[cfg_attr(unix, should_panic(expected = "x, y"))]
                fn panics() {}
                #[tokio::test]
                async fn later() {}
                #[cfg(feature = "most")]
                #[test]
                fn most() {}
                """
        }
    )
    expected = marked.expected("core", "more")
    ops = next(target for target in expected.targets if target.name == "ops")

    assert [test.reported for test in expected.targets[ops]] == [
        "by_default",
        "ignored",
        "later",
        "most",
        "panics - should panic",
    ]
    assert expected.names(ops) == {"by_default", "later", "most", "panics"}


def test_macros_that_wrap_macros_are_expanded(candle: Candle) -> None:
    wrapped = candle.with_files(
        {
            "core/tests/ops.rs": """\
                macro_rules! product {
                    ($f: ident, $cpu: ident, $cuda: ident, $type: expr) => {
                        fn $f(d: u8) {
                            go(d, $type);
                        }

                        test_device!($f, $cpu, $cuda);
                    };
                }
                mod m {
                    product!(f, f_cpu, f_cuda, Types::of([1, 2]));
                }
                plain!(x);
                """
        }
    )

    assert named(wrapped.expected()) == ["ops candle m::f_cpu", "ops variant m::f_cuda::rocm"]


@pytest.mark.parametrize(
    "text",
    [
        "paste::paste! {\n    #[test]\n    fn [<a b>]() {}\n}\n",
        "macro_rules! each {\n    ($($n: ident),*) => { $(#[test] fn $n() {})* };\n}\neach!(a, b);\n",
        "test_device!(f, f_cpu);\n",
    ],
)
def test_calls_that_are_not_understood_are_named(candle: Candle, text: str) -> None:
    (unread,) = candle.with_files({"core/tests/ops.rs": text}).expected().unread

    assert unread.startswith("core/tests/ops.rs: ")
    assert unread.endswith("!")


def test_other_ways_to_mark_a_test_are_named(candle: Candle) -> None:
    text = "#[rstest]\nfn cases() {}\n"
    assert candle.with_files({"core/tests/ops.rs": text}).expected().unread == ("core/tests/ops.rs: cases",)


def test_targets_are_those_that_cargo_builds(candle: Candle) -> None:
    named_targets = """\
        [[test]]
        name = "odd"
        path = "elsewhere/odd.rs"
        [[test]]
        name = "gated"
        required-features = ["cuda"]
        [[test]]
        name = "own_main"
        harness = false
        [[bin]]
        name = "quiet"
        test = false
        """
    manifest = MANIFEST.format(name="core") + textwrap.dedent(named_targets)
    test = "#[test]\nfn t() {}\n"
    files = {
        "core/Cargo.toml": manifest,
        "core/elsewhere/odd.rs": test,
        "core/tests/gated.rs": test,
        "core/tests/own_main.rs": test,
        "core/src/main.rs": test,
        "core/src/bin/tool.rs": test,
        "core/src/bin/quiet.rs": test,
    }
    tree = candle.with_files(files)
    tree = replace(tree, patched={**tree.patched, "core/Cargo.toml": manifest})

    assert [str(target) for target in tree.expected("core", "more").targets] == [
        "bin:core",
        "bin:tool",
        "lib:core",
        "odd",
        "ops",
    ]


def test_macros_of_other_crates_of_the_workspace(candle: Candle) -> None:
    manifest = MANIFEST.format(name="nn") + ROCM + "[dev-dependencies]\ncandle.workspace = true\n"
    tree = candle.with_files(
        {
            "nn/Cargo.toml": manifest,
            "nn/src/lib.rs": "",
            "nn/tests/t.rs": "candle::test_device!(f, f_cpu, f_cuda);\n",
        }
    )

    assert named(tree.expected("nn")) == ["t candle f_cpu", "t variant f_cuda::rocm"]


def test_a_crate_that_is_not_there(candle: Candle) -> None:
    with pytest.raises(KeyError):
        candle.expected("absent")


def test_a_step_runs_what_its_options_and_filters_leave(candle: Candle) -> None:
    step = Step("s", "s", "test", ("core",), PassCriterion.TESTS, phase=1, features=("rocm",), options=("--tests",))
    other = candle.with_files({"core/tests/other.rs": "#[test]\nfn t() {}\n"}).subject()

    whole = expected_of_step(other, step)["core"]
    one = expected_of_step(other, replace(step, options=("--test", "ops"), filters=("--skip", "::rocm")))["core"]

    assert named(whole) == ["ops candle add_cpu", "ops variant add_cuda::rocm", "other candle t"]
    assert named(one) == ["ops candle add_cpu"]
    assert {test.origin for tests in one.targets.values() for test in tests} == {TestOrigin.CANDLE}
