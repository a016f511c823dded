"""The table of sites for a terminal. rich is imported when something is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen import terminal
from codegen.plan.model import State
from codegen.report.wording import review_notes, site_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from codegen.plan.decide import Scan
    from codegen.plan.model import Decision
    from codegen.report.summary import Summary

WIDTH_OF_A_FILE = 250
"""Columns where stdout is not a terminal: wide enough that nothing is folded."""
STYLES = {State.HANDLED: "green", State.PENDING: "yellow", State.LEFT: "dim", State.UNKNOWN: "bold red"}


def stdout_console() -> Console:
    """The console for results: coloured on a terminal only, and there only without NO_COLOR."""
    console = terminal.console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    return terminal.console(width=WIDTH_OF_A_FILE, highlight=False, emoji=False)


def print_scan(console: Console, scan: Scan, summary: Summary) -> None:
    """Sites by phase, by crate and by reason, the undecided ones, and the closing line."""
    with console.capture() as captured:
        _print_scan(console, scan, summary)
    lines = captured.get().splitlines()
    # rich fills cells with blanks; a file or a pipe gets none at the end of a line.
    console.file.write("".join(f"{line if console.is_terminal else line.rstrip()}\n" for line in lines))


def _print_scan(console: Console, scan: Scan, summary: Summary) -> None:
    from rich.text import Text

    console.print(f"Candle {scan.tree.release}", markup=False)
    console.print()
    console.print(_phases(summary))
    console.print()
    console.print(_crates(summary))
    if summary.left_alone:
        console.print()
        console.print(_left_alone(summary))
    unknown = scan.of_state(State.UNKNOWN)
    if unknown:
        console.print()
        print_sites(console, unknown)
    review = tuple(review_notes(scan.decisions))
    if review:
        console.print()
        for line in review:
            console.print(Text(line), soft_wrap=True)
    console.print()
    console.print(_closing(summary))


def print_sites(console: Console, decisions: Iterable[Decision]) -> None:
    """One line per site: `path:line:column kind item -> outcome (rule, verb; reason)`."""
    from rich.text import Text

    for decision in decisions:
        head, arrow, tail = site_line(decision).partition(" -> ")
        line = Text(head + arrow)
        line.append(tail, style=STYLES[decision.state])
        console.print(line, soft_wrap=True)


def _phases(summary: Summary) -> Table:
    table = _table("phase", "handled", "not applied", "stand-ins")
    for count in summary.phases:
        table.add_row(
            f"{count.phase} {count.name}",
            _number(count.handled, State.HANDLED),
            _number(count.pending, State.PENDING),
            _number(count.stand_ins, None),
        )
    return table


def _crates(summary: Summary) -> Table:
    columns = [str(count.phase) for count in summary.phases]
    table = _table("crate \\ phase", *columns, "left alone", "unknown", "sites")
    for crate in summary.crates:
        cells = [
            _number(sites, State.PENDING if phase.pending and not phase.handled else State.HANDLED)
            for phase, sites in zip(summary.phases, crate.phases, strict=True)
        ]
        cells += [_number(crate.left, State.LEFT), _number(crate.unknown, State.UNKNOWN), _number(crate.total, None)]
        table.add_row(_plain(crate.crate), *cells)
    return table


def _left_alone(summary: Summary) -> Table:
    table = _table("left alone", "sites", "reason")
    table.columns[2].justify = "left"
    for entry in summary.left_alone:
        table.add_row(_plain(entry.rule), str(entry.count), _plain(entry.reason))
    return table


def _closing(summary: Summary) -> Text:
    from rich.text import Text

    return Text(str(summary), style="bold red" if summary.unknown else "bold")


def _number(count: int, state: State | None) -> Text:
    """The count in its state's colour; nothing where there is nothing."""
    from rich.text import Text

    return Text(str(count) if count else "", style=STYLES[state] if state is not None else "")


def _plain(text: str) -> Text:
    from rich.text import Text

    return Text(text)


def _table(first: str, *numbers: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first, overflow="fold")
    for column in numbers:
        table.add_column(column, justify="right", overflow="fold")
    return table
