"""`candle-rocm bench`: how fast the kernels are on the GPU of this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from codegen import terminal
from codegen.cli import complete, options
from codegen.cli.options import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from codegen.bench.model import Row
    from codegen.bench.results import CheckedRun, Run, Slower
    from codegen.watch import Verbosity

T = TypeVar("T")

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("bench")
@click.option(
    "--only",
    "wanted",
    multiple=True,
    metavar="TEXT",
    shell_complete=complete.rows,
    help="Run only rows whose name contains TEXT; repeatable.",
)
@click.option(
    "--random",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    help="In place of the list: N rows whose operations, sizes, views and types are drawn as specs/bench.yaml says.",
)
@click.option("--seed", default=0, show_default=True, help="What --random and --row draw with.")
@click.option(
    "--row",
    "numbers",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Only this row of the seed, as its name has it after the #; repeatable.",
)
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Compare results with PyTorch's on the CPU, and time nothing: on any device, emulated and modelled ones, too.",
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
@options.quiet
@options.verbose
@as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    wanted: tuple[str, ...],
    count: int | None,
    seed: int,
    numbers: tuple[int, ...],
    checks: bool,
    plot_to: Path | None,
    against: Path | None,
    factor: float,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Time every kernel family on the GPU, alternating with PyTorch if it is installed, and check each result.

    Interrupted, it reports the rows that were measured until then. Exit 8 if a result is wrong, if a drawn row ends
    with an error, or if no result was compared.

    Needs a GPU, but for --check, which needs PyTorch. To use other libraries than ROCm's, set $CANDLE_ROCM_HIP to a
    folder with libamdhip64.so and libhiprtc.so.
    """
    from codegen.bench.check import Check
    from codegen.bench.results import CheckedRun, Run, failure, plot, slower, summary
    from codegen.bench.run import Bench
    from codegen.errors import ExitCode, UsageError

    if checks and (plot_to or against):
        raise UsageError("nothing is timed with --check", remedy="leave out --plot and --against")
    told = options.verbosity(quiet=quiet, verbose=verbose)
    drawn_with = seed if count or numbers else None
    chosen = _chosen(wanted, numbers or range(1, 1 + (count or 0)), seed)
    run: Run | CheckedRun
    worse: list[Slower] = []
    if checks:
        check = Check()
        checked, failures, stopped = _through(chosen, check.checked, "checked", told, drawn_with)
        run = CheckedRun(check.device.target, check.device.architecture, checked, failures, drawn_with)
        lines = run.lines()
    else:
        bench = Bench()
        measured, failures, stopped = _through(chosen, bench.measured, "measured", told, drawn_with)
        run = Run(bench.device.target, bench.device.architecture, measured, failures, drawn_with)
        if not as_json:
            _print_table(run, compared=bench.torch is not None)
        lines = [] if drawn_with is None else summary(run)
    for line in [json.dumps(run.document(), indent=1)] if as_json else lines:
        terminal.say(line)
    if isinstance(run, Run):
        if plot_to:
            plot_to.write_text(plot(run), encoding="utf-8")
        worse = slower(against, run, factor=factor) if against else []
    for regression in worse:
        terminal.note(f"slower: {regression}")
    if stopped:
        raise stopped
    failed = failure(run)
    if failed:
        terminal.note(failed)
    if worse or failed:
        context.exit(ExitCode.VERIFICATION_FAILED)


def _through(
    rows: Sequence[Row], once: Callable[[Row], T], past: str, told: Verbosity, seed: int | None
) -> tuple[tuple[T, ...], tuple[str, ...], KeyboardInterrupt | None]:
    """What `once` makes of each row, the errors that drawn rows ended with, and what stopped it after the first one."""
    from codegen.device.hip import HipError
    from codegen.watch import watching

    done: list[T] = []
    failures: list[str] = []
    try:
        with watching(len(rows), told) as watch:
            for row in rows:
                watch.start(row.name)
                try:
                    done.append(once(row))
                    watch.end(past)
                except (HipError, RuntimeError) as error:  # PyTorch's errors are RuntimeErrors
                    watch.end("FAILED", str(error))
                    if seed is None:
                        raise
                    failures.append(f"{row.name}: {error}")
    except KeyboardInterrupt as stop:
        if not done:
            raise
        return tuple(done), tuple(failures), stop
    return tuple(done), tuple(failures), None


def _chosen(wanted: tuple[str, ...], numbers: Sequence[int], seed: int) -> list[Row]:
    """The rows of these numbers, or those of the list if there are none, whose names contain a wanted text."""
    from codegen.bench.drawn import drawn
    from codegen.bench.rows import rows
    from codegen.errors import UsageError
    from codegen.spec.bench import load_drawing

    known: Iterable[Row] = rows()
    if numbers:
        drawing = load_drawing()
        known = (drawn(drawing, seed, number) for number in numbers)
    chosen = [row for row in known if not wanted or any(text in row.name for text in wanted)]
    if not chosen:
        raise UsageError(f"no row is called {' or '.join(wanted)}", remedy="leave out --only to run all rows")
    return chosen


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
