"""What git knows of a tree: which files have changes that are not committed.

A tree need not be a git checkout, and git need not be installed: then there is nothing that could be uncommitted.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, NoReturn

from codegen.errors import DirtyTree, InputOutputError, Problem
from codegen.plan.record import digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.plan.record import Record

LISTED = 10
"""So many files are named in a message; of the others it gives the number."""


def uncommitted(root: Path, record: Record | None = None) -> tuple[str, ...]:
    """Paths below `root`, sorted, that `git status` reports, less those that are exactly as `record` says we left them.

    Ignored files, the inside of submodules, and files of the repository outside of `root` do not count. Raises
    `InputOutputError` when git is there and the tree is a checkout, but git refuses to look at it.
    """
    prefix = _prefix(root)
    if prefix is None:
        return ()
    # A folder that merely lies in somebody's repository, with nothing in it tracked, is not a checkout.
    if prefix and not _git(root, "ls-files", "-z", "--", ".").stdout:
        return ()
    status = _git(
        root,
        *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"),
        *("--", "."),
    )
    # `XY path`, ended by NUL, relative to the top of the repository whatever the working directory.
    paths = {os.fsdecode(entry[3 + len(prefix) :]) for entry in status.stdout.split(b"\0") if entry}
    ours = record.left() if record is not None else {}
    return tuple(sorted(path for path in paths if path not in ours or digest_of(root, path) != ours[path]))


def require_clean(root: Path, record: Record | None = None) -> None:
    """Raises `DirtyTree` when the tree has changes, other than our own, that are not committed."""
    paths = uncommitted(root, record)
    if not paths:
        return
    problems = [Problem(path) for path in paths[:LISTED]]
    if len(paths) > LISTED:
        problems.append(Problem(f"and {len(paths) - LISTED} more"))
    count = "1 file has" if len(paths) == 1 else f"{len(paths)} files have"
    raise DirtyTree(
        [Problem(f"{count} uncommitted changes in {root}:"), *problems],
        remedy="commit or stash them, or pass --allow-dirty",
    )


def _prefix(root: Path) -> bytes | None:
    """Where the tree lies in its repository (empty, or with a slash at its end); None where it is in none."""
    try:
        shown = _git(root, "rev-parse", "--is-inside-work-tree", "--show-prefix", check=False)
    except FileNotFoundError:
        return None
    if shown.returncode != 0:
        if b"not a git repository" in shown.stderr:
            return None
        _refuse(root, shown)
    inside, _, prefix = shown.stdout.partition(b"\n")
    return prefix.removesuffix(b"\n") if inside == b"true" else None


def _git(root: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    # In a hook, or under `git rebase --exec`, GIT_DIR and its kin name another repository than the tree's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {name: os.environ[name] for name in _KEPT if name in os.environ}
    done = subprocess.run(
        ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(root), *arguments],
        env=environment | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if check and done.returncode != 0:
        _refuse(root, done)
    return done


_KEPT = ("GIT_CEILING_DIRECTORIES", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")


def _refuse(root: Path, done: subprocess.CompletedProcess[bytes]) -> NoReturn:
    reason = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
    raise InputOutputError(
        f"git cannot tell what is uncommitted in {root}: {reason}",
        remedy="see to what git says, or pass --allow-dirty",
    )
