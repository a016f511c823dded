"""`candle-rocm versions`."""

from __future__ import annotations

import click

from codegen import terminal

SCHEMA_VERSION = 1


@click.command("versions")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(*, as_json: bool) -> None:
    """List the tested Candle releases, and the releases in the cache.

    Other commands accept any other release too, and report the sites that no rule covers.
    """
    from codegen.candle.fetch import cached_releases
    from codegen.release import newest_first

    tried, cached = known_releases(), cached_releases()
    rows = [
        {"version": version, "tried": version in tried, "cached": version in cached}
        for version in newest_first((*tried, *cached))
    ]
    if as_json:
        import json

        content = {"schema_version": SCHEMA_VERSION, "command": "versions", "releases": rows}
        terminal.say(json.dumps(content, indent=2))
        return
    width = max((len(str(row["version"])) for row in rows), default=0)
    for row in rows:
        notes = ("tested" if row["tried"] else "untested", "cached" if row["cached"] else "")
        terminal.say(f"{row['version']:<{width}}  {notes[0]:<8}  {notes[1]}".rstrip())


def known_releases() -> tuple[str, ...]:
    """The releases that `specs/candle.yaml` says all oracles were run on."""
    from codegen.paths import default_cache
    from codegen.spec.loader import load_specs

    return tuple(release.version for release in load_specs(cache=default_cache() / "specs").candle.releases)
