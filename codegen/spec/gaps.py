"""Releases that fall between two entries of which one is the other's successor: what was true before would be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.release import in_range, is_version, precedence
from codegen.spec.document import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.errors import Problem
    from codegen.spec.document import Document, MappingNode

SUBJECTS = {"rules": "sites", "files": "path"}
"""The key that two entries share if they speak of the same thing."""


def gaps(document: Document, releases: Iterable[str]) -> Iterator[Problem]:
    """Where an entry begins later than the release after the one that its predecessor ends with."""
    listed = sorted(filter(is_version, releases), key=precedence)
    for key, subject in SUBJECTS.items():
        comparable = [entry for entry in document.mapping.mappings(key) if _has_versions(entry)]
        entries = [(entry, plain(node)) for entry in comparable if (node := entry.get(subject)) is not None]
        for entry, own in entries:
            node, since = entry.get("since"), entry.text("since")
            if node is None or since is None:
                continue
            alike = [other for other, theirs in entries if theirs == own]
            for release in _left_out(alike, since, listed):
                message = f"{release} is left out: an entry with the same {subject} ends before it"
                yield document.problem(message, node.mark)


def _has_versions(entry: MappingNode) -> bool:
    """Whether the ends of its range, if it has any, can be compared."""
    return all(is_version(text) for name in ("since", "until") if (text := entry.text(name)) is not None)


def _left_out(entries: Sequence[MappingNode], since: str, releases: Iterable[str]) -> Iterator[str]:
    """The releases before `since`, but behind the end of an earlier entry, for which none of the entries holds."""
    ends = [precedence(until) for entry in entries if (until := entry.text("until")) is not None]
    for release in releases:
        behind_one = any(end < precedence(release) for end in ends)
        held = any(in_range(release, entry.text("since"), entry.text("until")) for entry in entries)
        if behind_one and not held and precedence(release) < precedence(since):
            yield release
