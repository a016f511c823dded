"""What is known of mutants already, so that a second run goes on where the first ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mutants.trial import Verdict

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant."""

    name: str
    verdict: Verdict
    by: str
    """The test that was red, what rustc said, or why nothing is known."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Results:
    """A file with one JSON object a line; a line that a crash has cut off counts for nothing."""

    path: Path

    def known(self) -> dict[str, Result]:
        """By the mutants' names. Errors are not known: they are tried again."""
        found = {}
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            result = Result(**{**entry, "verdict": Verdict(entry["verdict"])})
            found[result.name] = result
        return {name: result for name, result in found.items() if result.verdict is not Verdict.ERROR}

    def add(self, result: Result) -> None:
        """Keep one more."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
