"""Three texts into one: what two sides made of a common base. The one place where texts are merged.

git's own merge does it, started with files of ours in a folder of ours: neither the tree's settings nor the user's
reach it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs
from codegen.candle.cache import io_errors
from codegen.errors import InputOutputError, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import CompletedProcess

_SECONDS = 60.0
ROOM = "free space for temporary files, or choose another folder with TMPDIR"
"""The remedy where files of ours cannot be written."""
_MOST_CONFLICTS = 127


class MergeConflict(Exception):
    """Both sides changed the same lines; `lines` are those of `ours` where that begins, from 1."""

    def __init__(self, lines: tuple[int, ...]) -> None:
        self.lines = lines
        super().__init__(f"conflict at line {', '.join(map(str, lines))}")


def merged(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """`ours` with what `theirs` changed in `base`.

    Raises `MergeConflict`, `ToolchainMissing` where it takes git and there is none, and `InputOutputError`.
    """
    if base == ours or ours == theirs:
        return theirs
    if base == theirs:
        return ours
    program = git_program("edits")
    names = ("ours", "base", "theirs")
    with tempfile.TemporaryDirectory() as folder:
        with io_errors("preparing a merge", remedy=ROOM):
            for name, content in zip(names, (ours, base, theirs), strict=True):
                (Path(folder) / name).write_bytes(content)
        paths = [str(Path(folder) / name) for name in names]
        labels = [word for name in names for word in ("-L", name)]
        command = [program, "merge-file", "--stdout", *labels, *paths]
        done = run_git(command, "a file", {"GIT_DIR": os.devnull}, seconds=_SECONDS)
    if done.returncode == 0:
        return done.stdout
    if 0 < done.returncode <= _MOST_CONFLICTS:
        raise MergeConflict(_places(done.stdout))
    said = programs.complains(done).strip() or f"exit status {done.returncode}"
    raise InputOutputError(f"git cannot merge a file: {said}", remedy="solve the problem that git reports")


def git_program(what: str) -> str:
    """Where git is, which merges `what`. Raises `ToolchainMissing` where it is not."""
    program = programs.find("git")
    if program is None:
        raise ToolchainMissing(f"git is not installed, which merges {what}", remedy="install git, then run this again")
    return program


def run_git(
    command: Sequence[str],
    what: str,
    variables: Mapping[str, str],
    *,
    seconds: float,
    cwd: Path = programs.NEUTRAL,
    given: bytes = b"",
) -> CompletedProcess[bytes]:
    """git, merging `what`, without anybody's settings. Raises `InputOutputError` when it cannot start or hangs."""
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
    environment = {**programs.environment(), **alone, **variables}
    try:
        return programs.run(command, cwd=cwd, variables=environment, given=given, seconds=seconds)
    except programs.TookTooLong as cause:
        raise programs.hangs(f"git, merging {what},", cause) from cause
    except OSError as cause:
        raise InputOutputError(
            f"git cannot be started: {cause.strerror}", remedy="check the installation of git"
        ) from cause


def _places(text: bytes) -> tuple[int, ...]:
    """The lines of `ours` where conflicts begin, counted without what the merge put in."""
    found = []
    line, side = 1, b"ours"
    for each in text.split(b"\n"):
        if each.startswith(b"<<<<<<< ours"):
            found.append(line)
            side = b"conflict"
        elif each.startswith(b"=======") and side == b"conflict":
            side = b"theirs"
        elif each.startswith(b">>>>>>> theirs") and side == b"theirs":
            side = b"ours"
        elif side != b"theirs":
            line += 1
    return tuple(found)
