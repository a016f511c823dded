"""Running candle-rocm as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("candle-rocm")


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as JSON."""
        loaded: dict[str, Any] = json.loads(self.stdout)
        return loaded


def candle_rocm(*arguments: str | Path) -> Result:
    """Run the command line as a user would."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)
