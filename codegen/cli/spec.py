"""`candle-rocm spec`: check the specs and templates, and print the specs' JSON schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.errors import Problem
    from codegen.lint.repository import Linted

SCHEMA_VERSION = 1


@click.group("spec")
def command() -> None:
    """Check the specs and print their JSON schemas."""


@command.command("lint")
@click.argument("candle", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Repository whose specs/ and templates/ are checked. Default: the one that comes with candle-rocm.",
)
@click.pass_context
def lint(context: click.Context, *, candle: str | None, as_json: bool, root: Path | None) -> None:
    """Check every spec file and every template. Exit 3 with all findings if one is invalid.

    With CANDLE, a folder, check the candle-rocm.yaml of that tree instead: each of its rules must decide a site.
    """
    from codegen.errors import SpecInvalid
    from codegen.lint.repository import lint as read_all

    if candle is not None:
        _lint_tree(context, candle, as_json=as_json)
        return
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
@click.option("--kind", type=click.Choice(["candle", "phase", "tree"]), required=True, help="The kind of spec file.")
def schema(kind: str) -> None:
    """Print the JSON schema of a spec file."""
    from codegen.spec.schema import Kind, schema_text

    terminal.say(schema_text(Kind(kind)), end="")


def _lint_tree(context: click.Context, candle: str, *, as_json: bool) -> None:
    from codegen.cli import options
    from codegen.errors import SpecInvalid
    from codegen.lint.tree import lint_tree
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, progress=options.progress)
    try:
        specs = lint_tree(workspace)
    except SpecInvalid as error:
        if not as_json:
            raise
        _print(counts={}, valid=False, problems=error.problems)
        context.exit(error.exit_code)
    counts = {"rules": len(specs.rules), "backends": len(specs.spec.backends), "crates": len(specs.spec.crates)}
    if as_json:
        _print(counts=counts, valid=True, problems=())
    else:
        terminal.say("candle-rocm.yaml is valid: " + ", ".join(f"{noun}: {n}" for noun, n in counts.items()))


def _counts(linted: Linted) -> dict[str, int]:
    phases = linted.specs.phases
    cargo = [phase.cargo for phase in phases]
    return {
        "spec_files": len(linted.spec_files),
        "templates": len(linted.templates),
        "phases": len(phases),
        "rules": sum(len(phase.rules) for phase in phases),
        "modules": sum(len(phase.modules) for phase in phases),
        "statements": sum(len(phase.statements) for phase in phases),
        "files": sum(len(phase.files) for phase in phases),
        "cargo_entries": sum(len(c.dependencies) + len(c.features) + len(c.targets) + len(c.config) for c in cargo),
    }


def _print_json(linted: Linted | None, problems: tuple[Problem, ...]) -> None:
    _print(counts=_counts(linted) if linted else {}, valid=linted is not None, problems=problems)


def _print(*, counts: Mapping[str, int], valid: bool, problems: tuple[Problem, ...]) -> None:
    import json

    report = {
        "schema_version": SCHEMA_VERSION,
        "command": "spec lint",
        "valid": valid,
        "counts": dict(counts),
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
