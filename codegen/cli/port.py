"""`candle-rocm port`: what a crate that uses Candle's CUDA backend by name needs for ROCm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from codegen.workspace.port import Port


@click.command("port")
@click.argument("app", metavar="DIR", type=click.Path(path_type=Path), shell_complete=complete.folders)
@click.option("--write", is_flag=True, help="Write the port: all files or none.")
@click.option("--diff", "as_diff", is_flag=True, help="Print the changes as a unified diff, and nothing else.")
@click.option("--check", is_flag=True, help="Exit 1 if a file differs from what --write would leave.")
@click.option("--revert", is_flag=True, help="Take a written port back, byte for byte.")
@click.option("--keep-edits", is_flag=True, help="With --revert: keep edits by hand that do not overlap with the port.")
@click.option("--allow-dirty", is_flag=True, help="With --write: write to a git tree with uncommitted changes.")
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    app: Path,
    write: bool,
    as_diff: bool,
    check: bool,
    revert: bool,
    keep_edits: bool,
    allow_dirty: bool,
    as_json: bool,
) -> None:
    """List each use of Candle's CUDA backend in the crate or workspace DIR, and port what can be ported by rule.

    Code for CUDA gets a twin for ROCm behind the feature `rocm`; what has no counterpart is named, with the reason.
    Without --write, nothing is written. No code of the crate runs.
    """
    from codegen.errors import UsageError

    if sum((write, as_diff, check, revert)) > 1:
        raise UsageError("--write, --diff, --check and --revert exclude each other", remedy="give one of them")
    if (keep_edits and not revert) or (allow_dirty and not write):
        raise UsageError(
            "--keep-edits goes with --revert, and --allow-dirty with --write", remedy="candle-rocm port --help"
        )
    if revert:
        _revert(app, keep_edits=keep_edits, as_json=as_json)
        return
    from codegen.workspace.port import deviations, open_port, write_port

    port = open_port(app, for_writing=write)
    if write:
        write_port(port, allow_dirty=allow_dirty)
        port = open_port(app)
    differing = deviations(port)
    if as_json:
        from codegen.report.json_document import dumps
        from codegen.report.port import port_document

        terminal.say(dumps(port_document(port, differing)))
    elif as_diff:
        from codegen.patch.git_format import unified_diff

        terminal.say_exactly(unified_diff(port.plan.changes, color=False))
    elif check:
        _say_differing(differing)
    else:
        _say(port, differing)
    if check and differing:
        from codegen.errors import ExitCode

        context.exit(ExitCode.CHANGES_NEEDED)


def _say(port: Port, differing: tuple[tuple[str, str], ...]) -> None:
    from codegen.report.port import check_command, port_lines

    terminal.say_exactly(f"{line}\n" for line in port_lines(port))
    if not port.plan.changes:
        return
    terminal.say("")
    if port.written and not differing:
        terminal.say(f"Written. Check it: {check_command(port)}")
    elif port.written:
        _say_differing(differing)
    else:
        terminal.say("Write it: candle-rocm port DIR --write")


def _say_differing(differing: tuple[tuple[str, str], ...]) -> None:
    from codegen.report.wording import plural

    for path, problem in differing:
        terminal.say(terminal.shown(f"{path}: {problem}"))
    verb = "differs" if len(differing) == 1 else "differ"
    said = f"{plural(len(differing), 'file')} {verb} from what --write would leave"
    terminal.say(said if differing else "up to date")


def _revert(app: Path, *, keep_edits: bool, as_json: bool) -> None:
    from codegen.workspace.port import revert_port

    paths = revert_port(app, keep_edits=keep_edits)
    if as_json:
        from codegen import __version__
        from codegen.report.json_document import SCHEMA_VERSION, dumps

        tool = {"name": "candle-rocm", "version": __version__}
        terminal.say(
            dumps({"schema_version": SCHEMA_VERSION, "command": "port", "tool": tool, "reverted": list(paths)})
        )
        return
    from codegen.report.wording import plural

    terminal.say(f"{plural(len(paths), 'file')} taken back")
