"""`candle-rocm apply`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import complete, options


@click.command("apply")
@click.argument("candle", shell_complete=complete.folders)
@options.phases
@options.gating
@options.runtime
@click.option("--allow-dirty", is_flag=True, help="Apply to a git tree with uncommitted changes.")
@options.leave_unknown
@options.force
@options.as_json
def command(
    candle: str,
    *,
    phases: tuple[int, ...],
    gating: str | None,
    runtime: str | None,
    allow_dirty: bool,
    leave_unknown: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write the phases into the folder CANDLE: all files or none. `revert` undoes them, byte for byte.

    Without --phase, apply every phase that is ready and not applied yet. Declared edits stay. The record of the applied
    phases is .candle-rocm/record.json: commit it together with the files.
    """
    from codegen.workspace.apply import apply_phases
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, for_writing=True, progress=options.progress)
    options.note_absent(workspace)
    options.note_settled(workspace)
    if not workspace.tried:
        options.note_untried(workspace)
    chosen, reached = workspace.gating(gating), workspace.runtime(runtime)
    analysis = apply_phases(
        workspace,
        phases=phases,
        gating=chosen,
        runtime=reached,
        leave_unknown=leave_unknown,
        allow_dirty=allow_dirty,
        force=force,
        announce=options.announce_discarded,
    )
    left = options.note_left(analysis.decisions)
    options.note_unforeseen(analysis.decisions)
    applied = analysis.plan.phases
    if as_json:
        content = [{"phase": p.phase, "name": p.name, "files": [c.path for c in p.changes]} for p in applied]
        choices = {"gating": chosen.value, "runtime": reached.value}
        options.print_json("apply", workspace, **choices, applied=content, unknown=list(left))
        return
    for phase in applied:
        new = sum(change.before is None for change in phase.changes)
        terminal.say(f"phase {phase.phase} {phase.name}: {len(phase.changes) - new} files changed, {new} new")
    if not applied:
        terminal.say("nothing to do: every requested phase is already applied")
