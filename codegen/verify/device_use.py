"""What a HIP device says that programs did with it (docs/emulator.md).

Our stand-ins for libamdhip64 keep a record, and so does the model on which AMD's own runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RECORD = "CANDLE_ROCM_RECORD"
"""The folder in which each process that loads such a library writes a file."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The records of one run, of all its processes together."""

    libraries: frozenset[str] = frozenset()
    """`emulator`, `nvidia`, `model`: who answered."""
    devices: frozenset[tuple[str, ...]] = frozenset()
    """The architectures of the visible devices, in their order; one entry if all processes saw the same."""
    launches: int = 0
    copies: int = 0
    functions: frozenset[str] = field(default_factory=frozenset)
    """The names of kernels that were asked for."""
    kernels: frozenset[str] = field(default_factory=frozenset)
    """Those that were launched."""
    unended: int = 0
    """Processes that did not say that they ended by themselves."""

    @property
    def idle(self) -> bool:
        """Whether nothing was done there."""
        return not (self.launches or self.copies)


def read_use(folder: Path) -> DeviceUse:
    """The sum over the records in a folder; of no use when there are none.

    Raises ValueError naming the file that is not a record.
    """
    events = [event for file in sorted(folder.glob("*.jsonl")) for event in _events(file)]
    of = {kind: [event for event in events if event["event"] == kind] for kind in ("start", "function", "end")}
    return DeviceUse(
        libraries=frozenset(str(event["library"]) for event in of["start"]),
        devices=frozenset(tuple(str(device["arch"]) for device in event["devices"]) for event in of["start"]),
        launches=_sum(of["end"], "launches"),
        copies=_sum(of["end"], "copies"),
        functions=frozenset(str(event["name"]) for event in of["function"]),
        kernels=frozenset(name for event in of["end"] for name, count in event["kernels"].items() if count),
        unended=len(of["start"]) - len(of["end"]),
    )


def _events(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            event = json.loads(line)
            event["event"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file.name}:{number} is no record of a device: {line[:200]}") from error
        yield event


def _sum(events: Iterable[dict[str, Any]], key: str) -> int:
    return sum(int(event[key]) for event in events)
