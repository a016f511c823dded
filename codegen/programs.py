"""The one place that starts programs: in a folder of ours, with an environment of ours.

A tree is somebody else's data. A program that starts inside it may take orders from it: rustup from a
rust-toolchain.toml, cargo from a .cargo/config.toml, git from its configuration, and a relative entry of PATH makes any
file of it a program. So programs start in `NEUTRAL`, get the variables of `environment`, and are looked up in absolute
folders only. Who builds a tree (`verify`, which says so before) names the folder and the variables.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, TYPE_CHECKING

from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PIPE, NOTHING = subprocess.PIPE, subprocess.DEVNULL
TookTooLong = subprocess.TimeoutExpired

NEUTRAL = Path("/")
"""A folder that holds no settings, has none above it, and that only root may write to (unlike `/tmp`)."""
LIMIT_SECONDS = 600.0
"""No program of ours takes that long; one that waits for something in a tree would wait for ever."""

_PASSED_ON = (
    *("HOME", "USER", "LOGNAME", "TMPDIR", "XDG_*_HOME", "LD_LIBRARY_PATH"),
    *("RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_HOME"),
    *("ROCM_*", "HIP_*", "HSA_*", "DEVICE_LIB_PATH", "LLVM_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "*_proxy", "*_PROXY"),
)
"""Patterns of the variables that reach a program: where its own files are and how the network is reached."""


def environment(variables: Mapping[str, str] | None = None, **more: str) -> dict[str, str]:
    """What a program gets of `variables` (those of this process by default), and `more`; messages are in English."""
    variables = os.environ if variables is None else variables
    kept = {name: value for name, value in variables.items() if any(fnmatchcase(name, each) for each in _PASSED_ON)}
    return {**kept, "PATH": absolute_path(variables), "LC_ALL": "C", **more}


def absolute_path(variables: Mapping[str, str] | None = None) -> str:
    """PATH without relative entries, which name folders of wherever the user stands."""
    path = (os.environ if variables is None else variables).get("PATH", os.defpath)
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))  # noqa: PTH117 - a text


def find(name: str, variables: Mapping[str, str] | None = None) -> str | None:
    """The program of that name in an absolute folder of PATH, or None."""
    path = absolute_path(variables)
    return shutil.which(name, path=path) if path else None


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path = NEUTRAL,
    variables: Mapping[str, str] | None = None,
    given: str | bytes = b"",
    seconds: float = LIMIT_SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, with `given` on standard input; nothing of what it says reaches the terminal.

    `variables` is its whole environment, that of `environment()` by default.

    Raises:
        OSError: it cannot be started.
        TookTooLong: it was ended after `seconds`.
    """
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment() if variables is None else dict(variables),
        input=given.encode() if isinstance(given, str) else given,
        capture_output=True,
        timeout=seconds,
        check=False,
    )


def start(
    command: Sequence[str | Path],
    *,
    cwd: Path = NEUTRAL,
    variables: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] = NOTHING,
    stdout: int | IO[bytes] = NOTHING,
    stderr: int | IO[bytes] = NOTHING,
    own_session: bool = False,
) -> subprocess.Popen[bytes]:
    """A running program with the streams named, none of which is the terminal; else as `run`.

    Raises:
        OSError: it cannot be started.
    """
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=environment() if variables is None else dict(variables),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=own_session,
    )


def says(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program wrote to standard output."""
    return done.stdout.decode("utf-8", "replace")


def complains(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program wrote to standard error."""
    return done.stderr.decode("utf-8", "replace")


def hangs(what: str, cause: subprocess.TimeoutExpired) -> InputOutputError:
    """The error for a program that did not end."""
    return InputOutputError(
        f"{what} did not end in {cause.timeout:.0f} seconds",
        remedy="look at what it waits for; a tree may hold files that never end",
    )
