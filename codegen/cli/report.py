"""`candle-rocm report`."""

from __future__ import annotations

from pathlib import Path

import click

from codegen import terminal
from codegen.cli import complete, options


@click.command("report")
@click.argument("candle", shell_complete=complete.releases)
@click.option(
    "--html",
    "out",
    required=True,
    metavar="OUT",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.",
)
@click.option(
    "--sources",
    metavar="URL",
    default="",
    help="Where candle-rocm's files can be looked at: hunks link to their lines.",
)
@click.option(
    "--compare",
    "other",
    metavar="OLD",
    help="Another release or tree, or a folder that generate wrote, with any version of candle-rocm: show what each "
    "rule writes otherwise than there.",
)
@options.phases
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), help="Default: as applied, otherwise dummy.")
@options.runtime
@options.leave_unknown
@options.offline
@options.as_json
def command(
    candle: str,
    *,
    out: Path,
    sources: str,
    other: str | None,
    phases: tuple[int, ...],
    gating: str | None,
    runtime: str | None,
    leave_unknown: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Write a report for reviewers: every site, and the diff of every phase with the rule behind each hunk.

    The report is one HTML file that needs no network. If sites are unknown, it has no diffs and the exit code is 4;
    with --leave-unknown, it has the diffs and names the unknown sites.
    """
    from codegen.plan.decide import scan_tree
    from codegen.report.findings import findings
    from codegen.report.html import html_report, write_page
    from codegen.report.requested_plan import selected_plan
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, offline=offline, progress=options.progress)
    options.note_absent(workspace)
    tree, specs = workspace.tree, workspace.specs
    if not workspace.tried:
        options.note_untried(workspace)
    chosen, reached = workspace.gating(gating), workspace.runtime(runtime)
    scan = scan_tree(tree, specs, gating=chosen)
    error = findings(scan, specs, leave_unknown=leave_unknown)
    plan = None
    if error is None:
        plan = selected_plan(
            workspace, phases=phases, gating=chosen, runtime=reached, scan=scan, leave_unknown=leave_unknown
        )
        options.note_left(scan.decisions)
    old, old_name = None, ""
    if other is not None and plan is not None:
        from codegen.workspace.analysis import analyse
        from codegen.workspace.generated import read_generated

        wanted = tuple(phase.phase for phase in plan.phases)
        if (generated := read_generated(Path(other))) is not None:
            same = generated.release == tree.release
            of = workspace if same else open_workspace(generated.release, offline=offline, progress=options.progress)
            old, old_name = generated.plan(of.tree).only(wanted), generated.name
        else:
            before = open_workspace(other, offline=offline, progress=options.progress)
            old = analyse(before, phases=wanted, gating=chosen, runtime=reached, leave_unknown=leave_unknown).plan
    size = write_page(out, html_report(scan, specs, plan, error=error, sources=sources, old=old, old_name=old_name))
    if as_json:
        from codegen.report.json_document import document, dumps

        terminal.say(dumps(document("report", release=tree.release, tried=workspace.tried, html=str(out), bytes=size)))
    else:
        terminal.say(out)
    if error is not None:
        raise error
