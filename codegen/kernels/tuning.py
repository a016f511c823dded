"""Launch numbers that depend on the architecture, as kernel sources choose among them: by the compiler's macros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.kernels.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.kernels.model import Family

NVIDIA = "sm"
"""What the names of NVIDIA's architectures begin with."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers for some architectures."""

    condition: str
    """Of the preprocessor; empty for all that are left."""
    numbers: tuple[tuple[str, int], ...]
    """Macros and their values."""


def macro(name: str) -> str:
    """What a number that depends on the architecture is called in kernel sources."""
    return f"CANDLE_{name.upper()}"


def longest_first(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Beginnings of architectures' names, each before those that it begins with: the first that fits is the one."""
    return tuple(sorted(prefixes, key=lambda prefix: (-len(prefix), prefix)))


def tunings(family: Family) -> tuple[Tuning, ...]:
    """The choices of a family in the order in which the preprocessor tries them; none if there is nothing to choose.

    Each has all numbers that any of them changes.
    """
    if not family.tuned:
        return ()
    names = family.tuned_numbers()
    chosen = [(_condition(prefix), family.numbers(prefix)) for prefix in longest_first(family.tuned)]
    usual = ("", family.launch)
    return tuple(Tuning(when, tuple((macro(n), numbers[n]) for n in names)) for when, numbers in (*chosen, usual))


def _condition(prefix: str) -> str:
    if prefix == NVIDIA:
        return "defined(__CUDACC__)"
    return " || ".join(f"defined(__{each.name}__)" for each in ARCHITECTURES if each.name.startswith(prefix)) or "0"
