"""`candle-rocm parity`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from codegen.report.parity import Compared
    from codegen.spec.parity import Parity
    from codegen.workspace.workspace import Workspace

STATES = {"same": "same", "other": "other form", "none": "none", "missing": "missing", "unanswered": "unanswered"}


@click.command("parity")
@click.argument("candle", required=False, shell_complete=complete.releases)
@click.option("--state", "states", multiple=True, type=click.Choice(list(STATES)), help="Only items in this state.")
@click.option("--markdown", is_flag=True, help="Print a page with tables, as docs/parity.md.")
@options.leave_unknown
@options.offline
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    candle: str | None,
    states: tuple[str, ...],
    markdown: bool,
    leave_unknown: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """List the public items of CANDLE's CUDA side, each with what ROCm's side has for it.

    An item is the same after renaming, has another form, has none (and why), or is missing (and what it waits for).
    Without CANDLE, all tested releases are compared. Nothing is written. Exit 4 if an item has neither a counterpart
    nor a reason in specs/parity.yaml, exit 3 if that file answers what is not asked.
    """
    from codegen.cli.versions import known_releases
    from codegen.errors import UsageError
    from codegen.report.parity import State, error_of
    from codegen.report.parity_page import parity_lines, parity_page, release_document, releases_document
    from codegen.spec.parity import load_parity
    from codegen.workspace.workspace import open_workspace

    if markdown and (as_json or states):
        raise UsageError("--markdown goes with neither --json nor --state", remedy="candle-rocm parity --markdown")
    parity = load_parity()
    workspaces = [
        open_workspace(each, offline=offline, progress=options.progress)
        for each in ((candle,) if candle is not None else known_releases())
    ]
    found = [_compare(each, parity, leave_unknown=leave_unknown, candle=candle) for each in workspaces]
    wanted = frozenset(State(STATES[state]) for state in states)
    error = error_of(found)
    if as_json:
        from codegen.report.json_document import dumps

        one = candle is not None
        content = (
            release_document(found[0], wanted, tried=workspaces[0].tried) if one else releases_document(found, wanted)
        )
        terminal.say(dumps(content))
        if error is not None:
            context.exit(error.exit_code)
        return
    if markdown:
        terminal.say(parity_page(found), end="")
    else:
        for line in parity_lines(found, wanted):
            terminal.say(line)
    if error is not None:
        raise error


def _compare(workspace: Workspace, parity: Parity, *, leave_unknown: bool, candle: str | None) -> Compared:
    """The comparison of one tree; of a folder, which may have lost items, answers may be about nothing."""
    from codegen.report.parity import compare
    from codegen.workspace.analysis import analyse

    analysis = analyse(
        workspace,
        gating=workspace.gating(None),
        runtime=workspace.runtime(None),
        leave_unknown=leave_unknown,
        on_untried=lambda: options.note_untried(workspace),
    )
    exact = workspace.tried and (candle is None or not Path(candle).is_dir())
    return compare(workspace.tree, analysis.plan, parity, exact=exact)
