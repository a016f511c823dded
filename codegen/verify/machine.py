"""The machine as the checks see it: variables, programs and files, all of them injectable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ANSWER_SECONDS = 20.0


def run_program(command: Sequence[str]) -> str | None:
    """Standard output of a program, or None when it cannot be started, fails or takes too long."""
    try:
        done = programs.run(command, seconds=ANSWER_SECONDS)
    except (OSError, programs.TookTooLong):
        return None
    return programs.says(done) if done.returncode == 0 else None


def can_open(path: Path) -> bool:
    """True when the process may read and write the file."""
    return os.access(path, os.R_OK | os.W_OK)


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything the checks ask about. Tests pass fake folders, variables and programs."""

    variables: Mapping[str, str]
    which: Callable[[str], str | None] = programs.find
    run: Callable[[Sequence[str]], str | None] = run_program
    accessible: Callable[[Path], bool] = can_open
    root: Path = Path("/")
    """Absolute paths such as /opt/rocm and /dev/kfd are looked up below this folder."""

    @classmethod
    def here(cls) -> Machine:
        """This machine."""
        return cls(variables=dict(os.environ))

    def at(self, path: str | Path) -> Path:
        """The place of an absolute path of the machine below `root`."""
        return self.root / Path(path).relative_to("/") if Path(path).is_absolute() else Path(path)

    def shown(self, path: Path) -> str:
        """The reverse of `at`, for messages."""
        return f"/{path.relative_to(self.root).as_posix()}" if path.is_relative_to(self.root) else str(path)

    def first_line(self, *command: str) -> str | None:
        """The first line that a program on PATH prints; None when it is missing, fails or prints nothing."""
        found = self.which(command[0])
        answer = self.run([found, *command[1:]]) if found else None
        lines = (answer or "").strip().splitlines()
        return lines[0].strip() if lines else None
