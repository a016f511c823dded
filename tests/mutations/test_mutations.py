"""Plants each fault and expects the kernel tests to fail, at run time and not in the compiler.

MUTATIONS=2 in the environment plants two of each family only, far apart in its list.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.kernels.loader import LoadedFamily, load_families
from mutations.kernel_tests import KernelTests, Request, started
from mutations.mutation import Mutation, plant, read_mutations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIMIT = int(os.environ.get("MUTATIONS") or 1000)


def some_of(mutations: Sequence[Mutation]) -> Iterator[Mutation]:
    """As many as LIMIT allows, from one end of the list to the other."""
    count = min(LIMIT, len(mutations))
    return (mutations[number * len(mutations) // count] for number in range(count))


CASES = [
    pytest.param(of_family.family, mutation, id=f"{of_family.family}: {mutation.about}")
    for of_family in read_mutations(Path(__file__).parent)
    for mutation in some_of(of_family.mutations)
]

TESTS_FAILED = 1
"""pytest's exit status; 2 to 5 mean that it could not run them."""


@cache
def families() -> dict[str, LoadedFamily]:
    return {loaded.name: loaded for loaded in load_families()}


@pytest.fixture(scope="session")
def kernel_tests() -> Iterator[KernelTests]:
    with started() as running:
        yield running


def test_every_family_has_mutations() -> None:
    assert {case.values[0] for case in CASES} == set(families())


@pytest.mark.parametrize(("family", "mutation"), CASES)
def test_mutation_is_caught(family: str, mutation: Mutation, kernel_tests: KernelTests, tmp_path: Path) -> None:
    for source in plant(mutation, families()[family]).all:
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.text, encoding="utf-8")

    done = kernel_tests.run(Request(mutation.module or family, mutation.tests, str(tmp_path)))

    assert done.status == TESTS_FAILED, f"not caught:\n{done.output[-3000:]}"
    assert re.search(r"^\d+ failed", done.output, re.MULTILINE), f"no test failed:\n{done.output[-3000:]}"
    assert "hiprtcCompileProgram" not in done.output, f"does not compile:\n{done.output[-3000:]}"
    assert "SpecInvalid" not in done.output, f"a spec is broken:\n{done.output[-3000:]}"
    assert "hipModuleGetFunction" not in done.output, f"the tests need other kernels:\n{done.output[-3000:]}"
