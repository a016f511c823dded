"""The `cpu` lists of the kernel specs are what Candle's CPU backend answers, op by op and type by type."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.candle.fetch import fetch_release
from codegen.kernels.coverage import covered
from codegen.kernels.dtypes import expand
from codegen.kernels.loader import load_families
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.scratch import ScratchTree

if TYPE_CHECKING:
    from codegen.kernels.model import Op

pytestmark = [pytest.mark.cargo, pytest.mark.network]

PROGRAM = Path(__file__).parent / "cpu_types" / "main.rs"


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


def ops() -> dict[str, Op]:
    """Those of tensors: of quantized blocks, the CPU has no element types to ask for."""
    return {op.name: op for loaded in load_families() for op in loaded.family.ops if not loaded.family.blocks}


def test_specs_say_what_the_cpu_backend_has(answers: dict[str, frozenset[str]]) -> None:
    assert len(answers["relu"]) == 10  # the program works
    assert answers["exp"] == {"bf16", "f16", "f32", "f64", "f8e4m3"}
    asked = {name: op for name, op in ops().items() if op.part_of is None and name != "cast"}
    # Candle has no such ops; the program cannot ask for them.
    named = {name: op for name, op in asked.items() if op.cpu or name in answers}

    unasked = set(named) - set(answers)
    assert not unasked, f"tests/releases/cpu_types/main.rs does not ask for {sorted(unasked)}"
    wrong = {
        name: (sorted(types_of(op)), sorted(answers[name]))
        for name, op in named.items()
        if types_of(op) != answers[name]
    }
    assert not wrong, f"the spec's list, and Candle's: {wrong}"


def test_every_op_of_the_cpu_backend_has_kernels_for_its_types(answers: dict[str, frozenset[str]]) -> None:
    kernels = {name: covered(op) for op in ops().values() for name in (op.name, *op.serves)}
    for question, types in answers.items():
        name, _, role = question.partition(".")
        assert name in kernels, f"no kernels for {name}"
        if name == "cast" or not role:  # `where.cond` and `gather.ids` ask for other roles than the tensor's
            assert types <= {element.name for element in kernels[name]}, question
    assert "f32" in answers["cast.f8e4m3"]
