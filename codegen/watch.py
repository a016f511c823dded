"""Long work shows itself on standard error: step n of m, its time, what it does now, and how each step ended."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from codegen import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.text import Text


class Verbosity(Enum):
    """How much of the work is told."""

    QUIET = "quiet"
    """Nothing but the result."""
    USUAL = "usual"
    """A line for each step that has ended; on a terminal also one that shows the step under way."""
    VERBOSE = "verbose"
    """Each message of a step as a line of its own, too."""


@dataclass
class Watch:
    """Tells of steps, one after another. Made by `watching`, or as it is: then it says nothing."""

    total: int = 0
    verbosity: Verbosity = Verbosity.QUIET
    clock: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = terminal.note
    _number: int = 0
    _title: str = ""
    _message: str = ""
    _expected: float | None = None
    _began: float = 0.0

    def start(self, title: str, expected: float | None = None) -> None:
        """A step begins; `expected` is how many seconds it took the last time."""
        self._number += 1
        self._title, self._message, self._expected = title, "", expected
        self._began = self.clock()

    def message(self, line: str) -> None:
        """What the step under way is doing."""
        self._message = line
        if self.verbosity is Verbosity.VERBOSE:
            self.say(f"  {line}")

    def end(self, outcome: str, detail: str = "", *, done: bool = True) -> None:
        """The step under way has ended: `passed`, `FAILED`; `done` says that there was something to do."""
        if self.verbosity is Verbosity.QUIET:
            return
        took = f" after {duration(self.clock() - self._began)}" if done else ""
        more = f": {detail}" if detail else ""
        self.say(f"{self._place}, {self._title}: {outcome}{took}{more}")

    def ended(self, title: str, outcome: str, seconds: float) -> None:
        """A step has ended that ran beside others; no line for one that took no time, since all was there."""
        self._number += 1
        self._title, self._began = title, self.clock() - seconds
        if seconds:
            self.end(outcome)

    @property
    def under_way(self) -> str:
        """One line about the step under way; empty before the first."""
        if not self._number:
            return self._message
        about = f" of about {duration(self._expected)}" if self._expected else ""
        now = f": {self._message}" if self._message else ""
        return f"{self._place}, {duration(self.clock() - self._began)}{about}, {self._title}{now}"

    @property
    def _place(self) -> str:
        return f"step {self._number} of {self.total}" if self.total else f"step {self._number}"


def duration(seconds: float) -> str:
    """`8.2 s`, `35 s`, `12 min 05 s`, `2 h 05 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, left = divmod(whole, 60)
    hours, of_hour = divmod(minutes, 60)
    if hours:
        return f"{hours} h {of_hour:02} min"
    return f"{minutes} min {left:02} s" if minutes else f"{left} s"


@contextlib.contextmanager
def watching(total: int, verbosity: Verbosity) -> Iterator[Watch]:
    """A watch of `total` steps. On a terminal the step under way stands below the lines of those that have ended."""
    console = terminal.console(stderr=True)
    if verbosity is Verbosity.QUIET or not console.is_terminal:
        watch = Watch(total, verbosity)
        with terminal.heard_by(watch.message):
            yield watch
        return
    from rich.live import Live

    watch = Watch(total, verbosity, say=lambda line: console.print(line, markup=False, highlight=False))
    with Live(_Line(watch), console=console, refresh_per_second=4, transient=True), terminal.heard_by(watch.message):
        yield watch


class _Line:
    """Asks the watch each time that it is drawn, so that the time goes on."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __rich_console__(self, console: Console, options: object) -> Iterator[Text]:
        del console, options
        from rich.text import Text

        yield Text(self._watch.under_way, no_wrap=True, overflow="ellipsis", end="")
