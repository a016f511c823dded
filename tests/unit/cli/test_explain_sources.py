"""`candle-rocm explain` leads from a line of a new file to its source, and from there back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY

from codegen.paths import templates_dir

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

PLAIN = "templates/candle/3-tensors/candle-core/src/rocm_backend/blas.rs"
MADE = "candle-core/src/rocm_backend/blas.rs"


def line_of(path: str, text: str) -> int:
    """The first line with the text in a file of candle-rocm."""
    lines = (REPOSITORY / path).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("source", "made", "text"),
    [
        (PLAIN, MADE, "impl Types {"),
        (
            "templates/candle/3-tensors/candle-core/src/rocm_backend/ops/host.rs.j2",
            "candle-core/src/rocm_backend/ops/host.rs",
            "use super::operand::",
        ),
        ("templates/hip/fill.hip.j2", "candle-core/src/rocm_backend/kernels/hip/fill.hip", "CANDLE_DEVICE void fill"),
    ],
)
def test_there_and_back(candle: Path, candle_rocm: CommandLine, source: str, made: str, text: str) -> None:
    line = line_of(source, text)
    back = candle_rocm.ok("explain", candle, f"{source}:{line}").stdout
    found = re.search(rf"^  {re.escape(made)}:(\d+) \(phase \d\)$", back, re.MULTILINE)
    assert found, back

    candle_rocm.ok("apply", candle)
    assert text in (candle / made).read_text(encoding="utf-8").splitlines()[int(found[1]) - 1]
    there = candle_rocm.ok("explain", candle, f"{made}:{found[1]}").stdout
    assert f"  from {source}:{line}\n" in there


def test_a_new_file_is_shown_around_the_line(candle: Path, candle_rocm: CommandLine) -> None:
    line = line_of(PLAIN, "impl Types {") + 2
    text = candle_rocm.ok("explain", candle, f"{MADE}:{line}").stdout
    assert f"generated, lines {line - 6}-{line + 6} of the patched file" in text
    assert text.count("\n  |") == 13


def test_a_kernel_names_its_spec_too(candle: Path, candle_rocm: CommandLine) -> None:
    place = "candle-core/src/rocm_backend/kernels/hip/fill.hip:5"
    document = json.loads(candle_rocm.ok("explain", candle, place, "--json").stdout)
    (text,) = document["patched"]
    assert [source.partition(":")[0] for source in text["sources"]] == [
        "templates/hip/fill.hip.j2",
        "specs/kernels/fill.yaml",
    ]


def test_the_template_of_an_edit_names_the_lines_it_writes(candle: Path, candle_rocm: CommandLine) -> None:
    source = "templates/rust/edits/exports.rs.j2"
    document = json.loads(candle_rocm.ok("explain", candle, f"{source}:1", "--json").stdout)
    assert [each["path"] for each in document["makes"]] == ["candle-core/src/lib.rs"]
    candle_rocm.ok("apply", candle)
    made = (candle / "candle-core/src/lib.rs").read_text(encoding="utf-8").splitlines()
    (written,) = document["makes"]
    assert "rocm" in "\n".join(made[written["first"] - 1 : written["last"]])


def test_a_source_that_makes_nothing_here(candle: Path, candle_rocm: CommandLine) -> None:
    source = "templates/docs/kernels.md.j2"
    text = candle_rocm.ok("explain", candle, f"{source}:1").stdout
    assert text == f"{source}:1 makes nothing in this release, with this gating and runtime\n"


def test_only_templates_are_sources(candle: Path, candle_rocm: CommandLine) -> None:
    assert templates_dir().is_dir()
    refused = candle_rocm("explain", candle, "templates/../pyproject.toml:1")
    assert (refused.code, refused.stdout) == (2, "")
