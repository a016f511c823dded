"""Collections that tests go through: one that is empty would let them pass without having looked at anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


def some(collection: Iterable[T]) -> tuple[T, ...]:
    """All of the collection. Raises AssertionError if that is nothing."""
    found = tuple(collection)
    assert found, "there is nothing here to look at"
    return found
