"""`python -m codegen.workbench CANDLE FOLDER`: a patched Candle whose plain new files are links to their sources here.

rust-analyzer, `cargo check`, `cargo clippy` and `cargo test` in FOLDER then work on templates/candle itself. Files that
a template makes are as `apply` leaves them: run the command again after a change of one, or when a source is added.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import terminal
from codegen.errors import CandleRocmError, UsageError
from codegen.paths import templates_dir
from codegen.spec.folders import is_plain
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime
from codegen.verify.scratch import ScratchTree
from codegen.workspace.analysis import analyse
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = "target"
MARK = ".candle-rocm-workbench"


def lay_out(candle: str, folder: Path, *, gating: Gating, runtime: Runtime) -> tuple[str, ...]:
    """Make or renew the workbench, and return the paths of its links.

    Raises `UsageError` for a folder that holds something else, and as `open_workspace`, `analyse` and `sync`.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise UsageError(f"{folder} holds something that is no workbench", remedy="name an empty or a new folder")
    workspace = open_workspace(candle)
    plan = analyse(workspace, gating=gating, runtime=runtime).plan
    for link in list(_links(folder)):  # sync would write through them, also where the source is gone
        link.unlink()
    ScratchTree(folder, folder / TARGET).sync(workspace.root, {change.path: change.after for change in plan.changes})
    (folder / MARK).touch()
    links = {
        change.path: templates_dir() / region.origin.template
        for change in plan.changes
        if change.before is None
        for region in change.regions
        if region.origin.template is not None and is_plain(region.origin.template)
    }
    for path, source in links.items():
        link = folder / path
        link.unlink()
        link.symlink_to(os.path.relpath(source, link.parent.resolve()))
    return tuple(sorted(links))


def _links(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        if Path(parent) == folder and TARGET in folders:
            folders.remove(TARGET)
        yield from (path for path in (Path(parent, name) for name in files) if path.is_symlink())


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m codegen.workbench", description=__doc__)
    parser.add_argument("candle", help="a folder or a version")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gating", type=Gating, choices=list(Gating), default=Gating.DUMMY)
    parser.add_argument("--runtime", type=Runtime, choices=list(Runtime), default=DEFAULT_RUNTIME)
    asked = parser.parse_args(arguments)
    try:
        links = lay_out(asked.candle, asked.folder, gating=asked.gating, runtime=asked.runtime)
    except CandleRocmError as error:
        terminal.note(error)
        return int(error.exit_code)
    terminal.say(f"{asked.folder}: {len(links)} files are links to their sources below templates/candle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
