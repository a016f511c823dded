"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from codegen import terminal
from codegen.paths import default_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from codegen.errors import Problem
    from codegen.plan.model import Decision
    from codegen.plan.program import ProgramPlan
    from codegen.record.swaps import Discarded
    from codegen.watch import Verbosity
    from codegen.workspace.workspace import Workspace

F = TypeVar("F", bound="Callable[..., Any]")

phases: Callable[[Any], Any] = click.option(
    "--phase", "phases", type=click.IntRange(0, 7), multiple=True, help="Only this phase; may be given several times."
)
gating: Callable[[Any], Any] = click.option(
    "--gating",
    type=click.Choice(["dummy", "cfg"]),
    help="How the backend is switched off without the feature: by a dummy backend, or by #[cfg]. "
    "Default: as applied, otherwise dummy.",
)
runtime: Callable[[Any], Any] = click.option(
    "--runtime",
    type=click.Choice(["dynamic", "rocm-rs"]),
    help="How a program gets ROCm's libraries: it opens them at run time, or links them with rocm-rs's declarations. "
    "Default: as applied, otherwise dynamic.",
)
offline: Callable[[Any], Any] = click.option("--offline", is_flag=True, help="Use releases from the cache only.")
as_json: Callable[[Any], Any] = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
leave_unknown: Callable[[Any], Any] = click.option(
    "--leave-unknown", is_flag=True, help="Leave unknown sites as they are, and name them."
)
quiet: Callable[[Any], Any] = click.option("--quiet", "-q", is_flag=True, help="Say nothing while it works.")
verbose: Callable[[Any], Any] = click.option("--verbose", "-v", is_flag=True, help="Show each message of each step.")
force: Callable[[Any], Any] = click.option(
    "--force", is_flag=True, help="Overwrite files that were edited by hand; the files are listed and backed up first."
)


def verbosity(*, quiet: bool, verbose: bool) -> Verbosity:
    """How much is told of long work. Raises UsageError for both flags."""
    from codegen.errors import UsageError
    from codegen.watch import Verbosity

    if quiet and verbose:
        raise UsageError("--quiet and --verbose contradict each other", remedy="give one of them")
    return Verbosity.QUIET if quiet else Verbosity.VERBOSE if verbose else Verbosity.USUAL


def note_that_code_runs(what: str) -> None:
    """Say, before it happens, that a command builds a tree: cargo runs what the tree tells it to."""
    note(f"{what} builds the tree, and so runs its code as you: build scripts, macros, settings of cargo and rustup")


def progress(line: str) -> None:
    """A line for a person who waits: on stderr, and only to a terminal."""
    terminal.progress(line)


def note(line: str) -> None:
    """A line that is not the result."""
    terminal.note(line)


def note_settled(workspace: Workspace) -> None:
    """Say that something that was interrupted is brought to its end."""
    if workspace.settled:
        note("an interrupted command was completed or undone")


def announce_discarded(discarded: Sequence[Discarded], backup: Path) -> None:
    """Say, before it happens, what `--force` discards and where it is kept."""
    for each in discarded:
        note(f"discarding the edits in {terminal.shown_name(each.path)}")
    note(f"the discarded edits are kept in {backup}")


def note_untried(workspace: Workspace) -> None:
    """Say that no oracle was run on this release by this version."""
    from codegen.report.wording import untried_note

    note(untried_note(workspace.tree.release, workspace.specs.candle.releases))


def note_absent(workspace: Workspace) -> None:
    """Say that files of the tree are not there to be looked at."""
    from codegen.record.git import not_checked_out
    from codegen.report.wording import plural

    if paths := not_checked_out(workspace.root):
        files = f"{plural(len(paths), 'file')}, {terminal.shown_name(paths[0])} the first"
        note(f"left out of this sparse checkout, and so neither looked at nor patched: {files}")


def note_unforeseen(decisions: Iterable[Decision]) -> None:
    """Name the sites that no spec has foreseen, and what becomes of them."""
    from codegen.report.wording import unforeseen_notes

    for line in unforeseen_notes(decisions):
        note(line)


def program_plan(candle: str, gating: str | None) -> ProgramPlan | None:
    """The sites of a program that uses Candle; None where `candle` is a Candle tree, or a version."""
    from codegen.candle.program import find_program

    program = find_program(candle)
    if program is None:
        return None
    from codegen.plan.program import plan_program
    from codegen.spec.kinds import Gating
    from codegen.spec.loader import load_specs

    return plan_program(program, load_specs(cache=default_cache() / "specs"), gating=Gating(gating or "dummy"))


def note_left(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Name the unknown sites that are left for later; their ids."""
    from codegen.report.wording import left_notes

    left = [decision for decision in decisions if decision.state == "unknown"]
    for line in left_notes(left):
        note(line)
    return tuple(decision.site.id for decision in left)


def note_idle_rules(problems: Iterable[Problem]) -> None:
    """Name the entries of the tree's own specs that decide nothing."""
    for problem in problems:
        note(f"{problem.location}: {problem.message}")


def print_json(command: str, workspace: Workspace, **content: object) -> None:
    """The command's JSON document about a tree, on stdout."""
    from codegen.report.json_document import document, dumps

    terminal.say(dumps(document(command, release=workspace.tree.release, tried=workspace.tried, **content)))
