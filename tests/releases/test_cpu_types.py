"""The `cpu` lists of the kernel specs are what Candle's CPU backend answers, op by op and type by type."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.candle.fetch import fetch_release
from codegen.kernels.dtypes import expand
from codegen.kernels.loader import load_families
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.scratch import ScratchTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.kernels.model import Op

pytestmark = [pytest.mark.cargo, pytest.mark.network]

PROGRAM = Path(__file__).parent / "cpu_types" / "main.rs"

ASKED_AS: Mapping[str, str] = {}
"""Ops of the specs whose question to Candle has another name, because Candle has them as parts of another op."""


@pytest.fixture(scope="module")
def answers(newest: str, work: Path) -> dict[str, frozenset[str]]:
    """The element types of each op that the program asks for, by its name."""
    target = work / "target"
    tree = ScratchTree(work / "scratch" / f"{newest}-cpu-types", target)
    environment = cargo_environment(target)
    with tree.exclusive():
        tree.sync(fetch_release(newest), {"candle-nn/examples/cpu_types.rs": PROGRAM.read_bytes()})
        build = ["build", "-p", "candle-nn", "--example", "cpu_types"]
        run = run_cargo(tree.root, build, log=work / "logs" / "cpu_types.log", environment=environment)
        assert run.ok, run.complaint
        program = target / "debug" / "examples" / "cpu_types"
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0]: frozenset(line.split()[1:]) for line in lines}


def types_of(op: Op) -> frozenset[str]:
    return frozenset(element.name for element in expand(op.cpu))


def test_specs_say_what_the_cpu_backend_has(answers: dict[str, frozenset[str]]) -> None:
    ops = {op.name: op for loaded in load_families() for op in loaded.family.ops}
    questions = {name: ASKED_AS.get(name, name) for name in ops}
    assert len(answers["relu"]) == 10  # the program works
    assert answers["exp"] == {"bf16", "f16", "f32", "f64", "f8e4m3"}

    unasked = {name for name, question in questions.items() if question not in answers}
    assert not unasked, f"tests/releases/cpu_types/main.rs does not ask for {sorted(unasked)}"
    wrong = {
        name: (sorted(types_of(op)), sorted(answers[questions[name]]))
        for name, op in ops.items()
        if types_of(op) != answers[questions[name]]
    }
    assert not wrong, f"the spec's list, and Candle's: {wrong}"
