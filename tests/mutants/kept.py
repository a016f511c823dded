"""What a campaign begins with, kept on disk: the list, the programs, and the tests without a mutant."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mutants.baseline import Baseline, Passing, measured
from mutants.building import Built, Program
from mutants.files import kept, linked
from mutants.mutant import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mutants.building import Compilation
    from mutants.trial import Ended


class Subject(Protocol):
    """Whose mutants are tried."""

    @property
    def state(self) -> str:
        """A digest of all that a result depends on."""

    @property
    def sources(self) -> dict[str, bytes]:
        """The files that are mutated, as they are."""

    @property
    def environment(self) -> dict[str, str]:
        """What tests run with."""

    def folder_of(self, program: Program) -> Path:
        """Where a program is run."""

    def mutants(self, cargo_mutants: Path) -> tuple[Mutant, ...]:
        """All that there are."""

    def build(self, mutants: Sequence[Mutant]) -> Built:
        """The programs with all mutants in them that can be switched on."""

    def plain(self, mutant: Mutant) -> Compilation:
        """The programs with one mutant, made in its place."""

    def cases(self, programs: Sequence[Program], environment: Mapping[str, str]) -> list[tuple[Program, str]]:
        """The tests that judge."""

    def run(
        self,
        program: str,
        tests: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: Path,
        timeout: float,
        to_the_end: bool = False,
    ) -> Ended:
        """Run tests of one program."""


@dataclass(frozen=True, slots=True)
class Bench:
    """A state of the sources, compiled with mutants, and what its tests reach."""

    mutants: tuple[Mutant, ...]
    built: Built
    baseline: Baseline


def prepared(subject: Subject, folder: Path, cargo_mutants: Path, jobs: int, say: Callable[[str], None]) -> Bench:
    """List, compile and run the tests without a mutant; what an earlier run left in the folder is not done again.

    Raises BuildFailed and BaselineFailed.
    """
    listing = kept(folder / "mutants.json", lambda: [asdict(mutant) for mutant in subject.mutants(cargo_mutants)])
    mutants = tuple(Mutant(**{**each, "start": tuple(each["start"]), "end": tuple(each["end"])}) for each in listing)

    def build() -> Any:
        say(f"compiling {len(mutants)} mutants")
        return _built_document(subject.build(mutants), folder / "programs")

    built = _read_built(kept(folder / "built.json", build))

    def run() -> Any:
        baseline = measured(
            subject.cases(built.programs, subject.environment),
            subject.environment,
            folder_of=subject.folder_of,
            run=subject.run,
            records=folder / "reached",
            jobs=jobs,
            on_message=say,
        )
        return {"tests": [test.document() for test in baseline.tests], "left_out": list(baseline.left_out)}

    document = kept(folder / "baseline.json", run)
    tests = tuple(Passing.read(each) for each in document["tests"])
    return Bench(mutants, built, Baseline(tests, tuple(document["left_out"])))


def _built_document(built: Built, folder: Path) -> dict[str, object]:
    """For JSON; with links to the programs, as cargo replaces its own."""
    programs = {}
    for program in built.programs:
        built_by_cargo = not program.path.endswith(".py")
        link = folder / program.name.replace("/", "-")
        programs[program.name] = str(linked(Path(program.path), link)) if built_by_cargo else program.path
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
