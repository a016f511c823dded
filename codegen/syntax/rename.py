"""Renaming CUDA to ROCm in Rust text: identifiers, strings and comments each in their own spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<string>b?r?"(?:\\.|[^"\\])*")|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Spelling:
    """One backend's name as it is written in identifiers, constants, paths and prose."""

    camel: str
    lower: str
    upper: str
    prose: str


CUDA = Spelling("Cuda", "cuda", "CUDA", "CUDA")
METAL = Spelling("Metal", "metal", "METAL", "Metal")
ROCM = Spelling("Rocm", "rocm", "ROCM", "ROCm")


def mentions(text: str, backend: Spelling) -> bool:
    """True if the backend is named anywhere in `text`, in any case."""
    return backend.lower in text.lower()


def rename(text: str, old: Spelling = CUDA, new: Spelling = ROCM, *, protected: frozenset[str] = frozenset()) -> str:
    """`text` with every name of `old` replaced; whole identifiers in `protected` stay as they are."""
    return _TOKEN.sub(lambda match: _renamed(match, ((old, new),), protected), text)


def swap(text: str, one: Spelling = CUDA, other: Spelling = ROCM, *, protected: frozenset[str] = frozenset()) -> str:
    """`text` with the two backends exchanged."""
    return _TOKEN.sub(lambda match: _renamed(match, ((one, other), (other, one)), protected), text)


def protected_words(text: str, protected: frozenset[str]) -> tuple[str, ...]:
    """The identifiers in `text` that renaming would keep, sorted: text with any cannot be mirrored."""
    words = (match["word"] for match in _TOKEN.finditer(text) if match["word"])
    return tuple(sorted({word for word in words if _is_protected(word, protected)}))


def _is_protected(word: str, protected: frozenset[str]) -> bool:
    return word in protected


def _renamed(match: re.Match[str], pairs: tuple[tuple[Spelling, Spelling], ...], protected: frozenset[str]) -> str:
    text = match[0]
    word = match["word"]
    if word:
        if _is_protected(word, protected):
            return text
        table = {getattr(old, case): getattr(new, case) for old, new in pairs for case in ("camel", "lower", "upper")}
    else:
        table = {}
        for old, new in pairs:
            table |= {old.camel: new.prose, old.upper: new.prose, old.prose: new.prose, old.lower: new.lower}
    pattern = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    return re.sub(pattern, lambda found: table[found[0]], text)
