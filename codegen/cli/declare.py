"""`candle-rocm declare`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import complete, options


@click.command("declare")
@click.argument("candle", shell_complete=complete.folders)
@click.argument("files", nargs=-1)
@click.option("--undo", is_flag=True, help="Withdraw the declaration; the files stay as they are.")
@options.as_json
def command(candle: str, files: tuple[str, ...], *, undo: bool, as_json: bool) -> None:
    """Keep your own edits in FILES that candle-rocm wrote in the folder CANDLE. Default: all edited files.

    FILES are relative to CANDLE. `check` accepts a file exactly as declared. Later applies and reverts merge the edits
    into their result, or refuse. The declaration is stored in .candle-rocm/record.json: commit this file.
    """
    from codegen.workspace.declare import declare, withdraw
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, for_writing=True, as_it_is=True, progress=options.progress)
    options.note_settled(workspace)
    paths = withdraw(workspace, files) if undo else declare(workspace, files)
    if as_json:
        options.print_json("declare", workspace, **{"withdrawn" if undo else "declared": list(paths)})
        return
    for path in paths:
        terminal.say(f"{'no longer declared' if undo else 'declared'}: {path}")
    if not paths:
        terminal.say("no edits are declared" if undo else "nothing to declare: no file was edited by hand")
