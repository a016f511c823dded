"""`candle-rocm generate`."""

from __future__ import annotations

from pathlib import Path

import click

from codegen import terminal
from codegen.cli import complete, options


@click.command("generate")
@click.argument("candle", shell_complete=complete.releases)
@options.phases
@options.gating
@options.runtime
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Output folder. Default: generated/<release> in the current folder.",
)
@options.offline
@options.as_json
def command(
    candle: str,
    *,
    phases: tuple[int, ...],
    gating: str | None,
    runtime: str | None,
    out: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Write one patch per phase, the new files and a JSON report. CANDLE itself is not changed.

    `git apply` and `git am` accept the patches, each on top of those of the earlier phases.
    """
    from codegen.workspace.analysis import analyse
    from codegen.workspace.output import write_output
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, offline=offline, progress=options.progress)
    options.note_absent(workspace)
    analysis = analyse(
        workspace,
        phases=workspace.with_applied(phases),
        gating=workspace.gating(gating),
        runtime=workspace.runtime(runtime),
        on_untried=lambda: options.note_untried(workspace),
    ).only(phases)
    plan = analysis.plan
    folder = out or Path("generated") / plan.release
    written = write_output(folder, analysis, named=out is not None)
    options.note_unforeseen(analysis.decisions)
    if as_json:
        chosen = {"gating": plan.gating, "runtime": plan.runtime}
        options.print_json("generate", workspace, **chosen, out=str(folder), files=list(written))
        return
    for phase in plan.phases:
        new = sum(change.before is None for change in phase.changes)
        terminal.say(f"phase {phase.phase} {phase.name}: {len(phase.changes) - new} files changed, {new} new")
    terminal.say(f"{len(written)} files in {folder}")
