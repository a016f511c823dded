"""`use` declarations, one for all names of a parent; rustfmt brings them into its order and width."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def use_declarations(paths: Iterable[str], *, visibility: str = "") -> tuple[str, ...]:
    """One declaration per parent path: `crate::DType` and `crate::Shape` give `use crate::{DType, Shape};`.

    `visibility` stands before each: `pub `.
    """
    groups: dict[str, set[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition("::")
        groups.setdefault(parent, set()).add(name)
    return tuple(f"{visibility}use {parent}::{_names(groups[parent])};" for parent in sorted(groups))


def _names(names: set[str]) -> str:
    return f"{{{', '.join(sorted(names))}}}" if len(names) > 1 else next(iter(names))
