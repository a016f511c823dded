"""`candle-rocm completion`: the script with which a shell completes our commands."""

from __future__ import annotations

import click

from codegen import terminal

VARIABLE = "_CANDLE_ROCM_COMPLETE"
"""By which click knows that a shell asks."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes commands, options, releases, steps and rows in SHELL.

    \b
    bash:  eval "$(candle-rocm completion bash)" in ~/.bashrc
    zsh:   eval "$(candle-rocm completion zsh)" in ~/.zshrc, after compinit
    fish:  candle-rocm completion fish > ~/.config/fish/completions/candle-rocm.fish
    """
    from click.shell_completion import get_completion_class

    from codegen.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, shell
    script = found(cli, {}, "candle-rocm", VARIABLE)
    terminal.say(script.source_template % script.source_vars(), end="")
