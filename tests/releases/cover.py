"""Which steps of `verify` are run on which release, gating and runtime: the data that tests/releases runs from.

`cover.txt` is made from the plans of all releases, so that each distinct text that is generated is compiled and each
distinct test is run (test_distinct_texts.py); `make regen` makes it again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime
from codegen.spec.loader import load_specs
from releases.distinct import Choice, Run

TABLE = Path(__file__).with_name("cover.txt")
HEADER = "# release gating runtime step [crate [program]]: what tests/releases runs. From `make regen` (distinct.py).\n"
NAMED = tuple(os.environ.get("RELEASES", "").split())
"""CI's share: only these releases, and of each only what it is built with as a rule."""
FULL = pytest.mark.skipif(bool(NAMED), reason="not in the share that RELEASES leaves")
"""What others do in greater part, and a user can ask `verify` for all the same."""
USUAL = (Gating.DUMMY.value, DEFAULT_RUNTIME.value)
(OTHER,) = (runtime.value for runtime in Runtime if runtime is not DEFAULT_RUNTIME)
OF_THE_NEWEST = ("clippy-off", "cuda", "cuda-and-rocm", "doc-on")
OF_CORE = ((Gating.CFG.value, DEFAULT_RUNTIME.value, "clippy-on"),)
"""CI's share of the newest release in the other gating, for candle-core. tests/backend builds the other runtime."""
IN_NEWEST = (
    *((*USUAL, step) for step in ("all-targets-on", "rocm-tests", "rocm-nn-tests", "rocm-models-tests")),
    *((*USUAL, step) for step in ("rocm-python-tests", "cpu-tests-off", "clippy-providers-on", "rocm-providers-tests")),
    *((*USUAL, step) for step in ("rocm-own-products-tests", "rocm-parallel-tests")),
    *((*USUAL, step) for step in ("all-targets-off", "gated-examples-off", "gated-examples-on", "rocm-examples-tests")),
    *((*USUAL, step) for step in ("check-off", "check-on", "rocm-basic", "cpu-tests-on", "python-tests-off")),
    (*USUAL, "smoke-tensors"),
    (Gating.DUMMY.value, OTHER, "clippy-providers-on"),
)
"""What the tests in `newest/` and test_newest_lints.py run."""


class Group(NamedTuple):
    """Steps that one run of `verify` makes."""

    release: str
    gating: str
    runtime: str
    package: str
    steps: tuple[str, ...]
    programs: tuple[str, ...] = ()
    """The test programs that they are narrowed to."""

    def __str__(self) -> str:
        return "-".join(filter(None, (*self[:4], *self.programs)))


def tried() -> tuple[str, ...]:
    """The releases of specs/candle.yaml."""
    return tuple(release.version for release in load_specs().candle.releases)


def fixed() -> tuple[Run, ...]:
    """What is run whether or not a text needs it: that each release builds, and that the oldest and newest pass, of the
    newest every operation in the gating that is not usual, too; of candle-nn one between them as well, since a test
    whose text all have runs on one of them otherwise, and their CPUs do not all answer it alike."""
    oldest, *_, newest = tried()
    between = tried()[len(tried()) // 2]
    return (
        *(Run(name, *USUAL, "clippy-on") for name in tried()),
        Run(oldest, *USUAL, "rocm-tests"),
        Run(between, *USUAL, "rocm-nn-tests"),
        Run(newest, Gating.CFG.value, DEFAULT_RUNTIME.value, "rocm-tests", "candle-core", "rocm_matrix"),
        *(Run(newest, *USUAL, step) for step in OF_THE_NEWEST),
    )


def in_newest() -> tuple[Run, ...]:
    """What the tests in `newest/` and test_newest_lints.py run."""
    return tuple(Run(tried()[-1], *each) for each in IN_NEWEST)


def table() -> tuple[Run, ...]:
    """The runs of `cover.txt`."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.is_file() else []
    return tuple(Run(*line.split()) for line in lines if line and not line.startswith("#"))


def written(runs: tuple[Run, ...]) -> str:
    """The text of `cover.txt` for these runs, older releases first."""
    order = {name: number for number, name in enumerate(tried())}
    ordered = sorted(set(runs), key=lambda run: (order[run.release], run))
    return HEADER + "".join(f"{run}\n" for run in ordered)


def groups() -> list[Group]:
    """What is run here, one group for each run of `verify`: all, or CI's share."""
    found: dict[tuple[Choice, str, str], list[Run]] = {}
    for run in share() if NAMED else table():
        # Programs are chosen for one step; other steps are run together.
        found.setdefault((run.choice, run.package, run.step if run.program else ""), []).append(run)
    return [
        Group(
            *choice,
            package,
            tuple(dict.fromkeys(run.step for run in runs)),
            tuple(filter(None, (r.program for r in runs))),
        )
        for (choice, package, _), runs in found.items()
    ]


def share() -> tuple[Run, ...]:
    """What RELEASES leaves: of each named release the usual build, of the last one every other build.

    The newest release's tests are in `newest/`.
    """
    last = NAMED[-1]
    return (
        *(Run(name, *USUAL, "clippy-on") for name in NAMED),
        *(Run(last, *USUAL, step) for step in OF_THE_NEWEST),
        *(Run(last, *each, "candle-core") for each in OF_CORE),
    )
