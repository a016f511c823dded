"""`candle-rocm bug-report`: one archive for whoever has to find out what went wrong."""

from __future__ import annotations

import getpass
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal

if TYPE_CHECKING:
    from codegen.verify.bug_report import Scrubber

SCHEMA_VERSION = 1


@click.command("bug-report")
@click.argument("candle", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the archive (zip).")
@click.option("--show", metavar="NAME", help="Print this file of the archive.")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="The work folder of `verify`, if --work named one there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the files and what they hold as JSON.")
def command(*, candle: Path | None, to: Path | None, show: str | None, work: Path | None, as_json: bool) -> None:
    """Collect what `doctor`, `versions` and `status` say, variables, and the ends of the logs of `verify`.

    CANDLE is the tree in question. Names of users and machines, home folders and secrets are taken out. Nothing is
    written without --to: first look at the list, and at the files with --show. Nothing is sent anywhere.
    """
    from codegen.errors import InputOutputError, UsageError
    from codegen.verify.bug_report import Scrubber, archive, listing, names_here

    scrub = Scrubber(names_here(home=str(Path.home()), user=_user(), host=platform.node()))
    files = {name: scrub(text) for name, text in _collected(candle, work).items()}
    if show is not None:
        if show not in files:
            raise UsageError(f"the archive has no {show}", remedy=f"choose among {', '.join(sorted(files))}")
        terminal.say(files[show], end="")
        return
    if to is not None:
        try:
            with to.open("xb") as file:
                file.write(archive(files))
        except OSError as error:
            raise InputOutputError(
                f"cannot write {to}: {error.strerror}", remedy="name a new file in a folder that you may write"
            ) from error
    if as_json:
        content = {"schema_version": SCHEMA_VERSION, "command": "bug-report", "taken_out": scrub.counts, "files": files}
        terminal.say(json.dumps(content, indent=2, ensure_ascii=False))
        return
    for line in listing(files, scrub.counts):
        terminal.say(line)
    _say_what_next(scrub, to)


def _say_what_next(scrub: Scrubber, to: Path | None) -> None:
    if to is None:
        terminal.note("nothing is written: look at a file with --show NAME, then write all of it with --to FILE.zip")
    elif scrub.counts.get("secrets"):
        terminal.note(f"{to} is written; it had secrets, which were taken out: look at it before you send it")
    else:
        terminal.note(f"{to} is written")


def _collected(candle: Path | None, work: Path | None) -> dict[str, str]:
    """The texts, by their names in the archive, as they are."""
    from codegen import __version__
    from codegen.cli.versions import known_releases
    from codegen.paths import default_cache, is_checkout
    from codegen.verify.bug_report import logs_below, variables_text
    from codegen.verify.doctor import all_checks
    from codegen.verify.document import doctor_document
    from codegen.verify.machine import Machine

    about = {
        "candle-rocm": __version__,
        "from": "a checkout" if is_checkout() else "an installation",
        "python": platform.python_version(),
        "system": platform.platform(),
        "tested releases": list(known_releases()),
    }
    files = {
        "about.json": _text(about),
        "doctor.json": _text(doctor_document(all_checks(Machine.here(), candle))),
        "variables.txt": variables_text(os.environ),
        **logs_below(work or default_cache() / "verify"),
    }
    return files if candle is None else {**files, "status.json": _status(candle)}


def _status(candle: Path) -> str:
    """What `status` says; an error is what a report is about."""
    from codegen.errors import CandleRocmError
    from codegen.report.state import StateOfTree
    from codegen.workspace.workspace import open_workspace

    try:
        workspace = open_workspace(str(candle), as_it_is=True)
        return _text({"release": workspace.tree.release, **StateOfTree.of(workspace).document()})
    except CandleRocmError as error:
        return _text({"error": str(error)})


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, as in some containers
        return ""


def _text(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
