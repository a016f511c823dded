"""`candle-rocm revert`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import complete, options


@click.command("revert")
@click.argument("candle", shell_complete=complete.folders)
@click.option("--phase", type=click.IntRange(0, 7), help="Undo this phase and all later ones. Default: all.")
@click.option(
    "--keep-edits",
    is_flag=True,
    help="Keep other changes to the files, by hand or by a merge, as if they were declared.",
)
@options.force
@options.as_json
def command(candle: str, *, phase: int | None, keep_edits: bool, force: bool, as_json: bool) -> None:
    """Undo phases in the folder CANDLE, the last one first. Every byte is as before, except for declared edits.

    An interrupted apply or revert is completed or undone first. If nothing is applied after that, revert stops there.
    """
    from codegen.workspace.apply import revert_phases
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, for_writing=True, as_it_is=True, progress=options.progress)
    options.note_settled(workspace)
    if workspace.settled and not workspace.applied and phase is None:
        reverted: tuple[int, ...] = ()
    else:
        reverted = revert_phases(
            workspace, down_to=phase, force=force, keep_edits=keep_edits, announce=options.announce_discarded
        )
    if as_json:
        options.print_json("revert", workspace, reverted=list(reverted))
        return
    for number in reverted:
        terminal.say(f"phase {number}: reverted")
