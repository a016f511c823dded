"""What a row of the benchmark is, and what was measured of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen.kernels.dtypes import dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codegen.device.kernels import Kernels
    from codegen.device.tensor import Tensor

LIMITS = ("copy", "read", "write", "rival", "time")
"""What a row's goal is a share of: the fastest copy, read or write of as many bytes, or PyTorch's speed; `time` for
small tensors, whose goal is the device's microseconds for each of many such operations in a graph."""


@dataclass(frozen=True, slots=True)
class View:
    """A step from a tensor to a view of it: `narrow` (dim, start, length), `permute` (dims) or `broadcast` (shape)."""

    way: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.way}({','.join(map(str, self.numbers))})"


@dataclass(frozen=True, slots=True)
class Operand:
    """An input: what it holds, `normal`, `below:N` (whole numbers from 0 to N - 1) or `even` (0 and 1)."""

    dtype: str
    shape: tuple[int, ...]
    """Of the memory, which `views` begin with."""
    fill: str = "normal"
    views: tuple[View, ...] = ()

    def __str__(self) -> str:
        count = math.prod(self.shape)
        power = len(self.shape) == 1 and count & (count - 1) == 0
        size = f"2^{count.bit_length() - 1}" if power else size_of(self.shape)
        return " ".join((size, *map(str, self.views)))

    @property
    def viewed(self) -> tuple[int, ...]:
        """The shape that the operation sees."""
        shape = self.shape
        for view in self.views:
            shape = _viewed(shape, view)
        return shape

    @property
    def bytes(self) -> int:
        """Of the elements that the operation reads, each counted once."""
        shape = self.shape
        for view in self.views:
            shape = shape if view.way == "broadcast" else _viewed(shape, view)
        return dtype(self.dtype).size * math.prod(shape)


def _viewed(shape: tuple[int, ...], view: View) -> tuple[int, ...]:
    if view.way == "narrow":
        dim, _, length = view.numbers
        return (*shape[:dim], length, *shape[dim + 1 :])
    return tuple(shape[dim] for dim in view.numbers) if view.way == "permute" else view.numbers


def size_of(shape: Sequence[int]) -> str:
    """`8192x8192`."""
    return "x".join(map(str, shape))


@dataclass(frozen=True, slots=True)
class Row:
    """One operation on one size."""

    op: str
    dtype: str
    size: str
    """The sizes as people write them: `8192x8192`."""
    inputs: tuple[Operand, ...]
    ours: Callable[[Kernels, Sequence[Tensor]], Tensor]
    theirs: Callable[[Any, Sequence[Any]], Any] | None
    """The same with PyTorch's module and tensors."""
    moved: int
    """Bytes that have to move at least once."""
    goal: float = 0.85
    """Share of the limit, 0.9 for 90 %; microseconds where the limit is `time`."""
    limit: str = "copy"
    tolerance: float = 0.0
    """Largest relative error in the 2-norm; results of whole numbers are equal."""
    seen: Callable[[Any, Sequence[Any], Any], Any] | None = None
    """What is compared in place of the result itself, made of PyTorch's inputs and a result."""

    @property
    def name(self) -> str:
        """`add 2^27 f32`."""
        return f"{self.op} {self.size} {self.dtype}"

    @property
    def goal_text(self) -> str:
        """`90%`, `1.3 us`, `>= PyTorch`."""
        return {"rival": ">= PyTorch", "time": f"{self.goal} us"}.get(self.limit, f"{self.goal:.0%}")


@dataclass(frozen=True, slots=True)
class Limits:
    """GB/s of the plain kernels for one number of bytes."""

    copy: float
    read: float
    write: float


def _is_correct(row: Row, error: float | None) -> bool | None:
    return None if error is None else error <= row.tolerance


@dataclass(frozen=True, slots=True)
class Checked:
    """How far a row's result is from PyTorch's."""

    row: Row
    error: float | None
    """Relative error in the 2-norm; None where there is nothing to compare with."""

    @property
    def is_correct(self) -> bool | None:
        """Whether the result is what PyTorch makes; None where nothing was compared."""
        return _is_correct(self.row, self.error)

    def document(self) -> Mapping[str, object]:
        """For JSON."""
        row = self.row
        return {"op": row.op, "dtype": row.dtype, "size": row.size, "error": self.error, "correct": self.is_correct}


@dataclass(frozen=True, slots=True)
class Measured:
    """A row's figures."""

    row: Row
    microseconds: float
    """Median of all launches; of all graphs, by their number of operations, where the limit is a time."""
    rival_microseconds: float | None
    """PyTorch's, in the same run; None where it has no such operation, or is not installed."""
    limit: float | None
    """GB/s that the goal is a share of."""
    error: float | None
    """Relative error in the 2-norm against PyTorch's result; None where there is nothing to compare with."""

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes that have to move once, per time."""
        return self.row.moved / self.microseconds / 1e3

    @property
    def share(self) -> float | None:
        """Of the limit; of PyTorch's speed where that is the limit; None where that is a time."""
        if self.row.limit == "rival":
            return self.ratio
        return self.gigabytes_per_second / self.limit if self.limit else None

    @property
    def ratio(self) -> float | None:
        """PyTorch's time over ours: above 1 ours is faster."""
        return self.rival_microseconds / self.microseconds if self.rival_microseconds else None

    @property
    def is_correct(self) -> bool | None:
        """Whether the result is what PyTorch makes; None where nothing was compared."""
        return _is_correct(self.row, self.error)

    @property
    def meets_goal(self) -> bool | None:
        """Whether the goal is reached; None where there is no limit to hold it against."""
        if self.row.limit == "time":
            return self.microseconds <= self.row.goal
        return None if self.share is None else self.share >= self.row.goal

    def document(self) -> Mapping[str, object]:
        """For JSON."""
        return {
            "op": self.row.op,
            "dtype": self.row.dtype,
            "size": self.row.size,
            "microseconds": round(self.microseconds, 3),
            "rival_microseconds": self.rival_microseconds and round(self.rival_microseconds, 3),
            "gigabytes_per_second": round(self.gigabytes_per_second, 1),
            "limit": self.row.limit,
            "limit_gigabytes_per_second": self.limit and round(self.limit, 1),
            "share": self.share and round(self.share, 4),
            "goal": self.row.goal,
            "meets_goal": self.meets_goal,
            "error": self.error,
            "correct": self.is_correct,
        }
