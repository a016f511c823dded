"""`candle-rocm check`."""

from __future__ import annotations

import click

from codegen import terminal
from codegen.cli import complete, options


@click.command("check")
@click.argument("candle", shell_complete=complete.folders)
@options.phases
@options.gating
@options.runtime
@options.leave_unknown
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    candle: str,
    *,
    phases: tuple[int, ...],
    gating: str | None,
    runtime: str | None,
    leave_unknown: bool,
    as_json: bool,
) -> None:
    """Exit 1 if a file in the folder CANDLE differs from what apply would write. Nothing is written.

    Without --phase, check the phases that are applied, or all ready phases if none is applied. Exit 4 if a site is
    unknown, unless --leave-unknown is given.
    """
    from codegen.errors import ExitCode
    from codegen.plan.decide import scan_tree
    from codegen.report.wording import plural
    from codegen.workspace.apply import deviations
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, progress=options.progress)
    options.note_absent(workspace)
    own = len(workspace.record.declared) if workspace.record is not None else 0
    chosen, reached = workspace.gating(gating), workspace.runtime(runtime)
    found = deviations(workspace, phases=phases, gating=chosen, runtime=reached, leave_unknown=leave_unknown)
    left: tuple[str, ...] = ()
    if leave_unknown:
        left = options.note_left(scan_tree(workspace.tree, workspace.specs, gating=chosen).decisions)
    if as_json:
        files = [{"path": deviation.path, "problem": deviation.problem} for deviation in found]
        options.print_json("check", workspace, clean=not found, files=files, declared=own, unknown=list(left))
    else:
        for deviation in found:
            terminal.say(f"{deviation.path}: {deviation.problem}")
        differ = "1 file differs" if len(found) == 1 else f"{len(found)} files differ"
        good = "up to date" + (f", with declared edits in {plural(own, 'file')}" if own else "")
        terminal.say(f"{differ} from what apply would write" if found else good)
    if found:
        context.exit(ExitCode.CHANGES_NEEDED)
