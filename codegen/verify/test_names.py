"""Which tests a patched Candle must run, by name, read from its sources.

A test binary that says nothing about a test is silent in the same way whether the test was taken out, never compiled or
never reached. So the names are known before cargo is asked. ROCm's variants come from Candle's own calls of
`test_device!`, not from the macro as it was patched: a variant that the patch lost is still expected here.
"""

from __future__ import annotations

import itertools
import platform
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.verify.crate_targets import Target, View, enabled_features, path_dependencies, test_targets
from codegen.verify.evidence import ExpectedNames
from codegen.verify.steps import PassCriterion
from codegen.verify.test_walk import MAKES_TEST, exported_macros, walk
from codegen.verify.testrun import program_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from codegen.verify.patched_tree import Subject
    from codegen.verify.steps import Step
    from codegen.verify.test_walk import FoundTest, Walk

ROCM = "rocm"
VARIANT = "::rocm"
"""What follows the name of CUDA's test (templates/rust/edits/test_device.rs)."""
SHOULD_PANIC = " - should panic"


class TestOrigin(StrEnum):
    """Where a test comes from."""

    __test__ = False  # not a test class of pytest

    CANDLE = "candle"
    VARIANT = "variant"
    """One of Candle's `test_device!` calls, on ROCm."""
    OURS = "ours"
    """The patch brings it."""


@dataclass(frozen=True, slots=True, order=True)
class ExpectedTest:
    """A test that a program must announce, and run unless it is ignored."""

    name: str
    """As `--list` gives it."""
    origin: TestOrigin
    ignored: bool = False
    should_panic: bool = False

    @property
    def reported(self) -> str:
        """The name as libtest writes it in the line that says what came of it."""
        return self.name + (SHOULD_PANIC if self.should_panic else "")


@dataclass(frozen=True, slots=True)
class Expected:
    """What the tests of one crate have to be."""

    targets: Mapping[Target, tuple[ExpectedTest, ...]]
    """Every test program that cargo builds, those without a test included; the tests sorted by name."""
    lost: tuple[str, ...]
    """`target name` of tests of Candle's and of their variants that the patched sources do not have."""
    unread: tuple[str, ...]
    """`file: macro!` of what makes tests in a way that is not understood here: its tests are not among `targets`."""

    def names(self, target: Target) -> frozenset[str]:
        """The names of those tests of a target that must run."""
        return frozenset(test.name for test in self.targets[target] if not test.ignored)


def expected_tests(subject: Subject, crate: str, features: Collection[str], *, variants: bool = True) -> Expected:
    """The tests of `cargo test -p CRATE --tests --features ...` on the patched tree, on this platform.

    `crate` is the name of a crate, which in Candle is also its folder. With `variants` off, those of `test_device!` on
    ROCm are not expected: of a plan without phase 3, which brings them.

    Raises KeyError when the patched tree has no such crate, ValueError when a manifest is not TOML.
    """
    patched, pristine = View(subject.root, subject.patched), View(subject.root, subject.pristine)
    enabled = enabled_features(patched.manifest(crate), features)
    now = _walks(patched, crate, enabled)
    before = _walks(pristine, crate, enabled) if pristine.read(f"{crate}/Cargo.toml") is not None else {}
    with_variants = variants and ROCM in enabled
    targets, lost = {}, []
    for target in sorted({*now, *before}):
        own = {test.name: test for test in before[target].tests} if target in before else {}
        rocm = {}
        if with_variants and target in before:
            rocm = {f"{test.name}{VARIANT}": test for test in before[target].device_tests}
        there = {test.name: test for test in now[target].tests} if target in now else {}
        tests = [
            *(_expected(test, TestOrigin.CANDLE) for test in own.values()),
            *(ExpectedTest(name, TestOrigin.VARIANT, test.ignored) for name, test in rocm.items()),
            *(_expected(test, TestOrigin.OURS) for name, test in there.items() if name not in {*own, *rocm}),
        ]
        targets[target] = tuple(sorted(tests))
        lost += [f"{target} {test.name}" for test in tests if test.name not in there]
    unread = {each for found in (*now.values(), *before.values()) for each in found.unread}
    return Expected(targets, tuple(lost), tuple(sorted(unread)))


def expected_of_step(subject: Subject, step: Step, *, variants: bool = True) -> Mapping[str, Expected]:
    """What a test step's cargo command must run, by crate: of its programs those that its options name, without the
    tests that its filters skip. Raises as `expected_tests`."""
    skipped = tuple(_values(step.filters, "--skip"))
    found = {}
    for crate in step.crates:
        expected = expected_tests(subject, crate, step.features, variants=variants)
        targets = {
            target: tuple(test for test in tests if not any(word in test.name for word in skipped))
            for target, tests in expected.targets.items()
            if step.has_program(target.kind, target.name)
        }
        found[crate] = Expected(targets, expected.lost, expected.unread)
    return found


def names_of_step(subject: Subject, step: Step, *, variants: bool = True) -> ExpectedNames | None:
    """What the test programs of a step are held to; None for a step without any. Raises as `expected_tests`."""
    if step.criterion is not PassCriterion.TESTS or step.python:
        return None
    targets, faults = {}, []
    for crate, expected in expected_of_step(subject, step, variants=variants).items():
        for target in expected.targets:
            targets[program_name(crate, target.kind, target.name)] = expected.names(target)
        faults += [f"the patch lost {crate} {lost}" for lost in expected.lost]
        faults += [f"{crate} {unread} makes tests in a way that is not understood" for unread in expected.unread]
    return ExpectedNames(targets, tuple(faults))


def unreached(subject: Subject, crate: str, features: Collection[str]) -> tuple[str, ...]:
    """New files of the crate with a test in them that no test program is compiled from, as its modules go.

    `features` have to be all that new tests ask for.
    """
    patched = View(subject.root, subject.patched)
    new = {path for path, content in subject.pristine.items() if content is None and path.startswith(f"{crate}/")}
    holding = {path for path in new if path.endswith(".rs") and MAKES_TEST.search((patched.read(path) or b"").decode())}
    reached = {
        path
        for found in _walks(patched, crate, enabled_features(patched.manifest(crate), features)).values()
        for path in found.files
    }
    return tuple(sorted(holding - reached))


def platform_options() -> frozenset[str]:
    """The `cfg` options that this platform and cargo's test profile set, as far as sources of Candle ask for them."""
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    family = "windows" if system == "windows" else "unix"
    return frozenset(
        {
            "test",
            "debug_assertions",
            'panic="unwind"',
            family,
            f'target_family="{family}"',
            f'target_os="{system}"',
            f'target_arch="{machine}"',
            'target_pointer_width="64"',
            'target_endian="little"',
        }
    )


def _walks(view: View, crate: str, enabled: frozenset[str]) -> dict[Target, Walk]:
    options = platform_options() | {f'feature="{name}"' for name in enabled}
    macros = exported_macros(view, [*path_dependencies(view, crate, development=True), crate])
    return {target: walk(view, target.path, options, macros) for target in test_targets(view, crate, enabled)}


def _expected(test: FoundTest, origin: TestOrigin) -> ExpectedTest:
    return ExpectedTest(test.name, origin, test.ignored, test.should_panic)


def _values(words: Iterable[str], option: str) -> Iterator[str]:
    """What follows each `option` among the words."""
    return (after for word, after in itertools.pairwise(words) if word == option)
