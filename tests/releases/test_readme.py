"""The README's transcript is a real run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from releases.command_line import candle_rocm
from releases.programs import OWN

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


def test_the_five_lines_are_what_the_tests_programs_have(tmp_path: Path) -> None:
    """README and the page for programs say the same, and test_programs.py builds with it."""
    page = README.parent / "docs" / "use-in-your-program.md"
    blocks = [re.search(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL) for path in (README, page)]
    shown = [tomllib.loads(block[1]) for block in blocks if block is not None]
    program = shutil.copytree(OWN, tmp_path / "app")
    (program / "Cargo.lock").write_text(
        "".join(
            f'[[package]]\nname = "{name}"\nversion = "0.11.1"\n'
            'source = "registry+https://github.com/rust-lang/crates.io-index"\n'
            for name in ("candle-core", "candle-nn")
        )
    )
    (made,) = candle_rocm("use", program, "--json").document["files"]
    subprocess.run(["git", "apply"], input=made["diff"], cwd=program, text=True, check=True)
    own = tomllib.loads((program / "Cargo.toml").read_text(encoding="utf-8"))

    assert len(shown) == 2
    assert shown[0] == shown[1] == {name: own[name] for name in ("features", "patch")}


def test_every_command_of_the_reference_exists() -> None:
    from codegen.cli.main import COMMANDS

    block = re.search(r"## Commands\n\n```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    named = {word for line in block[1].splitlines() for word in re.findall(r"[a-z]+(?:-[a-z]+)*", line.split("  ")[0])}
    assert set(COMMANDS) <= named
