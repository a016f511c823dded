"""`candle-rocm use`: what a program needs to be built with a patched Candle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import options

if TYPE_CHECKING:
    from codegen.workspace.use import UsePlan


@click.command("use")
@click.argument("app", type=click.Path(path_type=Path))
@click.option(
    "--candle",
    "tree",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The patched Candle. Default: what [patch] names, otherwise a new folder beside the program.",
)
@click.option("--write", is_flag=True, help="Fetch and patch Candle where it is not there, and change the manifests.")
@options.offline
@options.as_json
def command(*, app: Path, tree: Path | None, write: bool, offline: bool, as_json: bool) -> None:
    """Show what the program in the folder APP needs to be built with a patched Candle, and what is wrong already.

    The release is the one that Cargo.lock names. Without --write, nothing is written: the manifests' changes are
    printed as a diff, and the commands that make the patched tree. No code of the program runs. Exit 5 if something
    is wrong that only you can correct.
    """
    from codegen.errors import Conflict
    from codegen.workspace.use import plan_use

    plan = plan_use(app, tree)
    if write and not plan.faults:
        _write(plan, offline=offline)
        plan = plan_use(app, tree)
    if as_json:
        from codegen.report.json_document import dumps
        from codegen.report.use import use_document

        terminal.say(dumps(use_document(plan)))
    else:
        from codegen.report.use import use_lines

        terminal.say_exactly(f"{line}\n" for line in use_lines(plan, written=write))
    if plan.faults:
        raise Conflict(plan.faults, remedy="correct this, and run the command again")


def _write(plan: UsePlan, *, offline: bool) -> None:
    """Make the tree first: a manifest must not name a folder that is not there."""
    from codegen.candle.fetch import copy_release
    from codegen.errors import UsageError
    from codegen.workspace.use import command_line, write_changes

    for words in plan.commands:
        match words:
            case ("candle-rocm", "fetch", version, "--to", _):
                copy_release(version, plan.tree, offline=offline, progress=options.progress)
                options.note(f"Candle {version} is in {plan.tree}")
            case ("candle-rocm", "apply", _):
                _apply(plan.tree)
                options.note(f"ROCm is added to {plan.tree}")
            case _:
                raise UsageError(
                    f"Candle comes from git here, and {plan.tree} is not there",
                    remedy="; ".join(command_line(each) for each in plan.commands),
                )
    write_changes(plan)


def _apply(tree: Path) -> None:
    from codegen.workspace.apply import apply_phases
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(str(tree), for_writing=True, progress=options.progress)
    apply_phases(
        workspace,
        phases=(),
        gating=workspace.gating(None),
        runtime=workspace.runtime(None),
        leave_unknown=False,
        allow_dirty=False,
        force=False,
        announce=options.announce_discarded,
    )
