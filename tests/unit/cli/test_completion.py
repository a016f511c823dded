"""What a shell offers: asked as bash asks, and by the functions behind it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.shell_completion import ShellComplete

from codegen.cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from in_process import CommandLine

BASH = """\
eval "$(candle-rocm completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_candle_rocm_completion candle-rocm
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(*words: str) -> list[str]:
    """The words that a shell gets behind these, the last of which is begun."""
    shell = ShellComplete(cli, {}, "candle-rocm", "_CANDLE_ROCM_COMPLETE")
    return [
        item.value if item.type == "plain" else f"({item.type})"
        for item in shell.get_completions([*words[:-1]], words[-1])
    ]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_gets_commands_releases_and_steps() -> None:
    def asked(*words: str) -> list[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", BASH, "bash", "candle-rocm", *words],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert asked("ver") == ["verify", "versions"]
    assert asked("verify", "0.10.") == ["0.10.0", "0.10.1", "0.10.2"]
    assert asked("verify", "0.11.1", "--only", "rocm-b") == ["rocm-basic"]


@pytest.mark.parametrize(
    ("words", "offer"),
    [
        (("ki",), []),
        (("kernels", "b"), ["build"]),
        (("scan", ""), ["0.9.1"]),
        (("scan", "../"), ["(dir)"]),
        (("apply", "0"), ["(dir)"]),
        (("verify", "x", "--target", "mo"), ["model", "model:gfx1100"]),
        (("verify", "x", "-p", "candle-n"), ["candle-nn"]),
        (("verify", "x", "--gating", ""), ["dummy", "cfg"]),
        (("bench", "--only", "soft"), ["softmax"]),
        (("kernels", "resources", "--family", "so"), ["softmax"]),
        (("kernels", "build", "--arch", "gfx906,gfx94"), ["gfx906,gfx942"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_each_argument_offers_what_it_takes(words: tuple[str, ...], offer: list[str]) -> None:
    found = offered(*words)
    assert set(offer) <= set(found)
    assert found or not offer


def test_all_commands_are_offered_with_their_help() -> None:
    context = click.Context(cli)
    assert [item.value for item in cli.shell_complete(context, "")] == list(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_our_command(candle_rocm: CommandLine, shell: str) -> None:
    script = candle_rocm.ok("completion", shell).stdout
    assert f"_CANDLE_ROCM_COMPLETE={shell}_complete" in script


def test_specs_that_cannot_be_read_offer_nothing_and_say_nothing(candle_rocm: CommandLine, home: Path) -> None:
    (home / "specs" / "candle.yaml").write_text("}")
    assert offered("scan", "0") == []
