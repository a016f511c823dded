"""What two plans generate differently, rule by rule: of two releases, or of a tree and its release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.patch.changes import FileChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.plan.model import Plan

Lines = dict[str, list[str]]
"""What a rule wrote, by file."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule that wrote other lines, or in other files."""

    rule: str
    before: int
    after: int
    """Lines that it wrote."""
    files: tuple[FileChange, ...]
    """The rule's own lines of each file in which they differ, as if they were the whole file."""


def compared(old: Plan, new: Plan) -> tuple[tuple[RuleChange, ...], int]:
    """The rules whose lines differ, by their names, and how many wrote the same."""
    before, after = _by_rule(old), _by_rule(new)
    rules = sorted({*before, *after})
    changes = ((rule, _changes(before.get(rule, {}), after.get(rule, {}))) for rule in rules)
    found = tuple(
        RuleChange(rule, _count(before.get(rule, {})), _count(after.get(rule, {})), files)
        for rule, files in changes
        if files
    )
    return found, len(rules) - len(found)


def _by_rule(plan: Plan) -> Mapping[str, Lines]:
    found: dict[str, Lines] = {}
    for change in plan.changes:
        lines = change.after.decode("utf-8", "replace").splitlines(keepends=True)
        for region in change.regions:
            wrote = found.setdefault(region.origin.rule, {}).setdefault(change.path, [])
            wrote += lines[region.first - 1 : region.last]
    return found


def _changes(before: Lines, after: Lines) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(path, _text(before.get(path)), _text(after.get(path)) or b"")
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    )


def _text(lines: list[str] | None) -> bytes | None:
    return None if lines is None else "".join(lines).encode()


def _count(lines: Lines) -> int:
    return sum(map(len, lines.values()))
