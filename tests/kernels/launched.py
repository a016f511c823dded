"""Which kernels a test launched."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codegen.device.hip import Launch
    from codegen.device.kernels import Kernels


@contextmanager
def launched(kernels: Kernels) -> Iterator[set[str]]:
    """The symbols launched so far in the block; they run as ever."""
    symbols: set[str] = set()
    run = kernels.launch

    def record(family: str, launches: Iterable[Launch]) -> None:
        planned = list(launches)
        symbols.update(launch.symbol for launch in planned)
        run(family, planned)

    with patch.object(kernels, "launch", record):
        yield symbols
