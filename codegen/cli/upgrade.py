"""`candle-rocm upgrade`: a patched tree, taken to another release of Candle or to this version of candle-rocm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options
from codegen.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.candle.tree import CandleTree
    from codegen.workspace.upgrade import Upgrade


@click.command("upgrade")
@click.argument("candle", shell_complete=complete.folders)
@click.option("--to", metavar="VERSION|DIR", help="The new Candle. Default: what the tree says that it is.")
@click.option(
    "--from", "base", metavar="VERSION|DIR", help="The Candle that the tree was made from. Default: as applied."
)
@click.option("--dry-run", is_flag=True, help="Show what would change and conflict; write nothing.")
@click.option("--allow-dirty", is_flag=True, help="Upgrade a git tree with uncommitted changes.")
@options.leave_unknown
@options.offline
@options.as_json
def command(
    candle: str,
    *,
    to: str | None,
    base: str | None,
    dry_run: bool,
    allow_dirty: bool,
    leave_unknown: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Take the patched folder CANDLE to another release, with every edit in it kept: all files or none.

    Candle's own changes come from the new release, or are there already if git merged it. Without --to, the phases are
    written as this version of candle-rocm writes them. Conflicts are git's own, and exit with 1: resolve them, then
    declare the edits in patched files.
    """
    from codegen.workspace.upgrade import plan_upgrade, upgrade
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, for_writing=True, as_it_is=True)
    options.note_absent(workspace)
    options.note_settled(workspace)

    def opened(named: str | None) -> CandleTree | None:
        return None if named is None else open_workspace(named, offline=offline, progress=options.progress).tree

    planned = plan_upgrade(
        workspace,
        to=opened(to),
        base=opened(base),
        release=lambda version: open_workspace(version, offline=offline, progress=options.progress).tree,
        leave_unknown=leave_unknown,
        allow_dirty=allow_dirty,
    )
    left = options.note_left(planned.analysis.decisions)
    options.note_unforeseen(planned.analysis.decisions)
    if not dry_run:
        upgrade(workspace, planned)
    if as_json:
        conflicts = [{"path": each.path, "lines": list(each.lines)} for each in planned.conflicts]
        content = {"from": planned.old, "to": planned.new, "written": not dry_run, "changed": sorted(planned.changed)}
        options.print_json(
            "upgrade", workspace, **content, kept=list(planned.kept), conflicts=conflicts, unknown=list(left)
        )
    else:
        for line in _lines(planned, dry_run=dry_run):
            terminal.say(line)
    if planned.conflicts:
        raise click.exceptions.Exit(ExitCode.CHANGES_NEEDED)


def _lines(planned: Upgrade, *, dry_run: bool) -> Iterator[str]:
    from codegen.terminal import shown_name

    yield f"Candle {planned.old} -> {planned.new}" + (" (nothing is written)" if dry_run else "")
    for name, paths in (
        ("Candle's own", planned.changed.keys() - planned.generated),
        ("ROCm", planned.changed.keys() & planned.generated),
    ):
        gone = sum(planned.changed[path] is None for path in paths)
        new = len(paths - planned.before)
        yield f"{name}: {len(paths) - new - gone} files changed, {new} new, {gone} deleted"
    for path in planned.kept:
        yield f"edits kept: {shown_name(path)}"
    for each in planned.conflicts:
        where = ", ".join(map(str, each.lines)) if each.lines else "one side has deleted it"
        yield f"conflict: {shown_name(each.path)}: {where}"
