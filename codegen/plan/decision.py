"""What the specs say about one site."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codegen.syntax.site import Site


class State(StrEnum):
    """What the table says about a site."""

    HANDLED = "handled"
    PENDING = "not applied"
    LEFT = "left alone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Decision:
    """One site and what the specs say about it."""

    site: Site
    crate: str
    state: State
    rule: str = ""
    phase: int | None = None
    """The phase that the site belongs to by theme."""
    lands: int | None = None
    """The phase that writes its final form."""
    stand_in: int | None = None
    """The earlier phase that writes a typed error in its place, because rustc demands an arm by then."""
    verb: str = ""
    reason: str = ""
    inside: bool = False
    """Whether the site lies in another one, whose edit covers it."""
    fallback: bool = False
    """Whether a rule decided that is meant for what releases yet unknown may add."""
    review: str = ""
    """What a person should look at, though a rule decides: the mirrored text answers as CUDA does."""
