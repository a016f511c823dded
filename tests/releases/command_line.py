"""Running candle-rocm as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def verified(release: str, steps: Sequence[str], work: Path, *options: str) -> dict[str, dict[str, Any]]:
    """The steps of `verify` by their names, each of which has to pass."""
    only = [word for step in steps for word in ("--only", step)]

    result = candle_rocm("verify", release, *options, "--work", work, "--json", *only)

    assert result.stdout, result.stderr
    done = {step["id"]: step for step in result.document["steps"]}
    for name, step in done.items():
        where = f" on {step['ran_on']}" if step["ran_on"] else ""
        print(f"{release} {' '.join(options)} {name}{where}: {step['verdict']}, {step['seconds']} s, {step['detail']}")
    assert {name: step["verdict"] for name, step in done.items()} == dict.fromkeys(steps, "passed"), result.stdout
    return done


def kernels_asked_for(steps: Iterable[dict[str, Any]]) -> set[str]:
    """The names that the programs of these steps gave to hipModuleGetFunction, as the device recorded them."""
    return {name for step in steps for run in step["tests"] for name in run["kernels"] or ()}
