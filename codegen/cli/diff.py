"""`candle-rocm diff`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.patch.changes import FileChange


@click.command("diff")
@click.argument("candle", shell_complete=complete.releases)
@options.phases
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), help="Default: as applied, otherwise dummy.")
@options.runtime
@click.option("--stat", is_flag=True, help="Print only the number of changed lines per file.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the diff.",
)
@options.leave_unknown
@options.offline
@options.as_json
def command(
    candle: str,
    *,
    phases: tuple[int, ...],
    gating: str | None,
    runtime: str | None,
    stat: bool,
    color: str,
    leave_unknown: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Print the changes of the phases to pristine CANDLE as a unified diff. Nothing is written.

    CANDLE may also be the folder of a program that uses Candle; the diff then mirrors its CUDA code where possible.
    Without --phase, print all phases that are ready. `git apply` accepts the output.
    """
    from codegen.workspace.analysis import analyse
    from codegen.workspace.workspace import open_workspace

    if (program := options.program_plan(candle, gating)) is not None:
        if as_json:
            from codegen.report.json_document import dumps
            from codegen.report.program import program_diff_document

            terminal.say(dumps(program_diff_document(program)))
        else:
            _print(program.changes, stat=stat, color=color)
        return
    workspace = open_workspace(candle, offline=offline, progress=options.progress)
    options.note_absent(workspace)
    plan = (
        analyse(
            workspace,
            phases=workspace.with_applied(phases),
            gating=workspace.gating(gating),
            runtime=workspace.runtime(runtime),
            leave_unknown=leave_unknown,
            on_untried=lambda: options.note_untried(workspace),
        )
        .only(phases)
        .plan
    )
    if as_json:
        from codegen.report.diff_document import diff_document
        from codegen.report.json_document import dumps

        terminal.say(dumps(diff_document(plan, tried=workspace.tried)))
    else:
        _print(plan.changes, stat=stat, color=color)


def _print(changes: Iterable[FileChange], *, stat: bool, color: str) -> None:
    from codegen.patch.git_format import unified_diff

    if stat:
        from codegen.report.diff_document import stat_lines

        for line in stat_lines(changes):
            terminal.say(line)
        return
    # As bytes: a diff keeps its line ends and is UTF-8 on every platform. What `git apply` takes is exact.
    coloured = _coloured(color)
    person = coloured or terminal.for_a_person()
    terminal.say_exactly(unified_diff(changes, color=coloured, show=terminal.shown if person else str))


def _coloured(choice: str) -> bool:
    """`auto` means: a terminal that is not dumb, and NO_COLOR is not set (https://no-color.org)."""
    if choice != "auto":
        return choice == "always"
    return terminal.for_a_person() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
