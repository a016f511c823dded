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


def made(text: str) -> list[tuple[str, int, int]]:
    """Path, first and last line of each place that an answer names."""
    found = re.findall(r"^  (\S+):(\d+)(?:-(\d+))? \(phase \d\)$", text, re.MULTILINE)
    return [(path, int(first), int(last or first)) for path, first, last in found]


def test_from_a_kernels_spec_to_its_lines_and_back(candle: Path, candle_rocm: CommandLine) -> None:
    """Any line of an operation's entry leads to all lines of that operation, and each of them back to its first."""
    spec, kernel = "specs/kernels/unary.yaml", "candle-core/src/rocm_backend/kernels/hip/unary.hip"
    begins = line_of(spec, "  - name: silu")
    places = made(candle_rocm.ok("explain", candle, f"{spec}:{begins + 3}").stdout)
    assert len(places) == 2
    assert {path for path, _, _ in places} == {kernel}
    candle_rocm.ok("apply", candle)
    lines = (candle / kernel).read_text(encoding="utf-8").splitlines()
    own = {number for _, first, last in places for number in range(first, last + 1)}
    assert own >= {number for number, line in enumerate(lines, 1) if "silu_" in line}
    assert not any(re.search(r"\b(sigmoid|gelu)_\w", lines[number - 1]) for number in own)
    for number in (min(own), max(own)):
        assert f"  from {spec}:{begins}\n" in candle_rocm.ok("explain", candle, f"{kernel}:{number}").stdout


def test_a_line_that_a_kernels_template_says_names_the_spec_alone(candle: Path, candle_rocm: CommandLine) -> None:
    place = "candle-core/src/rocm_backend/kernels/hip/unary.hip:2"
    document = json.loads(candle_rocm.ok("explain", candle, place, "--json").stdout)
    (text,) = document["patched"]
    assert [source.partition(":")[0] for source in text["sources"]] == [
        "templates/hip/unary.hip.j2",
        "specs/kernels/unary.yaml",
    ]
    assert "specs/kernels/unary.yaml" in text["sources"]


def test_a_rule_names_all_that_it_writes(candle: Path, candle_rocm: CommandLine) -> None:
    spec = "specs/phases/1-core.yaml"
    begins = line_of(spec, "- id: core.exports")
    for line in (begins, begins + 1):
        places = made(candle_rocm.ok("explain", candle, f"{spec}:{line}").stdout)
        assert [path for path, _, _ in places] == ["candle-core/src/lib.rs"]
    candle_rocm.ok("apply", candle)
    answer = candle_rocm.ok("explain", candle, f"candle-core/src/lib.rs:{places[0][1]}").stdout
    assert f"(rule core.exports, {spec}:{begins}, " in answer


def test_a_function_of_c_is_found_where_it_is_declared(candle: Path, candle_rocm: CommandLine) -> None:
    line = line_of("specs/hip_api.yaml", "name: hipMalloc")
    (place,) = made(candle_rocm.ok("explain", candle, f"specs/hip_api.yaml:{line}").stdout)
    candle_rocm.ok("apply", candle)
    path, first, last = place
    assert first == last
    assert "hipMalloc" in (candle / path).read_text(encoding="utf-8").splitlines()[first - 1]


def test_an_entry_that_makes_nothing(candle: Path, candle_rocm: CommandLine) -> None:
    line = line_of("specs/phases/1-core.yaml", "- id: core.module-alias")
    text = candle_rocm.ok("explain", candle, f"specs/phases/1-core.yaml:{line}").stdout
    assert text.endswith(f":{line} makes nothing in this release, with this gating and runtime\n")


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


def test_only_templates_and_specs_are_sources(candle: Path, candle_rocm: CommandLine) -> None:
    assert templates_dir().is_dir()
    for outside in ("templates/../pyproject.toml:1", "specs/../pyproject.toml:1", "docs/extend.md:1"):
        refused = candle_rocm("explain", candle, outside)
        assert (refused.code, refused.stdout) == (2, "")
