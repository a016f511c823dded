"""`candle-rocm spec`: check the specs and templates, and print the specs' JSON schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal

if TYPE_CHECKING:
    from codegen.errors import Problem
    from codegen.lint.repository import Linted

SCHEMA_VERSION = 1


@click.group("spec")
def command() -> None:
    """Check the specs, and print their JSON schemas."""


@command.command("lint")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Repository whose specs/ and templates/ are checked; by default the one candle-rocm comes with.",
)
@click.pass_context
def lint(context: click.Context, *, as_json: bool, root: Path | None) -> None:
    """Check every spec file and every template; exit 3 with all findings if one is invalid."""
    from codegen.errors import SpecInvalid
    from codegen.lint.repository import lint as read_all

    try:
        linted = read_all(root)
    except SpecInvalid as error:
        if not as_json:
            raise
        _print_json(None, error.problems)
        context.exit(error.exit_code)
    if as_json:
        _print_json(linted, ())
    else:
        counts = _counts(linted)
        terminal.say("specs are valid: " + ", ".join(f"{noun.replace('_', ' ')}: {n}" for noun, n in counts.items()))


@command.command("schema")
@click.option("--kind", type=click.Choice(["candle", "phase"]), required=True, help="Which kind of spec file.")
def schema(kind: str) -> None:
    """Print the JSON schema of a spec file."""
    from codegen.spec.schema import Kind, schema_text

    terminal.say(schema_text(Kind(kind)), end="")


def _counts(linted: Linted) -> dict[str, int]:
    phases = linted.specs.phases
    cargo = [phase.cargo for phase in phases]
    return {
        "spec_files": len(linted.spec_files),
        "templates": len(linted.templates),
        "phases": len(phases),
        "rules": sum(len(phase.rules) for phase in phases),
        "modules": sum(len(phase.modules) for phase in phases),
        "files": sum(len(phase.files) for phase in phases),
        "cargo_entries": sum(len(c.dependencies) + len(c.features) + len(c.targets) + len(c.config) for c in cargo),
    }


def _print_json(linted: Linted | None, problems: tuple[Problem, ...]) -> None:
    import json

    report = {
        "schema_version": SCHEMA_VERSION,
        "command": "spec lint",
        "valid": linted is not None,
        "counts": _counts(linted) if linted else {},
        "problems": [_problem(problem) for problem in problems],
    }
    terminal.say(json.dumps(report, indent=2, ensure_ascii=False))


def _problem(problem: Problem) -> dict[str, str | int | None]:
    place = problem.location
    return {
        "message": problem.message,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "source_line": place.source_line if place else None,
    }
