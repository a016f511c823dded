"""GitHub's workflow commands: one annotation per finding.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions (setting an error message)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codegen.errors import CandleRocmError

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def github_annotations(error: CandleRocmError) -> tuple[str, ...]:
    """One line per problem of an error, such as `::error file=a.rs,line=3,col=5,title=...::message`."""
    lines = []
    for problem in error.problems:
        place = problem.location
        where = {} if place is None else {"file": place.file, "line": str(place.line), "col": str(place.column)}
        properties = ",".join(
            f"{key}={_escaped(value, _PROPERTY)}" for key, value in {**where, "title": error.title}.items()
        )
        lines.append(f"::error {properties}::{_escaped(f'{problem.message} (help: {error.remedy})', _DATA)}")
    return tuple(lines)


def _escaped(text: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in text)
