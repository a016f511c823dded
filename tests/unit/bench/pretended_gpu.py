"""`candle-rocm` on a GPU that is pretended: each row takes a moment and has the same figures."""

from __future__ import annotations

import time
from types import SimpleNamespace

import codegen.bench.run
from codegen.__main__ import main
from codegen.bench.model import Measured, Row

MOMENT = 1.2
"""Seconds, in which a terminal shows the row."""


class PretendedGpu:
    """In place of `codegen.bench.run.Bench`."""

    device = SimpleNamespace(target="nvidia", architecture="pretended")
    torch = SimpleNamespace()

    def measured(self, row: Row) -> Measured:
        """What no GPU has measured."""
        time.sleep(MOMENT)
        return Measured(row, row.moved / 4e6, row.moved / 3e6, 4200.0, 0.0)


if __name__ == "__main__":
    codegen.bench.run.Bench = PretendedGpu  # type: ignore[assignment,misc]
    main()
