"""Candle releases and their order."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER = r"([0-9]{1,19})"
"""Cargo's numbers have 64 bits."""
_NAME = r"[0-9A-Za-z-]{1,64}"
VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_NAME}(?:\.{_NAME}){{0,7}}))?(?:\+[0-9A-Za-z.-]{{1,64}})?")

Precedence = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def is_version(text: str) -> bool:
    """Whether `text` is a full semantic version such as `0.9.1` or `0.9.2-alpha.1`."""
    return VERSION.fullmatch(text) is not None


def precedence(version: str) -> Precedence:
    """A key that sorts versions as https://semver.org section 11 says: `0.9.2-alpha.1` before `0.9.2`.

    Raises:
        ValueError: `version` is not a full semantic version.
    """
    match = VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"'{version}' is not a version such as 0.9.1 or 0.9.2-alpha.1")
    major, minor, patch, pre = match.groups()
    fields = tuple(_field(field) for field in pre.split(".")) if pre else ()
    return int(major), int(minor), int(patch), pre is None, fields


def _field(text: str) -> tuple[bool, int, str]:
    return (False, int(text), "") if text.isdecimal() else (True, 0, text)


def in_range(version: str, since: str | None = None, until: str | None = None) -> bool:
    """Whether `since <= version <= until`; an end that is None is open.

    Raises:
        ValueError: one of them is not a full semantic version.
    """
    key = precedence(version)
    return (since is None or precedence(since) <= key) and (until is None or key <= precedence(until))


def newest_first(versions: Iterable[str]) -> tuple[str, ...]:
    """The versions without duplicates, newest first."""
    return tuple(sorted(set(versions), key=precedence, reverse=True))


def nearest(version: str, known: Iterable[str], count: int = 5) -> tuple[str, ...]:
    """At most `count` of the `known` versions that lie around `version`, in ascending order.

    `version` may be what a user typed: of `0.11`, `v0.11.1` or `latest` the numbers count, if there are any.
    """
    ordered = sorted(set(known), key=precedence)
    if is_version(version):
        wanted = precedence(version)
    else:
        numbers = [int(number) for number in re.findall(r"[0-9]{1,19}", version)[:3]]
        if not numbers:
            return tuple(ordered[-count:])
        major, minor, patch = (*numbers, 0, 0)[:3]
        wanted = (major, minor, patch, True, ())
    position = bisect_left([precedence(each) for each in ordered], wanted)
    first = max(0, min(position - count // 2, len(ordered) - count))
    return tuple(ordered[first : first + count])
