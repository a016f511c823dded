"""`candle-rocm publish`: patched releases as a git repository, for programs that have neither Python nor a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from codegen.workspace.publish import Published

SCHEMA_VERSION = 1


@click.command("publish")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("releases", nargs=-1, metavar="[VERSION]...", shell_complete=complete.releases)
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), default="dummy", show_default=True)
@click.option("--runtime", type=click.Choice(["dynamic", "rocm-rs"]), default="dynamic", show_default=True)
@options.offline
@options.quiet
@options.verbose
@options.as_json
def command(
    *,
    folder: Path,
    releases: tuple[str, ...],
    gating: str,
    runtime: str,
    offline: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Make a bare git repository in DIR with each patched release, or bring it up to date.

    Without VERSION, all tested releases. Each has a branch, 0.11.1-rocm: Candle as it was published, and a commit for
    each phase. A tag, 0.11.1-rocm.1, stays as it is; when the patch changes, the next number is added. Two
    publications of the same are the same to the hash. Nothing is pushed.
    """
    from codegen.cli.versions import known_releases
    from codegen.spec.kinds import Gating, Runtime
    from codegen.watch import watching
    from codegen.workspace.publish import publish

    wanted = releases or known_releases()
    with watching(len(wanted), options.verbosity(quiet=quiet, verbose=verbose)) as watch:
        left = iter(wanted)
        watch.start(f"Candle {next(left)}")

        def told(made: Published) -> None:
            watch.end("published" if made.is_new else "as before", made.tag)
            if (following := next(left, None)) is not None:
                watch.start(f"Candle {following}")

        made = publish(
            folder, wanted, gating=Gating(gating), runtime=Runtime(runtime), offline=offline, on_release=told
        )
    if as_json:
        import json

        rows = [
            {"release": p.release, "branch": p.branch, "tag": p.tag, "commit": p.commit, "new": p.is_new} for p in made
        ]
        content = {"schema_version": SCHEMA_VERSION, "command": "publish", "folder": str(folder), "releases": rows}
        terminal.say(json.dumps(content, indent=2))
        return
    for each in made:
        terminal.say(f"{each.tag:<20}  {each.commit}  {'new' if each.is_new else 'as before'}")
