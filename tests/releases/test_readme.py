"""The README's transcript is a real run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.network]

README = Path(__file__).parents[2] / "README.md"


def transcript() -> list[tuple[str, str]]:
    """Commands of the README's console block, each with the output that it shows."""
    block = re.search(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    parts = re.split(r"^\$ (.*)\n", block[1], flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = transcript()
    assert len(commands) >= 6

    for command, shown in commands:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        pattern = re.escape(shown).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, done.stdout, re.DOTALL), f"$ {command}\n{done.stdout}"


def test_every_command_of_the_reference_exists() -> None:
    from codegen.cli.main import COMMANDS

    block = re.search(r"## Commands\n\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    named = {word for line in block[1].splitlines() for word in re.findall(r"[a-z]+", line.split("  ")[0])}
    assert set(COMMANDS) <= named
