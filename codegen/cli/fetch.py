"""`candle-rocm fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from codegen import terminal
from codegen.cli import complete

SCHEMA_VERSION = 1


@click.command("fetch")
@click.argument("version", shell_complete=complete.releases)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a fresh workspace to DIR, which must be empty or absent.",
)
@click.option("--offline", is_flag=True, help="Use the cache only.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(version: str, to: Path | None, *, offline: bool, as_json: bool) -> None:
    """Download Candle VERSION from the crate registry, rebuild it as a workspace, and print its folder.

    The registry is the one that cargo is configured for. A release in the cache needs no network. The cache is
    CANDLE_ROCM_FETCH_DIR, or candle-rocm in the user's cache folder. Do not change a tree in the cache; get your own
    with --to.
    """
    from codegen.candle.fetch import copy_release, fetch

    if to is None:
        release = fetch(version, offline=offline, progress=terminal.progress)
    else:
        release = copy_release(version, to, offline=offline, progress=terminal.progress)
    if as_json:
        import json

        content = {
            "schema_version": SCHEMA_VERSION,
            "command": "fetch",
            "version": release.version,
            "path": str(release.root),
            "crates": [{"name": crate.name, "checksum": crate.checksum} for crate in release.crates],
            "absent": list(release.absent),
        }
        terminal.say(json.dumps(content, indent=2))
    else:
        terminal.say(release.root)
