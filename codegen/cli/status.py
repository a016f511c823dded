"""`candle-rocm status`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import options


@click.command("status")
@click.argument("candle")
@options.as_json
def command(candle: str, *, as_json: bool) -> None:
    """What is applied to the folder CANDLE, by its record and its files, and which of these were edited since."""
    from codegen.plan.workspace import open_workspace
    from codegen.report.state import StateOfTree

    workspace = open_workspace(candle, as_it_is=True, progress=options.progress)
    state = StateOfTree.of(workspace)
    if as_json:
        options.print_json("status", workspace, **state.document())
        return
    for line in state.lines():
        terminal.say(line)
