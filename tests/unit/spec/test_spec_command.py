"""`candle-rocm spec`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from spec_repository import CORE, Repository, complete

from codegen.cli.spec import command
from codegen.errors import ExitCode, SpecInvalid
from codegen.paths import HOME_VARIABLE
from codegen.spec.model import PhaseSpec
from codegen.spec.schema import Kind, schema_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return complete(Repository(tmp_path))


COUNTS = {
    "spec_files": 12,
    "templates": 13,
    "phases": 2,
    "rules": 2,
    "modules": 1,
    "statements": 0,
    "files": 1,
    "cargo_entries": 2,
}


def test_lint_says_what_it_checked(repository: Repository) -> None:
    result = CliRunner().invoke(command, ["lint", "--root", str(repository.root)])
    assert result.exit_code == ExitCode.OK
    counts = ", ".join(f"{noun.replace('_', ' ')}: {count}" for noun, count in COUNTS.items())
    assert result.stdout == f"specs are valid: {counts}\n"
    assert result.stderr == ""


def test_lint_reads_the_repository_that_the_environment_names(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(repository.root))
    assert CliRunner().invoke(command, ["lint"]).stdout.startswith("specs are valid: spec files: 12,")


def test_lint_raises_all_problems(repository: Repository) -> None:
    repository.write("specs/phases/1-core.yaml", CORE + "foo: 1\nbar: 2\n")
    result = CliRunner().invoke(command, ["lint", "--root", str(repository.root)])
    assert isinstance(result.exception, SpecInvalid)
    assert result.exception.exit_code == ExitCode.SPEC_INVALID
    assert len(result.exception.problems) == 2
    assert result.stdout == ""


def test_lint_json_of_valid_specs(repository: Repository) -> None:
    result = CliRunner().invoke(command, ["lint", "--json", "--root", str(repository.root)])
    assert result.exit_code == ExitCode.OK
    assert json.loads(result.stdout) == {
        "schema_version": 1,
        "command": "spec lint",
        "valid": True,
        "counts": COUNTS,
        "problems": [],
    }


def test_lint_json_of_invalid_specs(repository: Repository) -> None:
    repository.write("specs/phases/1-core.yaml", CORE + "foo: ä\n")
    repository.write("specs/phases/2-more.yml", "")
    result = CliRunner().invoke(command, ["lint", "--json", "--root", str(repository.root)])
    assert result.exit_code == ExitCode.SPEC_INVALID
    report = json.loads(result.stdout)
    assert report["valid"] is False
    assert report["problems"] == [
        {
            "message": "specs/phases/2-more.yml is not read: spec files end in .yaml",
            "file": None,
            "line": None,
            "column": None,
            "source_line": None,
        },
        {
            "message": "unknown key 'foo'; known keys: " + ", ".join(PhaseSpec.model_fields),
            "file": "specs/phases/1-core.yaml",
            "line": 22,
            "column": 1,
            "source_line": "foo: ä",
        },
    ]


@pytest.mark.parametrize("kind", Kind)
def test_schema(kind: Kind) -> None:
    result = CliRunner().invoke(command, ["schema", "--kind", kind.value])
    assert result.exit_code == ExitCode.OK
    assert result.stdout == schema_text(kind)


@pytest.mark.parametrize(
    "arguments", [["schema"], ["schema", "--kind", "kernel"], ["lint", "--root", "nowhere"], ["x"]]
)
def test_usage_errors(arguments: list[str]) -> None:
    assert CliRunner().invoke(command, arguments).exit_code == ExitCode.USAGE


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, codegen.cli.spec\nprint(sorted({'pydantic', 'yaml', 'jinja2', 'rich', 'json'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pydantic" not in result.stdout
    assert "yaml" not in result.stdout
    assert "rich" not in result.stdout
