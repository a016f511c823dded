"""`candle-rocm bench`: how fast the kernels are on the GPU of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli.options import as_json, note

if TYPE_CHECKING:
    from codegen.bench.model import Measured
    from codegen.bench.results import Run

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("bench")
@click.option(
    "--only",
    "wanted",
    multiple=True,
    metavar="TEXT",
    help="Run only rows whose name contains TEXT; repeatable.",
)
@click.option("--plot", "plot_to", type=_file, help="Write a plot (SVG) to FILE.")
@click.option(
    "--against", type=_file, help="Output of --json from an earlier run; a row that became slower is an error."
)
@click.option(
    "--factor",
    default=1.1,
    show_default=True,
    help="With --against: how many times as long counts as slower.",
)
@as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    wanted: tuple[str, ...],
    plot_to: Path | None,
    against: Path | None,
    factor: float,
    as_json: bool,
) -> None:
    """Time every kernel family on the GPU, alternating with PyTorch if it is installed, and check each result.

    Exit 8 if a result is wrong, or if no result was compared.

    Needs a GPU. To use other libraries than ROCm's, set $CANDLE_ROCM_HIP to a folder with libamdhip64.so and
    libhiprtc.so.
    """
    from codegen.bench.results import Run, failure, plot, slower
    from codegen.bench.rows import rows
    from codegen.bench.run import Bench
    from codegen.errors import ExitCode, UsageError

    chosen = [row for row in rows() if not wanted or any(text in row.name for text in wanted)]
    if not chosen:
        raise UsageError(f"no row is called {' or '.join(wanted)}", remedy="leave out --only to run all rows")
    bench = Bench()
    measured: list[Measured] = []
    for row in chosen:
        measured.append(bench.measured(row))
        note(f"{len(measured)} of {len(chosen)}: {row.name}")
    run = Run(bench.device.target, bench.device.architecture, tuple(measured))
    if as_json:
        terminal.say(json.dumps(run.document(), indent=1))
    else:
        _print_table(run, compared=bench.torch is not None)
    if plot_to:
        plot_to.write_text(plot(run), encoding="utf-8")
    worse = slower(against, run, factor=factor) if against else []
    for regression in worse:
        terminal.note(f"slower: {regression}")
    failed = failure(run)
    if failed:
        terminal.note(failed)
    if worse or failed:
        context.exit(ExitCode.VERIFICATION_FAILED)


def _print_table(run: Run, *, compared: bool) -> None:
    from rich import box
    from rich.table import Table

    from codegen.bench.results import HEADINGS
    from codegen.report.table import stdout_console

    table = Table(*HEADINGS, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title=run.label)
    for cells in run.cells():
        table.add_row(*cells)
    if not compared:
        table.caption = "PyTorch is not installed: nothing was compared with it, and no result was checked"
    stdout_console().print(table)
