"""`spec lint` reads every spec and every template that ships: a fault in any of them is found, at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY

from codegen.errors import ExitCode, SpecInvalid
from codegen.lint.repository import PUBLIC_ITEMS, lint
from codegen.spec.loader import template_names
from codegen.spec.parity import PARITY

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from in_process import CommandLine

SPECS = tuple(f"specs/{name}" for name in template_names(REPOSITORY / "specs"))
TEMPLATES = tuple(f"templates/{name}" for name in template_names(REPOSITORY / "templates"))
BUILD = "templates/candle/0-setup/candle-core/src/rocm_absent.rs.j2"
FOLDERS = sorted({name.rpartition("/")[0] for name in (*SPECS, *TEMPLATES)})


@pytest.fixture
def repository(home: Path) -> Path:
    """A copy of all that is read; the tests that specs/acceptance.yaml names lie here."""
    (home / "tests").symlink_to(REPOSITORY / "tests")
    for name in ("generated", "codegen"):
        for path in (REPOSITORY / name).iterdir():
            if not (home / name / path.name).exists():
                (home / name).mkdir(exist_ok=True)
                (home / name / path.name).symlink_to(path)
    return home


def plant(repository: Path, names: Iterable[str], fault: str) -> dict[str, int]:
    """Appends a fault to each file; the line that it has there."""
    planted = {}
    for name in names:
        path = repository / name
        text = path.read_text(encoding="utf-8")
        text += "" if text.endswith("\n") else "\n"
        path.write_text(text + fault + "\n", encoding="utf-8")
        planted[name] = text.count("\n") + 1
    assert planted
    return planted


def places(repository: Path) -> dict[str, int]:
    """The files in which findings are, and the line of the first one."""
    with pytest.raises(SpecInvalid) as caught:
        lint(repository)
    found: dict[str, int] = {}
    for problem in caught.value.problems:
        assert problem.location is not None, problem.message
        found.setdefault(problem.location.file, problem.location.line)
    return found


def test_what_ships_is_read_to_the_last_file() -> None:
    linted = lint(REPOSITORY)

    assert sorted(linted.spec_files) == sorted(SPECS)
    assert sorted(f"templates/{name}" for name in linted.templates) == sorted(TEMPLATES)


def test_a_copy_is_as_good(repository: Path) -> None:
    assert len(lint(repository).spec_files) == len(SPECS)


def test_broken_yaml_in_any_spec(repository: Path) -> None:
    planted = plant(repository, SPECS, "planted: [")
    found = places(repository)

    assert {name: line for name, line in found.items() if line in (planted[name], planted[name] + 1)} == found
    assert found.keys() == planted.keys()


def test_an_unknown_key_in_any_spec(repository: Path) -> None:
    planted = plant(repository, SPECS, "planted: 1")

    assert places(repository) == planted


def test_a_syntax_error_in_any_template_or_plain_source(repository: Path) -> None:
    planted = plant(repository, TEMPLATES, "{% if %}")

    assert places(repository) == planted


def test_an_undefined_name_in_any_template(repository: Path) -> None:
    planted = plant(repository, TEMPLATES, "«nobody_sets_this»")

    assert places(repository) == planted


@pytest.mark.parametrize("plain", ["candle/3-tensors/candle-core/src/rocm_backend/blas.rs", "rust/edits/sort.rs"])
def test_a_plain_source_that_wants_to_be_a_template(repository: Path, plain: str) -> None:
    plain = f"templates/{plain}"
    planted = plant(repository, [plain], "{% if storage %}")

    assert places(repository) == planted


def test_a_folder_that_is_not_there(repository: Path) -> None:
    file = "specs/phases/6-python.yaml"
    text = (repository / file).read_text(encoding="utf-8")
    (repository / file).write_text(text.replace("folder: candle/6-python", "folder: candle/6-pyton"), encoding="utf-8")

    with pytest.raises(SpecInvalid, match="there is no file below templates/candle/6-pyton") as caught:
        lint(repository)
    assert [problem.location.line for problem in caught.value.problems if problem.location][:1] == [
        text[: text.index("folder:")].count("\n") + 1
    ]


def test_two_files_of_a_folder_for_one_path(repository: Path) -> None:
    folder = repository / "templates/candle/6-python/candle-pyo3/tests/native"
    (folder / "test_rocm.py.j2").write_text("", encoding="utf-8")

    with pytest.raises(SpecInvalid, match=r"test_rocm\.py and templates/\S+test_rocm\.py\.j2 are the same file"):
        lint(repository)


def test_a_field_that_a_kernel_family_does_not_have(repository: Path) -> None:
    name = "templates/hip/fill.hip.j2"
    planted = plant(repository, [name], "«family.nothing»")

    assert places(repository) == planted


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('{% include "rust/gone.j2" %}', "there is no template templates/rust/gone.j2"),
        ('{% from "rust/header.j2" import gone %}', "templates/rust/header.j2 has no macro 'gone'"),
        ("{% include header %}", "which template is meant is not in the text: write its name out"),
    ],
)
def test_what_a_template_draws_in_is_there(repository: Path, statement: str, message: str) -> None:
    planted = plant(repository, [BUILD], statement)
    with pytest.raises(SpecInvalid) as caught:
        lint(repository)

    (problem,) = caught.value.problems
    assert problem.message == message
    assert problem.location is not None
    assert {problem.location.file: problem.location.line} == planted


def test_a_file_that_nothing_reads_in_any_folder(repository: Path) -> None:
    strays = [f"{folder}/stray.txt" for folder in FOLDERS]
    for name in (*strays, "specs/stray.yaml", "specs/kernels/old.yml", "specs/phases/deeper/0-x.yaml"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("", encoding="utf-8")

    others = {"specs/stray.yaml", "specs/kernels/old.yml", "specs/phases/deeper/0-x.yaml"}
    assert places(repository).keys() == {*strays, *others}


@pytest.mark.parametrize("name", [name for name in SPECS if name.count("/") == 1])
def test_a_spec_that_is_gone(repository: Path, name: str) -> None:
    (repository / name).unlink()
    with pytest.raises(SpecInvalid, match=f"{name} does not exist"):
        lint(repository)


def test_a_family_without_its_template_and_a_template_without_its_family(repository: Path) -> None:
    (repository / "templates/hip/fill.hip.j2").unlink()
    (repository / "specs/kernels/argsort.yaml").unlink()

    assert places(repository).keys() == {"specs/kernels/fill.yaml", "templates/hip/argsort.hip.j2"}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("specs/providers.yaml", "library: rocblas", "library: rocblos"),
        ("specs/candle.yaml", "family: reduce", "family: reduced"),
        ("specs/candle.yaml", "  Metal: [Metal]", "  Matal: [Metal]"),
        ("specs/candle.yaml", "  Metal: [Metal]", "  Metal: [Metal, Cuda]"),
        ("specs/candle.yaml", "by: quantized.dequantize\n", "by: quantized.dequantise\n"),
        ("specs/candle.yaml", "by: quantized.dequantize\n", "by: quantised.dequantize\n"),
        ("specs/candle.yaml", "by: quantized.dequantize_rows", "by: cast.cast"),
        ("specs/candle.yaml", "    by: expert_blocks.multiply_pairs\n", ""),
        ("specs/candle.yaml", "    by: [experts", "    reason: it has no operation\n    by: [experts"),
        ("specs/candle.yaml", "symbol: get_rows_<block>", "symbol: got_rows_<block>"),
        ("specs/candle.yaml", "symbol: [get_rows_bf16,", "symbol: [moe_gemm_gguf,"),
        ("specs/hip_api.yaml", "{error: hipError_t}", "{error: hipErrar_t}"),
        ("specs/kernels/unary.yaml", "types: {dtype: float}", "types: {dtype: floot}"),
        ("specs/kernels/unary.yaml", "expressions: {float: exp(x)}", "expressions: {integer: exp(x)}"),
        ("specs/backend.yaml", "try_clone: [layout]", "try_clone: [lay-out]"),
        ("specs/acceptance.yaml", "pytest: [tests/", "pytest: [tests/no/"),
        ("specs/acceptance.yaml", "verify: [check-on", "verify: [chuck-on"),
    ],
)
def test_a_reference_to_what_is_not_there(repository: Path, name: str, old: str, new: str) -> None:
    text = (repository / name).read_text(encoding="utf-8")
    assert old in text
    (repository / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    assert places(repository).keys() == {name}


def test_the_command_exits_with_3_and_names_file_and_line(repository: Path, candle_rocm: CommandLine) -> None:
    planted = plant(repository, [BUILD], "{% endfor %}")
    result = candle_rocm("spec", "lint")

    assert result.code == ExitCode.SPEC_INVALID
    assert f"{BUILD}:{planted[BUILD]}:1: " in result.stderr
    assert result.stdout == ""


PARITY_SPEC = """\
crates: [{name: candle-core}]
names: cuda
features: {cuda: cuda, rocm: rocm}
uses: {candle_core::X::f: 3, candle_core::Y: 1}
further:
  - {item: candle_core::Ug, reason: its fields are of CUDA only}
  - {item: candle_core::Uh, reason: its fields are of CUDA only}
answers:
  - {within: "candle_core::X", item: f, since: 0.9.2, until: 0.11.0, missing: typed memory comes first}
  - {within: "candle_core::X", item: g, missing: typed memory comes first}
  - {within: "candle_core::X", item: [h, i], since: 0.9.2, missing: typed memory comes first}
  - {within: "candle_core::X", item: j, until: 0.11.0, missing: typed memory comes first}
  - {within: "candle_core::X", item: k, since: 0.12.0, missing: typed memory comes first}
  - {within: "candle_core::X", item: gone, missing: typed memory comes first}
"""
ITEMS = "# Items.\ncandle_core::Ug 0.9.1 0.11.1\n" + "".join(
    f"candle_core::X::{name} 0.9.2 0.11.0\n" for name in "fghijk"
)


def test_answers_about_public_items_that_no_release_has(repository: Path) -> None:
    (repository / "tests").unlink()
    (repository / PUBLIC_ITEMS).parent.mkdir(parents=True)
    (repository / PUBLIC_ITEMS).write_text(ITEMS, encoding="utf-8")
    (repository / PARITY).write_text(PARITY_SPEC, encoding="utf-8")
    with pytest.raises(SpecInvalid) as caught:
        lint(repository)

    found = [problem for problem in caught.value.problems if problem.location and problem.location.file == PARITY]
    absent, wide = f"({PUBLIC_ITEMS})", "is in the releases from 0.9.2 to 0.11.0 only"
    assert [(problem.location.line, problem.message) for problem in found if problem.location] == [
        (4, f"no release that was tried has a public item candle_core::Y {absent}"),
        (7, f"no release that was tried has a public item candle_core::Uh {absent}"),
        (10, f"candle_core::X::g {wide}"),
        (11, f"candle_core::X::h {wide}"),
        (11, f"candle_core::X::i {wide}"),
        (12, f"candle_core::X::j {wide}"),
        (13, f"candle_core::X::k {wide}"),
        (14, f"no release that was tried has a public item candle_core::X::gone {absent}"),
    ]
