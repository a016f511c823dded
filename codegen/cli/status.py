"""`candle-rocm status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from codegen.plan.model import Decision


@click.command("status")
@click.argument("candle", shell_complete=complete.folders)
@options.as_json
def command(candle: str, *, as_json: bool) -> None:
    """Show which phases are applied to the folder CANDLE, and which of their files were edited since.

    If phases are applied, status also names the unknown sites.
    """
    from codegen.errors import CandleRocmError
    from codegen.report.state import StateOfTree
    from codegen.report.wording import left_notes
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, as_it_is=True, progress=options.progress)
    state = StateOfTree.of(workspace)
    unknown: tuple[Decision, ...] | None = ()
    if workspace.record is not None:
        try:
            unknown = _unknown(candle)
        except CandleRocmError as error:
            unknown = None
            options.note(f"unknown sites are not counted: {error}")
    if as_json:
        ids = None if unknown is None else [decision.site.id for decision in unknown]
        options.print_json("status", workspace, **state.document(), unknown=ids)
        return
    for line in state.lines():
        terminal.say(line)
    for line in left_notes(unknown or ()):
        terminal.say(line)


def _unknown(candle: str) -> tuple[Decision, ...]:
    """The sites of the pristine tree that nothing decides."""
    from codegen.plan.decide import scan_tree
    from codegen.plan.model import State
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle)
    return scan_tree(workspace.tree, workspace.specs, gating=workspace.gating(None)).of_state(State.UNKNOWN)
