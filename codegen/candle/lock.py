"""Cargo.lock: which versions a program is built with, and where they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = "Cargo.lock"
_ENTRY = re.compile(r'^(name|version|source) = "([^"\n]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of a lock."""

    name: str
    version: str
    source: str
    """`registry+URL`, `git+URL?rev=...#COMMIT`; empty for a folder."""

    @property
    def git(self) -> tuple[str, str] | None:
        """URL and commit of a git source."""
        if not self.source.startswith("git+"):
            return None
        url, _, commit = self.source.removeprefix("git+").partition("#")
        return url.partition("?")[0], commit

    @property
    def from_registry(self) -> bool:
        """Whether it comes from crates.io, or what stands for it."""
        return self.source.startswith(("registry+", "sparse+"))


def packages(text: str, names: Iterable[str]) -> tuple[Locked, ...]:
    """The packages of these names, in the order of the lock."""
    wanted = set(names)
    found = []
    for block in text.split("[[package]]")[1:]:
        entries = dict(_ENTRY.findall(block))
        if entries.get("name") in wanted:
            found.append(Locked(entries["name"], entries.get("version", ""), entries.get("source", "")))
    return tuple(found)
