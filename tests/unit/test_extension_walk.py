"""docs/extend.md, walked in a copy of the repository: what a new element type and a new unary operation touch.

The page lists the places. The edits here are made there and nowhere else, and leaving any of them out is noticed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from made_up import candle_tree, replace_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAGE = "docs/extend.md"
OP = "candle-core/src/op.rs"
BACKEND = "candle-core/src/rocm_backend"
CPU_TYPES = "tests/releases/cpu_types/main.rs"
Edits = dict[str, tuple[tuple[str, str], ...]]

SOFTSIGN = """\
  - name: softsign
    about: x / (1 + |x|).
    types: {dtype: float}
    cpu: float
    expressions: {float: x / (1 + fabs(x))}
"""
TYPE: Edits = {
    "codegen/kernels/dtypes.py": (('    DType("u32"', '    DType("u16", 2, Kind.INTEGER),\n    DType("u32"'),),
    CPU_TYPES: (("[DType; 10]", "[DType; 11]"), ("    DType::U32,\n", "    DType::U16,\n    DType::U32,\n")),
}
OPERATION: Edits = {
    "specs/kernels/unary.yaml": (("  - name: sigmoid\n", f"{SOFTSIGN}  - name: sigmoid\n"),),
    "tests/kernels/test_unary.py": (('    "tanh"', '    "softsign": lambda x: x / (1 + np.abs(x)),\n    "tanh"'),),
    CPU_TYPES: (("tanh floor", "tanh softsign floor"),),
}
WALKS = {"An element type": TYPE, "A unary operation": OPERATION}

VALUES = """\
#include "unary.hip"
#include "cast.hip"
#include <cstdio>
using namespace candle;
int main() {
  Rounded<u16, relu_of_any<u16>> relu;
  Rounded<f32, softsign_of_float<f32>> softsign;
  std::printf("%u %u %u %u %g %g\\n", relu(65535), convert<u16>(70000.f), convert<u16>(-1.f), convert<u16>(u32(65537)),
              softsign(-3.f), softsign(1.f));
}
"""
"""Functions of kernels, compiled for the host: a thread of a kernel calls the same."""

PROBE = """\
import json
from codegen.device.tensor import numpy_type
from codegen.kernels.dtypes import DTYPES
from kernels import test_unary as tests
known = {**tests.EXACT, **tests.NEAR, **tests.VANISHING}
print(json.dumps({
    "numpy": {element.name: str(numpy_type(element)) for element in DTYPES},
    "without_reference": [op.name for op in tests.FAMILY.ops if op.name not in known],
    "operations": [op.name for op in tests.FAMILY.ops],
}))
"""


@dataclass(frozen=True)
class Copy:
    """A copy of the repository that can be edited, and commands of its own candle-rocm."""

    root: Path

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """What a command says on both streams."""
        done = self.python("-m", "codegen", *map(str, arguments))
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        places = os.pathsep.join([str(self.root), str(self.root / "tests")])
        own = {"PYTHONPATH": places, "CANDLE_ROCM_FETCH_DIR": str(self.root / "cache"), "NO_COLOR": "1"}
        variables = {name: value for name, value in os.environ.items() if name != "CANDLE_ROCM_HOME"} | own
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.root, env=variables, capture_output=True, text=True, check=False)

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def make(self, edits: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
        for path, pairs in edits.items():
            for old, new in pairs:
                replace_in(self.root / path, old, new, count=1)

    def changed(self) -> set[str]:
        """Files that differ from the repository's, but for what commands generate."""
        return {
            path
            for path in (file.relative_to(self.root).as_posix() for file in self.root.rglob("*") if file.is_file())
            if not path.startswith(("generated/", "docs/", "cache/", "candle/")) and "__pycache__" not in path
            if (self.root / path).read_bytes() != (REPOSITORY / path).read_bytes()
        }


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    root = tmp_path / "repository"
    for name in ("codegen", "specs", "templates", "generated", "tests", "docs"):
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ("pyproject.toml", ".clang-format"):
        shutil.copy(REPOSITORY / path, root / path)
    return Copy(root)


def new_release(root: Path) -> Path:
    """Candle with both: all that names them is Candle's own."""
    candle = candle_tree(root)
    replace_in(candle / "candle-core/src/dtype.rs", "    F32,\n", "    U16,\n    F32,\n")
    replace_in(candle / "candle-core/src/scalar.rs", "    F32(f32),\n", "    U16(u16),\n    F32(f32),\n")
    replace_in(candle / "candle-core/src/cpu_backend/mod.rs", "    F32(Vec", "    U16(Vec<u16>),\n    F32(Vec")
    replace_in(candle / OP, "    GeluErf,\n", "    GeluErf,\n    Softsign,\n")
    replace_in(candle / OP, 'unary_op!(Exp, "exp"', 'unary_op!(Softsign, "softsign", v, v);\nunary_op!(Exp, "exp"')
    return candle


def listed(heading: str) -> list[str]:
    """The places that the page lists under a heading; it also says how many there are."""
    section = (REPOSITORY / PAGE).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    places = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    counted = re.search(r": (\d+) places\.", section)
    assert counted
    assert int(counted[1]) == len(places)
    return places


def missing(copy: Copy) -> list[str]:
    """What the copy does not know of the new type and the new operation."""
    probe = copy.python("-c", PROBE)
    assert probe.returncode == 0, probe.stderr
    told, asked = json.loads(probe.stdout), copy.text(CPU_TYPES)
    found = [
        ("the type", told["numpy"].get("u16") == "uint16"),
        ("the operation", "softsign" in told["operations"]),
        ("a reference for each operation", not told["without_reference"]),
        ("Candle's CPU asked for the type", "DType::U16" in asked),
        ("Candle's CPU asked for the operation", re.search(r"unary!\([^)]*\bsoftsign\b", asked) is not None),
    ]
    return [name for name, known in found if not known]


@pytest.mark.parametrize("heading", WALKS)
def test_the_page_lists_the_places_that_are_edited(copy: Copy, heading: str) -> None:
    copy.make(WALKS[heading])

    assert sorted(listed(heading)) == sorted(copy.changed()) == sorted(WALKS[heading])


@pytest.mark.parametrize(("heading", "place"), [(heading, place) for heading, walk in WALKS.items() for place in walk])
def test_each_place_is_needed(copy: Copy, heading: str, place: str) -> None:
    other = next(walk for name, walk in WALKS.items() if name != heading)
    copy.make(other)
    copy.make({path: edits for path, edits in WALKS[heading].items() if path != place})

    assert len(missing(copy)) >= 1


def test_both_walks_make_kernels_tables_and_a_backend_that_agree(copy: Copy, tmp_path: Path) -> None:
    candle = new_release(tmp_path / "candle")
    refused = copy.run("scan", candle, code=4)
    assert "no kernel computes with the element type U16" in refused
    assert "no operation of specs/kernels/unary.yaml is called softsign, as UnaryOp::Softsign is" in refused

    for walk in WALKS.values():
        copy.make(walk)
    assert missing(copy) == []
    copy.run("kernels", "render")
    copy.run("spec", "lint")
    copy.run("scan", candle)
    copy.run("apply", candle)

    table = (candle / BACKEND / "kernel_table.rs").read_text(encoding="utf-8")
    declared = re.findall(r"\w+", table.split("enum Element {")[1].split("}")[0])
    sources = {path: path.read_text(encoding="utf-8") for path in (candle / BACKEND).rglob("*.rs")}
    named = {name for text in sources.values() for name in re.findall(r"\bElement::([A-Z]+\d\w*)", text)}
    assert "U16" in named & set(declared)
    assert named <= set(declared)
    assert 'name: "softsign"' in table
    for path, line in (
        ("element.rs", "DType::U16 => Ok(Element::U16),"),
        ("ops/number.rs", "Element::U16 => Number::of(&(value as u16).to_ne_bytes()),"),
        ("ops/number.rs", "Scalar::U16(value) => Self::of(&value.to_ne_bytes()),"),
        ("ops/host.rs", "S::U16(slice) => CpuStorage::U16(device.clone_dtoh(slice)?),"),
    ):
        assert line in sources[candle / BACKEND / path], path
    kernels = candle / BACKEND / "kernels/hip"
    for family, symbol in (("unary", "softsign_bf16"), ("unary", "relu_u16"), ("cast", "cast_f32_u16")):
        assert f" {symbol}(" in (kernels / f"{family}.hip").read_text(encoding="utf-8"), symbol
    assert compiled(kernels, tmp_path) == "65535 65535 0 1 -0.75 0.5\n"


def compiled(kernels: Path, folder: Path) -> str:
    """What a program of the host says that calls functions of the kernels: HIP's headers are the emulator's."""
    (folder / "values.cpp").write_text(VALUES, encoding="utf-8")
    headers = [f"-I{kernels}", f"-I{REPOSITORY / 'emulator/include'}", "-include", "hip/hip_runtime.h"]
    program = folder / "values"
    command = ["g++", "-std=c++17", "-w", *headers, "values.cpp", "-o", str(program)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout
