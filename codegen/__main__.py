"""Entry point of `candle-rocm` and `python -m codegen`."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from codegen.stopped import Stopped, interrupted

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What a CI job that is cancelled and a terminal that is closed send; Windows has the first alone."""


def main() -> None:
    """Run the command line; every way out is an exit code of `codegen.errors.ExitCode`, or a signal's."""
    try:
        for number in ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:  # under nohup, SIGHUP is ignored
                signal.signal(number, _stop)
        from codegen.cli.main import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt as stop:
        status = interrupted(stop)
    for number in (signal.SIGINT, *ENDING):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # nothing is left to clean up
    sys.exit(status)


def _stop(number: int, _frame: object) -> NoReturn:
    """End as on Ctrl-C: what was started is ended, and what was begun is taken back."""
    raise Stopped(number)


if __name__ == "__main__":
    main()
