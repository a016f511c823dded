"""`candle-rocm doctor`: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import click

from codegen import terminal


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--candle",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A Candle tree; its cargo settings are checked too.",
)
@click.pass_context
def command(context: click.Context, *, as_json: bool, candle: Path | None) -> None:
    """Show the state of the toolchain, ROCm and the GPU. Exit 7 if a part that every run needs is missing.

    Without an AMD GPU, generating and testing need no ROCm. Its missing parts are then shown as optional.
    """
    from codegen.verify.doctor import all_checks, refuse_missing
    from codegen.verify.document import doctor_document
    from codegen.verify.machine import Machine

    checks = all_checks(Machine.here(), candle)
    if as_json:
        import json

        terminal.say(json.dumps(doctor_document(checks), indent=2, ensure_ascii=False))
        if any(check.blocks for check in checks):
            from codegen.errors import ExitCode

            context.exit(ExitCode.TOOLCHAIN_MISSING)
        return
    from codegen.verify.document import checks_table, stdout_console

    stdout_console().print(checks_table(checks))
    refuse_missing(checks)
