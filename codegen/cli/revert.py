"""`candle-rocm revert`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import options


@click.command("revert")
@click.argument("candle")
@click.option("--phase", type=click.IntRange(0, 7), help="Take back this phase and those above it; all by default.")
@click.option(
    "--keep-edits",
    is_flag=True,
    help="Keep what else was made of the files, by hand or by a merge, as if it were declared.",
)
@options.force
@options.as_json
def command(candle: str, *, phase: int | None, keep_edits: bool, force: bool, as_json: bool) -> None:
    """Take phases back from the folder CANDLE, last one first; every byte is as before, but for edits declared.

    An apply or revert that was interrupted is settled first; where nothing is applied then, that is all.
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
        terminal.say(f"phase {number}: taken back")
