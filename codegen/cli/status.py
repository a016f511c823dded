"""`candle-rocm status`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import options


@click.command("status")
@click.argument("candle")
@options.as_json
def command(candle: str, *, as_json: bool) -> None:
    """What is applied to the folder CANDLE, and which of its files were edited since."""
    from codegen.plan.workspace import open_workspace

    workspace = open_workspace(candle, progress=options.progress)
    record = workspace.record
    edited = record.hand_edited(workspace.root) if record is not None else ()
    ready = [phase.phase for phase in workspace.specs.phases if phase.applied]
    if as_json:
        applied = [{"phase": p.phase, "files": [f.path for f in p.files]} for p in (record.phases if record else ())]
        header = record.header if record is not None else None
        options.print_json(
            "status",
            workspace,
            gating=header and header.gating,
            runtime=header and header.runtime,
            applied=applied,
            ready=[number for number in ready if number not in workspace.applied],
            hand_edited=list(edited),
        )
        return
    terminal.say(f"Candle {workspace.tree.release}" + ("" if workspace.tried else " (not tried by this version)"))
    if record is None:
        terminal.say("nothing is applied")
        return
    names = {phase.phase: phase.name for phase in workspace.specs.phases}
    choices = f"{record.header.gating} gating, {record.header.runtime} runtime"
    for phase in record.phases:
        name = names.get(phase.phase, "(unknown to this version)")
        terminal.say(f"phase {phase.phase} {name}: {len(phase.files)} files ({choices})")
    for path in edited:
        terminal.say(f"edited by hand: {path}")
