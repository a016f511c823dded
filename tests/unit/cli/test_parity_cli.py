"""`candle-rocm parity` on the made-up tree, which has public items of CUDA's that only the test answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up import UNTRIED, candle_tree

from codegen.spec.parity import PARITY

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

ANSWERS = """\
  - item: candle_core::CudaDevice
    form: candle_core::RocmDevice
    how: a type of this crate
  - within: candle_core::quantized::cuda
    item: [few_rows, numbers]
    none: the made-up ROCm has nothing alike
"""


@pytest.fixture
def answered(home: Path) -> Path:
    """The specs with answers for all items of the made-up tree."""
    with (home / PARITY).open("a", encoding="utf-8") as file:
        file.write(ANSWERS)
    return home / PARITY


def test_every_item_is_listed_with_its_state(candle: Path, candle_rocm: CommandLine, answered: Path) -> None:
    lines = candle_rocm.ok("parity", candle).stdout.splitlines()

    assert "candle_core::Device::new_cuda: same: candle_core::Device::new_rocm" in lines
    assert "candle_core::quantized::cuda::numbers: none: the made-up ROCm has nothing alike" in lines
    counts = {name: sum(f": {name}: " in line for line in lines) for name in ("same", "other form", "none")}
    assert lines[-1] == f"Candle 0.11.1: {len(lines) - 1} public items of CUDA's side: " + ", ".join(
        f"{count} {name}" for name, count in counts.items()
    )
    some = candle_rocm.ok("parity", candle, "--state", "none", "--state", "other").stdout.splitlines()
    assert len(some) == counts["none"] + counts["other form"] + 1
    assert some[:-1] == [line for line in lines if ": none: " in line or ": other form: " in line]


def test_an_item_without_an_answer(candle: Path, candle_rocm: CommandLine) -> None:
    refused = candle_rocm("parity", candle)

    assert refused.code == 4
    assert "candle_core::quantized::cuda::numbers: unanswered: ROCm's side has no " in refused.stdout
    assert "candle-core/src/quantized/cuda.rs:5:1: candle_core::quantized::cuda::numbers: ROCm's" in refused.stderr


def test_json(candle: Path, candle_rocm: CommandLine, answered: Path) -> None:
    document = candle_rocm.ok("parity", candle, "--json").document

    assert (document["schema_version"], document["command"]) == (1, "parity")
    assert document["tool"]["name"] == "candle-rocm"
    assert document["candle"] == {"release": "0.11.1", "tried": True}
    assert sum(document["counts"].values()) == len(document["items"]) > 20
    assert document["problems"] == []
    item = next(item for item in document["items"] if item["item"] == "candle_core::Device::new_cuda")
    assert (item["kind"], item["path"], item["state"]) == ("fn", "candle-core/src/device.rs", "same")
    assert item["rocm"] == ["candle_core::Device::new_rocm"]


def test_json_with_an_item_without_an_answer(candle: Path, candle_rocm: CommandLine) -> None:
    refused = candle_rocm("parity", candle, "--json", "--state", "unanswered")

    assert (refused.code, refused.stderr) == (4, "")
    assert len(refused.document["items"]) == len(refused.document["problems"]) == 3


def test_the_page(candle: Path, candle_rocm: CommandLine, answered: Path) -> None:
    page = candle_rocm.ok("parity", candle, "--markdown").stdout

    assert page.startswith("# Public items of CUDA's side, and their counterparts on ROCm\n")
    assert "| `candle_core::Device::new_cuda` | same | `candle_core::Device::new_rocm` |  |  | 15 |\n" in page
    for other in ("--json", "--state=same"):
        refused = candle_rocm("parity", candle, "--markdown", other)
        assert (refused.code, refused.stdout) == (2, "")
        assert "--markdown goes with neither --json nor --state" in refused.stderr


def test_a_release_that_came_out_later(tmp_path: Path, candle_rocm: CommandLine, answered: Path) -> None:
    later = candle_tree(tmp_path / "later", UNTRIED)
    listed = candle_rocm.ok("parity", later)

    assert listed.stdout.splitlines()[-1].startswith(f"Candle {UNTRIED}: ")
    assert f"not tested with Candle {UNTRIED}" in listed.stderr


def test_answers_that_contradict_each_other(candle: Path, candle_rocm: CommandLine, answered: Path) -> None:
    with answered.open("a", encoding="utf-8") as file:
        file.write("  - item: candle_core::CudaDevice\n    none: there are two answers\n")
    refused = candle_rocm("parity", candle)

    line = answered.read_text(encoding="utf-8").count("\n") - 1
    assert (refused.code, refused.stdout) == (3, "")
    assert f"{PARITY}:{line}:11: line {line - 6} answers candle_core::CudaDevice, too" in refused.stderr


def test_nothing_is_written(candle: Path, candle_rocm: CommandLine, answered: Path) -> None:
    before = {path: path.read_bytes() for path in candle.rglob("*") if path.is_file()}
    candle_rocm.ok("parity", candle)

    assert {path: path.read_bytes() for path in candle.rglob("*") if path.is_file()} == before
