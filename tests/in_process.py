"""The command line, run in this process: fast, and with nothing between a test and the code."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.cli.main import run

if TYPE_CHECKING:
    import pytest

REPOSITORY = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Result:
    """What a command printed, and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as one JSON object."""
        loaded = json.loads(self.stdout)
        assert isinstance(loaded, dict)
        return loaded


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`candle-rocm` as a function."""

    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path) -> Result:
        """Run it, whatever it exits with."""
        self.capture.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = self.capture.readouterr()
        return Result(int(code), captured.out, captured.err)

    def ok(self, *arguments: str | Path) -> Result:
        """Run it; it must exit with 0."""
        result = self(*arguments)
        assert result.code == 0, result.stdout + result.stderr
        return result


def copy_of_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what candle-rocm uses of this repository, and does from now on: for tests that change it."""
    for name in ("specs", "templates", "generated/kernels"):
        shutil.copytree(REPOSITORY / name, folder / name)
    monkeypatch.setenv("CANDLE_ROCM_HOME", str(folder))
    return folder
