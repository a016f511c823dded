"""Indices out of range: the CPU's errors in debug builds, harmless where CANDLE_ROCM_CHECK_INDICES=0 asks for that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from some import some

if TYPE_CHECKING:
    from backend.conftest import Probe

pytestmark = [pytest.mark.cargo, pytest.mark.network]

WRONG = {"one": 7, "two": 7, "negative": 2**64 - 2}
"""The first wrong index of each choice, as a usize."""


class Case(NamedTuple):
    """An operation with indices of a type."""

    operation: str
    dtype: str
    which: str


def answers(probe: Probe, *, checked: bool | None) -> dict[Case, tuple[str, str]]:
    """What the GPU answers, and the CPU; `None` leaves it to the build, which is a debug build."""
    found = {}
    variables = {} if checked is None else {"CANDLE_ROCM_CHECK_INDICES": str(int(checked))}
    for line in probe.lines("indices", **variables):
        match = re.fullmatch(r"(\w+) (\w+) (\w+): (.*) / (.*)", line)
        assert match, line
        operation, dtype, which, ours, cpu = match.groups()
        found[Case(operation, dtype, which)] = (ours, cpu)
    assert len(found) == 5 * (4 + 4 + 5)
    return found


@pytest.mark.parametrize("checked", [True, None])
def test_checked_indices_are_the_cpus_errors(probe: Probe, *, checked: bool | None) -> None:
    for case, (ours, cpu) in some(answers(probe, checked=checked).items()):
        if case.which in WRONG:
            name = case.operation.replace("_", "-")
            assert ours == f"error {name} invalid index {WRONG[case.which]} with dim size 6", case
            # The CPU backend calls scatter and scatter_add gather, too.
            assert cpu in (ours, ours.replace(name, "gather")), case
        else:
            assert ours == cpu, case


def test_unchecked_indices_are_left_out(probe: Probe) -> None:
    found = answers(probe, checked=False)
    for case, (ours, cpu) in some(found.items()):
        if case.which in WRONG:
            assert cpu.startswith("error"), case
        else:
            assert ours == cpu, case
        if case.which in ("one", "negative"):
            assert ours == found[case._replace(which="unused")][0], case
