"""No text that is generated for any release, gating or runtime is left uncompiled, and no test of it unrun."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from codegen.verify.steps import STEPS
from releases.cover import IN_NEWEST, TABLE, fixed, in_newest, table, written
from releases.distinct import (
    UNTRIED,
    Need,
    Run,
    choices,
    cover,
    is_untried,
    needs,
    offers,
    paths_by_need,
    planned,
    untouched,
    without_gates,
)

pytestmark = [pytest.mark.network]


def test_every_distinct_text_is_compiled_and_every_distinct_test_run(pytestconfig: pytest.Config) -> None:
    """By the runs of `cover.txt` and of `newest/`, which `make test` makes."""
    offered = offers()
    wanted = {need for choice in choices() for need in needs(planned(choice))}
    if pytestconfig.getoption("--update-goldens", default=False):
        always = fixed()
        TABLE.write_text(written((*always, *cover(wanted, offered, (*always, *in_newest())))), encoding="utf-8")

    made = (*table(), *in_newest())
    assert [str(run) for run in made if run not in offered] == [], "no such step there"
    left = wanted - {need for run in made for need in offered[run]}

    assert [f"{need.what}: {need.path} {need.feature}" for need in sorted(left)] == [], "run `make regen`"
    for run in set(table()) - set(fixed()):
        others = {need for each in made if each != run for need in offered[each]}
        assert wanted - others, f"{run} does nothing that others do not: run `make regen`"
    counted = paths_by_need(wanted)
    assert min(counted.values()) > 10
    print(
        f"{counted['compiled']} distinct source texts, all compiled; {counted['run']} distinct test and kernel texts, "
        f"all run; {counted['read']} distinct manifests, all read; in {len(made)} steps"
    )


def test_the_cheapest_runs_are_chosen_and_needless_ones_dropped() -> None:
    a, b, c, d = (Need("compiled", path, "text") for path in ("a.rs", "b.rs", "c.rs", "d.rs"))
    runs = [Run("1.0.0", "dummy", "rocm-rs", step) for step in ("all", "ab", "bc", "d", "cd")]
    done = dict(zip(runs, (frozenset(each) for each in ((a, b, c, d), (a, b), (b, c), (d,), (c, d))), strict=True))
    whole, first, _, last, second = runs

    def dear(run: Run) -> float:
        return 9 if run == whole else 1

    def even(run: Run) -> float:
        return 1

    assert cover((a, b, c, d), done, (), dear) == (first, second)
    assert cover((a, b, c, d), done, (), even) == (whole,)
    assert cover((a, b, d), done, (first,), dear) in ((last,), (second,))
    assert cover((a, b), done, (first,), dear) == ()
    with pytest.raises(AssertionError, match="offered by some run"):
        cover((a, Need("run", "e.rs", "text")), done, (), even)


def test_a_test_is_the_same_in_both_gatings_but_for_attributes_that_are_true() -> None:
    plain = b"match device {\n    Device::Rocm(_) => near(),\n}\n"
    gated = plain.replace(b"    Device", b'    #[cfg(feature = "rocm")]\n    Device')
    other = gated.replace(b'"rocm"', b'"cuda"')

    assert without_gates(gated) == without_gates(plain) == plain
    assert without_gates(other) == other


def test_what_no_step_reaches_is_written_down() -> None:
    left = defaultdict(list)
    for choice in choices():
        for path in untouched(planned(choice)):
            left[path].append(choice.release)

    assert {path: found for path, found in left.items() if not is_untried(path)} == {}
    assert all(UNTRIED.values())


def test_newest_runs_what_the_table_says() -> None:
    """The steps that tests of the newest release name are those that count as run there."""
    known = {step.id for step in STEPS}
    here = Path(__file__).parent
    literals = {
        name
        for path in (here / "newest/test_newest_release.py", here / "test_newest_lints.py")
        for name in re.findall(r'"([\w-]+)"', path.read_text(encoding="utf-8"))
    }
    assert {step for _, _, step in IN_NEWEST} == literals & known
