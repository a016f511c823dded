"""The command group: commands are imported when they are called, errors become messages and exit codes."""

from __future__ import annotations

import importlib
import io
import os
import signal
import tempfile
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from codegen import __version__, terminal
from codegen.errors import CandleRocmError, ExitCode, InputOutputError
from codegen.stopped import interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMMANDS = {
    "fetch": "Download a Candle release from the registry, as a workspace.",
    "scan": "List every backend site of a tree: handled, left alone, unknown.",
    "generate": "Write patches, new files and a report for all phases.",
    "diff": "Print the changes as a unified diff.",
    "apply": "Write the phases into a tree.",
    "check": "Exit 1 if a tree is not up to date.",
    "status": "Show which phases are applied to a tree.",
    "declare": "Keep your own edits in files that candle-rocm wrote.",
    "revert": "Undo phases, byte for byte.",
    "upgrade": "Take a patched tree to another release, with every edit kept.",
    "use": "Show what a program needs to use a patched Candle, or write it.",
    "port": "Port a crate that uses the CUDA backend by name.",
    "publish": "Make a git repository with a branch and a tag for each release.",
    "verify": "Run cargo check, clippy and tests on the patched tree.",
    "emulator": "Run a program on the emulated HIP device.",
    "kernels": "List, render and compile the HIP kernels; show their resources.",
    "bench": "Time the kernels on a GPU, next to a copy and PyTorch.",
    "doctor": "Check the toolchain, ROCm and the GPU of this machine.",
    "bug-report": "Collect what a bug report needs in one archive.",
    "completion": "Print the script with which a shell completes commands.",
    "versions": "List the tested Candle releases.",
    "explain": "Explain why a line of Candle is or is not changed.",
    "parity": "List CUDA's public items, each with its counterpart on ROCm.",
    "report": "Write a report for reviewers as one HTML file.",
    "spec": "Check the specs and print their JSON schemas.",
}
"""Command and help line, in the order of the help page; `codegen.cli.<name>` holds it, with `_` for `-`."""

READER_GONE = 128 + getattr(signal, "SIGPIPE", 13)
"""Status of a process that this signal ends, as shells report it: the command has no result of its own."""


class _Ended(Exception):
    """The command was ended from outside: not one of the exceptions that click turns into exit code 1."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextmanager
def _ended_from_outside() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _discard_output()
        raise _Ended(READER_GONE) from None
    except KeyboardInterrupt as stop:
        raise _Ended(interrupted(stop)) from None


class _LazyGroup(click.Group):
    """Knows its commands by name and imports one when it runs: `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"codegen.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from codegen.spec.wording import did_you_mean

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            nearest = did_you_mean(args[0], COMMANDS) or "."
            raise click.UsageError(f"{error.message.removesuffix('.')}{nearest}", ctx) from None

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        with _ended_from_outside():  # the help page is printed here
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        with _ended_from_outside():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="candle-rocm")
def cli() -> None:
    """Add an AMD ROCm backend to any release of Candle, and test it.

    CANDLE is the folder of a Candle checkout, or a version such as 0.11.1.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        result = cli.main(args=list(arguments), prog_name="candle-rocm", standalone_mode=False)
        return int(result) if isinstance(result, int) else ExitCode.OK
    except _Ended as ended:
        return ended.status
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        terminal.note(said.getvalue().rstrip("\n"))
        return ExitCode.USAGE
    except CandleRocmError as error:
        terminal.note(str(error))
        return error.exit_code
    except OSError as error:
        if error.filename is not None:
            return _bug()
        _discard_output()
        remedy = "free space at the destination of the output, or send it elsewhere"
        terminal.note(str(InputOutputError(f"cannot write the output: {error.strerror}", remedy=remedy)))
        return ExitCode.IO
    except RecursionError:
        remedy = "look for expressions, patterns or tables that are nested hundreds of levels deep"
        terminal.note(InputOutputError("the tree has text that is nested too deeply", remedy=remedy))
        return ExitCode.IO
    except Exception:
        return _bug()


def _discard_output() -> None:
    """Send what is still buffered nowhere: standard output takes nothing any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _bug() -> int:
    """Keep the traceback in a file: it is for us, not for the user."""
    last = traceback.format_exc().strip().splitlines()[-1]
    try:
        handle, name = tempfile.mkstemp(prefix="candle-rocm-", suffix=".txt")
        with os.fdopen(handle, "w") as file:
            traceback.print_exc(file=file)
    except OSError:  # no disk to keep it on
        name = f"this:\n{traceback.format_exc()}"
    terminal.note(f"internal error: {last}\n  = help: this is a bug of candle-rocm; please report {name}")
    return ExitCode.BUG
