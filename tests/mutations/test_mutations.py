"""Plants each fault and expects the kernel tests to fail, at run time and not in the compiler.

MUTATIONS=2 in the environment plants the first two of each family only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from codegen.kernels.loader import LoadedFamily, load_families
from codegen.paths import repository_root
from mutations.mutation import Mutation, plant, read_mutations

LIMIT = int(os.environ.get("MUTATIONS") or 1000)
CASES = [
    pytest.param(of_family.family, mutation, id=f"{of_family.family}: {mutation.about}")
    for of_family in read_mutations(Path(__file__).parent)
    for mutation in of_family.mutations[:LIMIT]
]

TESTS_FAILED = 1
"""pytest's exit status; 2 to 5 mean that it could not run them."""


@cache
def families() -> dict[str, LoadedFamily]:
    return {loaded.name: loaded for loaded in load_families()}


def run_tests(folder: Path, expression: str, family: str) -> subprocess.CompletedProcess[str]:
    """The kernel tests of a family that `expression` names, with the sources in `folder`, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--kernel-sources", str(folder)]
    command += ["-k", expression, f"tests/kernels/test_{family}.py"]
    return subprocess.run(command, cwd=repository_root(), capture_output=True, text=True, check=False, timeout=600)


def test_every_family_has_mutations() -> None:
    assert {of_family.family for of_family in read_mutations(Path(__file__).parent)} == set(families())
    assert len(CASES) >= 30


@pytest.mark.parametrize(("family", "mutation"), CASES)
def test_mutation_is_caught(family: str, mutation: Mutation, tmp_path: Path) -> None:
    for source in plant(mutation, families()[family]).all:
        path = tmp_path / source.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.text, encoding="utf-8")

    done = run_tests(tmp_path, mutation.tests, family)

    assert done.returncode == TESTS_FAILED, f"not caught:\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
    assert "hiprtcCompileProgram" not in done.stdout, f"does not compile:\n{done.stdout[-3000:]}"
    assert "SpecInvalid" not in done.stdout, f"a spec is broken:\n{done.stdout[-3000:]}"
    assert "hipModuleGetFunction" not in done.stdout, f"the tests need other kernels:\n{done.stdout[-3000:]}"
