"""`candle-rocm fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from codegen import terminal

SCHEMA_VERSION = 1


@click.command("fetch")
@click.argument("version")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a fresh workspace to DIR, which must be empty or absent.",
)
@click.option("--offline", is_flag=True, help="Use nothing but the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(version: str, to: Path | None, *, offline: bool, as_json: bool) -> None:
    """Get Candle VERSION from the crate registry, rebuilt as a workspace, and print where it is.

    The registry is the one that cargo is configured for. What was fetched once needs no network. The cache is
    CANDLE_ROCM_FETCH_DIR, or candle-rocm in the user's cache folder; a tree in it is for reading only: take one of
    your own with --to.
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
