"""`candle-rocm emulator`."""

from __future__ import annotations

import os

import click

from codegen import terminal

SCHEMA_VERSION = 1


@click.command("emulator", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--json", "as_json", is_flag=True, help="Print the variables as JSON; run no COMMAND.")
@click.argument("program", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def command(*, as_json: bool, program: tuple[str, ...]) -> None:
    """Build the emulated HIP device and run COMMAND on it. Without COMMAND, print the variables that select it.

    `candle-rocm emulator cargo run --features rocm` runs your program on an AMD GPU that the CPU emulates. It is slow,
    because all memory accesses are checked. `eval "$(candle-rocm emulator)"` sets the variables in a shell.
    """
    from codegen.paths import build_folder
    from codegen.rocm.workspaces import EMULATED_DEVICE
    from codegen.verify.cargo import require_programs
    from codegen.verify.hip_libraries import prepare_libraries
    from codegen.verify.machine import Machine

    machine = Machine.here()
    require_programs(["cargo", "rustc", "g++"], which=machine.which)
    log = build_folder() / "logs" / "emulator.log"
    variables = prepare_libraries(EMULATED_DEVICE, variables=machine.variables, log=log, on_message=terminal.progress)
    if as_json:
        import json

        document = {"schema_version": SCHEMA_VERSION, "command": "emulator", "variables": variables}
        terminal.say(json.dumps(document, indent=2))
    elif program:
        _run(program, variables)
    else:
        import shlex

        for name, value in variables.items():
            terminal.say(f"export {name}={shlex.quote(value)}")


def _run(program: tuple[str, ...], variables: dict[str, str]) -> None:
    """Becomes the program: its exit code, its signals and its terminal are its own."""
    from codegen.errors import UsageError

    try:
        os.execvpe(program[0], program, {**os.environ, **variables})
    except OSError as error:
        raise UsageError(
            f"cannot run {program[0]}: {error.strerror}", remedy="name a program and its arguments"
        ) from error
