"""Variants that a release spells otherwise: the text as rules and verbs know it, and the way back to its own bytes.

The scan reads `Device::Nvidia` as `Device::Cuda` where specs/candle.yaml says that both are CUDA's. Only what is read
is respelled: edits go back to the offsets of the file as it is, and what they write is spelled as the tree spells it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.syntax.rename import tokens

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Respelling:
    """A text whose words have other lengths than those that are read in their place."""

    pristine: bytes
    ends: tuple[int, ...]
    """In the text that is read: where each respelled word ends."""
    growth: tuple[int, ...]
    """By how many bytes the pristine text is longer up to each of those ends."""

    def original(self, offset: int) -> int:
        """The offset in the pristine text. One inside a respelled word belongs to its beginning."""
        behind = bisect_right(self.ends, offset)
        return offset + (self.growth[behind - 1] if behind else 0)


def respelled(text: bytes, spellings: Mapping[str, str]) -> tuple[bytes, Respelling | None]:
    """The text with each of the identifiers replaced, comments and strings excepted; None where it has none of them."""
    if not any(word.encode() in text for word in spellings):
        return text, None
    pieces: list[bytes] = []
    ends: list[int] = []
    growth: list[int] = []
    at = length = 0
    for start, word in tokens(text.decode()):
        if word not in spellings:
            continue
        new = spellings[word].encode()
        pieces += [text[at:start], new]
        length += start - at + len(new)
        at = start + len(word.encode())
        ends.append(length)
        growth.append(at - length)
    if not ends:
        return text, None
    return b"".join([*pieces, text[at:]]), Respelling(text, tuple(ends), tuple(growth))


def as_spelled(text: str, enums: Mapping[str, Mapping[str, str]], *, inside: str = "") -> str:
    """Text to be written with the variants of `enums` as the tree spells them; `inside` an impl of that type, if any.

    `enums` has for each enum what we call a variant, and what the tree does.
    """
    for enum, variants in enums.items():
        owners = f"{enum}|Self" if inside == enum else enum
        for ours, theirs in variants.items():
            text = re.sub(rf"\b({owners})::{ours}\b", rf"\1::{theirs}", text)
    return text
