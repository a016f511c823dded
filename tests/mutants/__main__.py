"""`python -m mutants`: mutants of the ROCm backend, its planner or the emulated device; run by `make mutants`.

Exits with 1 if a mutant survives that accepted.yaml does not list, or if an entry of that file is out of date.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from work_folder import work_folder

from codegen.paths import repository_root
from mutants.accepted import read_accepted, reviewed
from mutants.backend import Backend
from mutants.campaign import Campaign
from mutants.diff import touched, touched_lines
from mutants.emulated import Emulated
from mutants.kept import Bench, Subject, prepared
from mutants.mutant import drawn, shard
from mutants.planned import Planned
from mutants.report import described, place_in_template, summary, survivors
from mutants.results import Results
from mutants.trial import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mutants.mutant import Mutant
    from mutants.results import Result

ACCEPTED = Path(__file__).parent / "accepted.yaml"


def main() -> int:
    """Try the mutants that are asked for, and print what became of them."""
    asked = _arguments()
    repository = repository_root()
    work = work_folder("mutants")
    subject = _subject(asked, work)
    folder = work / subject.state
    bench = prepared(subject, folder, repository / asked.program, asked.jobs, _note)
    sources = subject.sources
    wanted = _wanted(bench, sources, asked, repository)
    tests, left_out = len(bench.baseline.tests), len(bench.baseline.left_out)
    print(f"{len(wanted)} of {len(bench.mutants)} mutants; without one {tests} tests pass, {left_out} are left out")
    if not wanted:
        print("nothing to try: what was asked for has no mutant")
        return 0
    campaign = Campaign(
        bench.built,
        bench.baseline,
        subject.environment,
        subject.folder_of,
        Results(folder / "results.jsonl"),
        subject.plain,
        run=subject.run,
        jobs=asked.jobs,
        on_result=_progress,
    )
    return _report(bench, sources, wanted, campaign.try_all(wanted), repository)


def _subject(asked: argparse.Namespace, work: Path) -> Subject:
    if asked.planner:
        return Planned.here(work, _note)
    return Emulated.here(work, _note) if asked.emulator else Backend.of(asked.release, work, _note)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("release", nargs="?", default="0.11.1")
    parser.add_argument("--count", type=int, help="draw so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", default="1/1", help="part k of n: k/n")
    parser.add_argument("--emulator", action="store_true", help="of the emulated libraries, not of the backend")
    parser.add_argument("--planner", action="store_true", help="of the planner of launches, by unit and kernel tests")
    parser.add_argument("--only", metavar="GLOB", help="only of files with such a path, such as '*/ops/reduce.rs'")
    parser.add_argument("--diff", help="only lines that changed since this commit")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--program", default="build/tools/bin/cargo-mutants")
    return parser.parse_args()


def _wanted(
    bench: Bench, sources: Mapping[str, bytes], asked: argparse.Namespace, repository: Path
) -> tuple[Mutant, ...]:
    mutants: Sequence[Mutant] = bench.mutants
    if asked.only:
        mutants = [mutant for mutant in mutants if fnmatchcase(mutant.file, asked.only)]
    if asked.diff:
        diff = _git(repository, "diff", "--unified=0", "--no-color", asked.diff, "--", "generated", "templates")
        names = _git(repository, "ls-files", "generated").splitlines()
        committed = {name: (repository / name).read_bytes() for name in names if (repository / name).exists()}
        mutants = touched(mutants, touched_lines(diff), committed, sources)
    return shard(drawn(mutants, asked.count, asked.seed), asked.shard)


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repository, check=True, stdout=subprocess.PIPE, text=True).stdout


def _report(
    bench: Bench,
    sources: Mapping[str, bytes],
    wanted: Sequence[Mutant],
    results: Mapping[str, Result],
    repository: Path,
) -> int:
    lines = {path: text.decode().splitlines() for path, text in sources.items()}
    crates = {mutant.file.split("/")[0] for mutant in bench.mutants}
    entries = [entry for entry in read_accepted(ACCEPTED) if entry.file.split("/")[0] in crates]
    review = reviewed(entries, bench.mutants, lines, results)
    templates = {
        path.relative_to(repository).as_posix(): path.read_bytes()
        for path in repository.glob("templates/**/*")
        if path.is_file()
    }
    left = survivors(wanted, results, review)
    for mutant in left:
        place = place_in_template(mutant, sources, templates)
        print(described(mutant, results[mutant.name], lines[mutant.file][mutant.line - 1], place))
    errors = [result for result in results.values() if result.verdict is Verdict.ERROR]
    for error in errors:
        print(f"{error.name}\n    error: {error.by}")
    print(*review.complaints, sep="\n")
    print(summary(wanted, results, review))
    return int(bool(left or errors or review.complaints))


def _progress(mutant: Mutant, result: Result) -> None:
    _note(f"{result.verdict:11} {result.seconds:6.1f} s  {mutant.name}: {result.by[:100]}")


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
