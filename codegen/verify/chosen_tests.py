"""Steps of tests for some programs only: `verify --test NAME`."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from codegen.errors import UsageError
from codegen.spec.wording import did_you_mean
from codegen.verify.crate_targets import enabled_features, test_targets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from codegen.verify.crate_targets import Target, View
    from codegen.verify.steps import Step

UNIT_TESTS = "lib"
"""The name of the program with a library's unit tests; others have that of their file."""
ALL = "--tests"


def programs_of(step: Step, view: View) -> tuple[str, ...]:
    """The test programs that the step builds and runs, by name; none of a step that is not cargo's tests."""
    return tuple(dict.fromkeys(_named(target) for target in _targets(step, view)))


def only_programs(steps: Iterable[Step], names: Collection[str], view: View) -> tuple[Step, ...]:
    """Each step with those of its test programs that are named; a step without any of them is left out.

    Raises UsageError for a name that no step has.
    """
    of_steps = {step: programs_of(step, view) for step in steps}
    known = {name for programs in of_steps.values() for name in programs}
    for name in names:
        if name not in known:
            nearest = did_you_mean(name, known)
            raise UsageError(
                f"no step has the test program `{name}`{nearest}",
                remedy=f"choose among {', '.join(sorted(known))}" if known else "choose a step that runs tests",
            )
    narrowed = ((step, [name for name in programs if name in names]) for step, programs in of_steps.items())
    return tuple(with_programs(step, wanted) for step, wanted in narrowed if wanted)


def with_programs(step: Step, names: Iterable[str]) -> Step:
    """The step with these of its test programs."""
    others = [word for before, word in pairwise(("", *step.options)) if "--test" not in (before, word)]
    chosen = [word for name in names for word in ((f"--{UNIT_TESTS}",) if name == UNIT_TESTS else ("--test", name))]
    return replace(step, options=(*(word for word in others if word != ALL), *chosen))


def _targets(step: Step, view: View) -> Iterator[Target]:
    if step.subcommand != "test":
        return
    there = (crate for crate in step.crates if view.read(f"{crate}/Cargo.toml") is not None)
    for crate in there:
        enabled = enabled_features(view.manifest(crate), step.features)
        for target in test_targets(view, crate, enabled):
            if target.kind in ("lib", "test") and step.has_program(target.kind, target.name):
                yield target


def _named(target: Target) -> str:
    return UNIT_TESTS if target.kind == "lib" else target.name
