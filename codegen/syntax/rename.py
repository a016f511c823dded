"""Renaming CUDA to ROCm in Rust text: identifiers, strings and comments each in their own spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_TOKEN = re.compile(
    r"""
    (?P<string> [bc]?r(?P<fence>\#*)".*?"(?P=fence) | [bc]?"(?:\\.|[^"\\])*" )
    | (?P<char> b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])' )
    | (?P<comment> //[^\n]* | /\*.*?\*/ )
    | (?P<word> [^\W\d]\w* )
    """,
    re.DOTALL | re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d]\w*")
_RUNTIME_API = re.compile(r"cuda[A-Z]\w*|CUDA_[RC]_\d+\w*")
"""`cudaMalloc`, `CUDA_R_16F` and the like: names of CUDA's C API, which no renaming turns into ROCm's."""


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

_Pairs = tuple[tuple[Spelling, Spelling], ...]


def rename(text: str, old: Spelling = CUDA, new: Spelling = ROCM, *, protected: frozenset[str] = frozenset()) -> str:
    """`text` with every name of `old` replaced; whole identifiers in `protected` stay as they are."""
    return _TOKEN.sub(lambda match: _renamed(match, ((old, new),), protected), text)


def swap(text: str, one: Spelling = CUDA, other: Spelling = ROCM, *, protected: frozenset[str] = frozenset()) -> str:
    """`text` with the two backends exchanged."""
    return _TOKEN.sub(lambda match: _renamed(match, ((one, other), (other, one)), protected), text)


def protected_words(text: str, protected: frozenset[str]) -> tuple[str, ...]:
    """The identifiers in `text` that renaming would keep, sorted: text with any cannot be mirrored."""
    return tuple(sorted({word for word in words_in(text) if _is_protected(word, protected)}))


def words_in(text: str) -> list[str]:
    """The identifiers and keywords of Rust text, those in strings and comments excepted."""
    return [match["word"] for match in _TOKEN.finditer(text) if match["word"]]


def tokens(text: str) -> list[tuple[int, str]]:
    """The identifiers and keywords of Rust text as `words_in`, each with the byte at which it begins."""
    found: list[tuple[int, str]] = []
    at = position = 0
    for match in _TOKEN.finditer(text):
        if match["word"]:
            at += len(text[position : match.start()].encode())
            position = match.start()
            found.append((at, match["word"]))
    return found


def _is_protected(word: str, protected: frozenset[str]) -> bool:
    return word in protected or _RUNTIME_API.fullmatch(word) is not None


def _renamed(match: re.Match[str], pairs: _Pairs, protected: frozenset[str]) -> str:
    text = match[0]
    if match["word"]:
        return text if _is_protected(text, protected) else _code(text, pairs)
    if match["char"]:
        return text
    return _WORD.sub(lambda word: _prose(word, pairs, protected), text)


def _prose(word: re.Match[str], pairs: _Pairs, protected: frozenset[str]) -> str:
    """A word of a string or comment: `CUDA` and `Cuda` by themselves are prose, everything else is a name in code."""
    name = word[0]
    if _is_protected(name, protected):
        return name
    for old, new in pairs:
        if name in (old.camel, old.upper, old.prose):
            before, after = word.string[: word.start()], word.string[word.end() :]
            is_code = before.endswith(("::", "`", ".")) or after.startswith(("::", "(", "`"))
            return _code(name, pairs) if is_code else new.prose
    return _code(name, pairs)


def _code(name: str, pairs: _Pairs) -> str:
    pattern, table = _table(pairs)
    return pattern.sub(lambda found: table[found[0]], name)


@cache
def _table(pairs: _Pairs) -> tuple[re.Pattern[str], dict[str, str]]:
    table = {
        spelled: replacement
        for old, new in pairs
        for spelled, replacement in ((old.camel, new.camel), (old.lower, new.lower), (old.upper, new.upper))
    }
    return re.compile("|".join(map(re.escape, table))), table
