"""Which tests each release must run, by name: what is read from its sources, against the lists in `test_names/`.

Read without cargo, in seconds. A rule or template that loses a test, or a reader that no longer sees one, changes a
list here; `verify` holds the programs to the same names when it runs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.candle.tree import open_tree
from codegen.plan.build import plan_tree
from codegen.spec.loader import load_specs
from codegen.verify.feature_examples import fitted
from codegen.verify.patched_tree import Subject
from codegen.verify.scratch import member_manifests
from codegen.verify.steps import STEPS, PassCriterion
from codegen.verify.test_names import TestOrigin, expected_tests, unreached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.verify.test_names import Expected

pytestmark = [pytest.mark.network]

FOLDER = Path(__file__).parent / "test_names"
TRIED = pytest.mark.parametrize("tried", [release.version for release in load_specs().candle.releases])


def crates(subject: Subject) -> dict[str, tuple[str, ...]]:
    """The crates whose tests some step runs with cargo, each with all features of these steps."""
    features: dict[str, set[str]] = {}
    manifests = member_manifests(subject.root, subject.patched)
    for step in (fitted(each, manifests) for each in STEPS):
        if step.criterion is PassCriterion.TESTS and not step.python:
            for crate in step.crates:
                features.setdefault(crate, set()).update(step.features)
    return {crate: tuple(sorted(names)) for crate, names in features.items()}


def lines(expected: dict[str, Expected]) -> Iterator[str]:
    """`crate target origin name`, and `ignored` behind those that only `--ignored` runs."""
    for crate, found in expected.items():
        for target, tests in found.targets.items():
            for test in tests:
                yield f"{crate} {target} {test.origin} {test.name}{' ignored' if test.ignored else ''}\n"


@TRIED
def test_the_names_are_those_of_the_list(tried: str, pytestconfig: pytest.Config) -> None:
    """`make regen` writes the lists again: read the difference, each line that goes is a test that is no longer run."""
    tree = open_tree(tried)
    subject = Subject.of_plan(tree.root, plan_tree(tree, load_specs()))

    features = crates(subject)
    expected = {crate: expected_tests(subject, crate, names) for crate, names in features.items()}

    golden = FOLDER / f"{tried}.txt"
    text = "".join(lines(expected))
    if pytestconfig.getoption("--update-goldens", default=False):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.is_file(), f"{tried} has no list of tests: run `make regen`"
    assert text.splitlines() == golden.read_text(encoding="utf-8").splitlines()
    for crate, found in expected.items():
        assert found.lost == (), "the patch lost tests"
        assert found.unread == (), "tests that cannot be read from the sources"
        assert unreached(subject, crate, features[crate]) == (), "new tests that no program is compiled from"


@TRIED
def test_every_origin_is_there(tried: str) -> None:
    """In each crate that has `test_device!` tests: Candle's own, their ROCm variants and ours."""
    found = {tuple(line.split()[:3:2]) for line in (FOLDER / f"{tried}.txt").read_text(encoding="utf-8").splitlines()}

    assert {(crate, origin.value) for crate in ("candle-core", "candle-nn") for origin in TestOrigin} <= found
    assert ("candle-transformers", "ours") in found
    assert ("candle-examples", "ours") in found
