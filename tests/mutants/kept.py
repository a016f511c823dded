"""What a campaign begins with, kept on disk: the list, the programs, and the tests without a mutant."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mutants.baseline import Baseline, Passing, measured
from mutants.building import Built, Program
from mutants.mutant import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mutants.backend import Backend


@dataclass(frozen=True, slots=True)
class Bench:
    """A state of the sources, compiled with mutants, and what its tests reach."""

    mutants: tuple[Mutant, ...]
    built: Built
    baseline: Baseline


def prepared(backend: Backend, folder: Path, cargo_mutants: Path, jobs: int, say: Callable[[str], None]) -> Bench:
    """List, compile and run the tests without a mutant; what an earlier run left in the folder is not done again.

    Raises BuildFailed and BaselineFailed.
    """
    listing = _kept(folder / "mutants.json", lambda: [asdict(mutant) for mutant in backend.mutants(cargo_mutants)])
    mutants = tuple(Mutant(**{**each, "start": tuple(each["start"]), "end": tuple(each["end"])}) for each in listing)

    def build() -> Any:
        say(f"compiling {len(mutants)} mutants")
        return _built_document(backend.build(mutants), folder / "programs")

    built = _read_built(_kept(folder / "built.json", build))

    def run() -> Any:
        baseline = measured(
            built.programs,
            backend.environment(folder / "kernels"),
            folder_of=backend.folder_of,
            records=folder / "reached",
            jobs=jobs,
            on_message=say,
        )
        return {"tests": [test.document() for test in baseline.tests], "waiting": list(baseline.waiting)}

    document = _kept(folder / "baseline.json", run)
    tests = tuple(Passing.read(each) for each in document["tests"])
    return Bench(mutants, built, Baseline(tests, tuple(document["waiting"])))


def _kept(path: Path, make: Callable[[], Any]) -> Any:
    """What the file says; made and written first if it is not there, or was cut off."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        document = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return json.loads(path.read_text("utf-8"))


def _built_document(built: Built, folder: Path) -> dict[str, object]:
    """For JSON; with links to the programs, as cargo replaces its own."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = {}
    for program in built.programs:
        link = folder / program.name.replace("/", "-")
        link.unlink(missing_ok=True)
        os.link(program.path, link)
        programs[program.name] = str(link)
    return {
        "programs": programs,
        "inside": sorted(built.inside),
        "unviable": {str(number): why for number, why in built.unviable.items()},
        "unswitchable": {str(number): why for number, why in built.unswitchable.items()},
    }


def _read_built(document: Mapping[str, Any]) -> Built:
    return Built(
        programs=tuple(Program(name, path) for name, path in document["programs"].items()),
        inside=frozenset(document["inside"]),
        unviable={int(number): why for number, why in document["unviable"].items()},
        unswitchable={int(number): why for number, why in document["unswitchable"].items()},
    )
