"""`candle-rocm scan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from codegen.plan.decide import Scan
    from codegen.verify.oracle_compare import Comparison
    from codegen.workspace.workspace import Workspace

STATES = {"handled": "handled", "not-applied": "not applied", "left-alone": "left alone", "unknown": "unknown"}


@click.command("scan")
@click.argument("candle", shell_complete=complete.releases)
@click.option("--list", "as_list", is_flag=True, help="Print one line per site.")
@click.option("--state", "states", multiple=True, type=click.Choice(list(STATES)), help="Only sites in this state.")
@click.option("--phase", "phases", multiple=True, type=click.IntRange(0, 7), help="Only sites of this phase.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only sites of this kind, such as match.")
@click.option("--path", "paths", multiple=True, metavar="GLOB", help="Only sites in these files; ** crosses folders.")
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), help="Default: as applied, otherwise dummy.")
@click.option("--suggest", is_flag=True, help="Print only a draft of the tree's own specs for the unknown sites.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="With --suggest: write the draft to this new file."
)
@click.option("--oracle", is_flag=True, help="Compare with rustc's list of exhaustive matches (runs cargo; a minute).")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the oracle's scratch copy and cargo's target folder.",
)
@options.offline
@click.option("--json", "output", flag_value="json", help="Print the result as JSON.")
@click.option("--sarif", "output", flag_value="sarif", help="Print undecided sites and notes as SARIF 2.1.0.")
@click.option("--github", "output", flag_value="github", help="Print GitHub annotations for undecided sites.")
@click.pass_context
def command(
    context: click.Context,
    *,
    candle: str,
    as_list: bool,
    states: tuple[str, ...],
    phases: tuple[int, ...],
    kinds: tuple[str, ...],
    paths: tuple[str, ...],
    gating: str | None,
    suggest: bool,
    out: Path | None,
    oracle: bool,
    work: Path | None,
    offline: bool,
    output: str | None,
) -> None:
    """List every backend site of CANDLE: handled, not applied yet, left alone (and why), or unknown.

    CANDLE may also be the folder of a program that uses Candle; scan then lists its sites and the result of `diff` for
    each. Nothing is written, and no code of the tree runs, except with --oracle, which builds the tree. Exit 4 if a
    site is unknown, if a method of the backend traits has no template, or if rustc and the scan disagree.
    """
    from codegen.errors import ExitCode, RenamedVariant
    from codegen.plan.decide import scan_tree
    from codegen.plan.files import methods_without_template
    from codegen.plan.idle import idle_entries
    from codegen.report.findings import findings
    from codegen.report.site_filter import SiteFilter
    from codegen.report.summary import summarise
    from codegen.workspace.workspace import open_workspace

    if (program := options.program_plan(candle, gating)) is not None:
        from codegen.report.program import program_document, program_lines

        if output == "json":
            from codegen.report.json_document import dumps

            terminal.say(dumps(program_document(program)))
            return
        for line in program_lines(program):
            terminal.say(line)
        return
    wanted = SiteFilter.of(states=[STATES[state] for state in states], phases=phases, kinds=kinds, paths=paths)
    workspace = open_workspace(candle, offline=offline, progress=options.progress)
    options.note_absent(workspace)
    specs = workspace.specs
    if not workspace.tried:
        options.note_untried(workspace)
    if suggest or out is not None:
        _suggest(context, workspace, out, alone=suggest)
        return
    scan = scan_tree(workspace.tree, specs, gating=workspace.gating(gating))
    error = findings(scan, specs, methods_without_template(workspace.tree))
    if isinstance(error, RenamedVariant) and output is None:
        raise error  # the sites would hide what happened
    compared = _compare(workspace, scan, work) if oracle else None
    options.note_unforeseen(scan.decisions)
    options.note_idle_rules(idle_entries(workspace.tree, specs, {workspace.gating(gating): scan.decisions}))
    chosen = wanted.select(scan.decisions)
    match output:
        case "json":
            from codegen.report.json_document import dumps
            from codegen.report.scan_document import scan_document
            from codegen.verify.oracle_compare import comparison_entry

            problems = error.problems if error is not None else ()
            judged = comparison_entry(compared) if compared is not None else None
            summary = summarise(scan, specs.phases)
            terminal.say(dumps(scan_document(scan, specs, summary, decisions=chosen, problems=problems, oracle=judged)))
        case "sarif":
            from codegen.report.json_document import dumps
            from codegen.report.sarif import sarif_log

            terminal.say(dumps(sarif_log(scan, chosen, error)))
        case "github":
            from codegen.report.annotations import github_annotations

            for line in github_annotations(error) if error is not None else ():
                terminal.say(line)
        case _:
            from codegen.report.table import print_scan, print_sites, stdout_console

            console = stdout_console()
            if as_list or not wanted.selects_all:
                print_sites(console, chosen)
            else:
                print_scan(console, scan, summarise(scan, specs.phases))
            if compared is not None:
                terminal.say(str(compared))
    if output == "json" and (error is not None or (compared is not None and not compared.agrees)):
        context.exit(ExitCode.UNKNOWN_SITE)
    if error is not None:
        raise error
    if compared is not None:
        from codegen.verify.oracle_compare import refuse_disagreement

        refuse_disagreement(compared)


def _suggest(context: click.Context, workspace: Workspace, out: Path | None, *, alone: bool) -> None:
    """The draft on stdout or in a new file; exit 4 while there are unknown sites."""
    from codegen.errors import ExitCode, InputOutputError, UsageError
    from codegen.plan.decide import scan_tree
    from codegen.plan.suggest import draft
    from codegen.spec.kinds import Gating

    if not alone:
        raise UsageError("--out goes with --suggest", remedy="candle-rocm scan CANDLE --suggest --out FILE")
    specs = workspace.specs
    text = draft([scan_tree(workspace.tree, specs, gating=each) for each in Gating], specs)
    if not text:
        options.note("no site is unknown: there is nothing to suggest")
        return
    if out is None:
        terminal.say(text, end="")
    else:
        try:
            with out.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InputOutputError(
                f"cannot write {out}: {error.strerror}", remedy="name a file that does not exist yet"
            ) from error
        terminal.say(out)
    context.exit(ExitCode.UNKNOWN_SITE)


def _compare(workspace: Workspace, scan: Scan, work: Path | None) -> Comparison:
    """rustc's list of exhaustive matches in the pristine tree against the scan's."""
    from codegen.paths import default_cache
    from codegen.verify.cargo import require_programs
    from codegen.verify.oracle import CRATE, exhaustive_matches
    from codegen.verify.oracle_compare import compare, compiled_matches, pristine_root

    require_programs(["cargo", "rustc"])
    options.note_that_code_runs("--oracle")
    folder = work or default_cache() / "verify"
    tree = workspace.tree
    found = exhaustive_matches(
        pristine_root(tree, folder / "pristine"),
        scratch=folder / "oracle" / tree.release,
        target_dir=folder / "target",
        log=folder / "logs" / f"oracle-{tree.release}.log",
        pins=workspace.specs.candle.pins_of(tree.release),
        on_message=options.progress,
        on_note=options.note,
    )
    features = next((crate.features for crate in tree.crates if crate.name == CRATE), {})
    known = {release.version: release.exhaustive_matches for release in workspace.specs.candle.releases}
    return compare(found, compiled_matches(scan.decisions, features), known.get(tree.release))
