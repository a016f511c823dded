"""What ends a command from outside: Ctrl-C, and signals that ask for the same."""

from __future__ import annotations

import signal

from codegen import terminal


class Stopped(KeyboardInterrupt):
    """Raised by a signal that asks the process to end, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def interrupted(stop: KeyboardInterrupt) -> int:
    """Says so, and returns the exit status of a process that the signal ends, as shells report it."""
    terminal.progress("")  # after the ^C that the terminal shows
    terminal.note("interrupted")
    return 128 + (stop.number if isinstance(stop, Stopped) else signal.SIGINT)
