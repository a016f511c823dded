"""Figures of a run as JSON, as a table and as a plot, and what became slower since another run."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from codegen.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.bench.model import Checked, Measured

T = TypeVar("T", "Checked", "Measured")

SCHEMA_VERSION = 1
LABELS = {
    "amd": "ROCm on an AMD GPU",
    "nvidia": "HIP on NVIDIA",
    "model": "AMD's runtime on a modelled GPU",
    "emulator": "emulated device",
}
"""What figures and results obtained on a target may be called."""
HEADINGS = ("row", "us", "GB/s", "of limit", "goal", "x PyTorch", "error", "")
BAR, ROW_HEIGHT, NAMES = 420, 15, 340
"""Pixels of the plot: a bar of 100 %, a row, and the names' column."""


@dataclass(frozen=True, slots=True)
class _Rows(Generic[T]):
    """All rows of one run."""

    command: ClassVar[str]
    target: str
    device: str
    rows: tuple[T, ...]
    failed: tuple[str, ...] = ()
    """Rows that ended with an error, and the error."""
    seed: int | None = None
    """What the rows were drawn with; None for those of the list."""

    @property
    def label(self) -> str:
        """`HIP on NVIDIA, sm_90`."""
        return f"{LABELS[self.target]}, {self.device}"

    def document(self) -> dict[str, object]:
        """For JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": self.command,
            "target": self.target,
            "device": self.device,
            "seed": self.seed,
            "rows": [dict(row.document()) for row in self.rows],
            "failed": list(self.failed),
        }

    def how_many(self) -> str:
        """Rows there are, right ones, and those that ended with an error."""
        right = sum(own.is_correct is True for own in self.rows)
        seed = "" if self.seed is None else f" of seed {self.seed}"
        return f"{len(self.rows) + len(self.failed)} rows{seed}: {right} right, {len(self.failed)} ended with an error"


@dataclass(frozen=True, slots=True)
class Run(_Rows["Measured"]):
    """What was measured."""

    command = "bench"

    def cells(self) -> list[tuple[str, ...]]:
        """A line of text per row, under HEADINGS."""
        return [
            (
                own.row.name,
                f"{own.microseconds:.2f}" if own.row.limit == "time" else f"{own.microseconds:.1f}",
                f"{own.gigabytes_per_second:.0f}",
                "" if own.share is None or own.row.limit == "rival" else f"{own.share:.0%}",
                own.row.goal_text,
                "" if own.ratio is None else f"{own.ratio:.2f}",
                "" if own.error is None else f"{own.error:.1e}",
                verdict(own),
            )
            for own in self.rows
        ]


@dataclass(frozen=True, slots=True)
class CheckedRun(_Rows["Checked"]):
    """What was compared, and not timed."""

    command = "bench --check"

    def lines(self) -> list[str]:
        """For a person: a line per row, and how many are right."""
        words = {None: "not compared", True: "right", False: "WRONG"}
        errors = ["" if own.error is None else f"{own.error:.1e}" for own in self.rows]
        of_rows = [
            f"{words[own.is_correct]:<12}  {error:<7}  {own.row.name}"
            for own, error in zip(self.rows, errors, strict=True)
        ]
        return [self.label, *of_rows, self.how_many()]


def verdict(measured: Measured) -> str:
    """In a word: `ok`, `below the goal`, `WRONG`, and whether it was compared at all."""
    if measured.is_correct is False:
        return "WRONG"
    words = [{None: "", True: "ok", False: "below the goal"}[measured.meets_goal]]
    words += ["not compared"] if measured.is_correct is None else []
    return ", ".join(filter(None, words))


def failure(run: Run | CheckedRun) -> str | None:
    """Why the results of a run are not what a passed check may rest on; None where they are."""
    if run.failed:
        return f"ended with an error: {'; '.join(run.failed)}"
    if wrong := [own.row.name for own in run.rows if own.is_correct is False]:
        return f"wrong: {', '.join(wrong)}"
    if all(own.is_correct is None for own in run.rows):
        return "not compared: no result was held against another, which needs PyTorch (with this GPU, or --check)"
    return None


MUCH_SLOWER = 0.7
"""Of PyTorch's speed: rows below it are named."""
WORST = 10


def summary(run: Run) -> list[str]:
    """What a person reads of many rows: how many are right, their speed beside PyTorch's and the limit, the worst."""
    compared = sorted((own for own in run.rows if own.ratio is not None), key=lambda own: own.ratio or 0)
    lines = [run.how_many()]
    if compared:
        fast = sum((own.ratio or 0) >= 1 for own in compared)
        slow = sum((own.ratio or 0) < MUCH_SLOWER for own in compared)
        lines.append(
            f"as fast as PyTorch or faster: {fast} of {len(compared)} ({fast / len(compared):.0%}); "
            f"below {MUCH_SLOWER} of its speed: {slow}"
        )
    shares = [own.share for own in run.rows if own.share is not None and own.row.limit != "rival"]
    if shares:
        lines.append(f"share of the limit: median {statistics.median(shares):.0%} of {len(shares)} rows that have one")
    lines += [f"  {own.ratio:.2f} x PyTorch: {own.row.name}" for own in compared[:WORST] if (own.ratio or 0) < 1]
    return lines


def plot(run: Run) -> str:
    """An SVG with a bar per row: its share of the limit, and a mark at the goal."""
    rows = [own for own in run.rows if own.share is not None]
    height = (len(rows) + 3) * ROW_HEIGHT
    size = f'width="{NAMES + BAR + 90}" height="{height}"'
    title = f"Share of the copy, read or write limit, or of PyTorch's speed: {run.label}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="4" y="{ROW_HEIGHT}" font-weight="bold">{escape(title)}</text>',
    ]
    for number, own in enumerate(rows, 2):
        y = number * ROW_HEIGHT
        share = min(own.share or 0, 1.2)
        colour = "#2a7" if own.meets_goal else "#d72"
        goal = NAMES + own.row.goal * BAR
        lines += [
            f'<text x="{NAMES - 6}" y="{y + 10}" text-anchor="end">{escape(own.row.name)}</text>',
            f'<rect x="{NAMES}" y="{y + 2}" width="{share * BAR:.1f}" height="{ROW_HEIGHT - 4}" fill="{colour}"/>',
            f'<line x1="{goal:.1f}" x2="{goal:.1f}" y1="{y}" y2="{y + ROW_HEIGHT}" stroke="black"/>',
        ]
    return "\n".join([*lines, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class Slower:
    """A row that takes longer than it did."""

    name: str
    before: float
    after: float
    """Microseconds."""

    def __str__(self) -> str:
        return f"{self.name}: {self.before:.1f} us, now {self.after:.1f} us ({self.after / self.before:.2f} times)"


def slower(before: Path, after: Run, *, factor: float) -> list[Slower]:
    """Rows that take more than `factor` times what they took in the run of a JSON file.

    Raises UsageError for a file that is no such run, or one of another device.
    """
    document = _loaded(before)
    if (document["target"], document["device"]) != (after.target, after.device):
        raise UsageError(
            f"{before} is of {document['target']} {document['device']}, this run of {after.target} {after.device}",
            remedy="compare runs of one device",
        )
    old = {f"{row['op']} {row['size']} {row['dtype']}": float(row["microseconds"]) for row in document["rows"]}
    found = [Slower(own.row.name, old[own.row.name], own.microseconds) for own in after.rows if own.row.name in old]
    return [row for row in found if row.after > factor * row.before]


def _loaded(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}", remedy="name a file with what --json printed") from error
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(f"{path} is no run of this version", remedy="name a file with what --json printed")
    return document
