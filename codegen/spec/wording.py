"""How a spec's contents are named in messages."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN_LENGTH = 60
"""A longer text is cut in messages; the source line under the message has all of it."""


def quoted(text: str) -> str:
    """`text` in single quotes, safe to print: one line, no control characters, not too long."""
    safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: SHOWN_LENGTH + 1])
    return f"'{safe[:SHOWN_LENGTH]}…'" if len(safe) > SHOWN_LENGTH else f"'{safe}'"


def described(value: object) -> str:
    """A scalar of a spec with its type: `the number 1`, `the text 'x'`, `true`, `nothing`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    return f"the number {value}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` with the most similar known word, or an empty string when none is similar."""
    close = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def one_of(word: str, known: Iterable[str], *, what: str) -> str:
    """The end of a message about an unknown word: the nearest known word, or else all of them."""
    words = list(known)
    return did_you_mean(word, words) or (f"; {what}: {', '.join(words)}" if words else "")
