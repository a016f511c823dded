"""`make sabotage`: do each act in a copy of the repository, and see what catches it.

Each command that has to catch something is run before without any act, and has to pass then: a command that always
fails catches nothing.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.paths import repository_root
from codegen.rocm.fetch import default_folder
from codegen.verify.surroundings import inherited
from sabotage.act import Act, read_acts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PATIENCE = 1800.0
"""Seconds for one command; a verification that has to compile Candle's dependencies first takes ten minutes."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """A copy of the repository, and the folder in which verification builds."""

    root: Path
    work: Path

    @classmethod
    def prepared(cls, repository: Path, root: Path, work: Path) -> Workshop:
        """A copy of what git knows of, and of what is new and not ignored; unchanged files keep their times.

        The ROCm packages that `make rocm-toolchain` unpacked are linked: some tests that catch acts compile with them.
        """
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
        names = {name for name in listed.stdout.split("\0") if name and (repository / name).is_file()}
        for name in sorted(names):
            _copy(repository / name, root / name)
        for path in [path for path in root.rglob("*") if path.is_file()]:
            name = path.relative_to(root).as_posix()
            if name not in names and not name.startswith(("build/", ".")):
                path.unlink()
        packages = default_folder()
        link = root / packages.relative_to(repository)
        if packages.is_dir() and not link.is_symlink():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(packages)
        return cls(root, work)

    def run(self, command: str) -> tuple[int, str]:
        """Exit code and output of `candle-rocm ...`, `pytest ...` or `cargo ...` in the copy."""
        words = shlex.split(command)
        if words[0] == "candle-rocm":
            work = ["--work", str(self.work)] if words[1] == "verify" else []
            words = [sys.executable, "-m", "codegen", *words[1:], *work]
        elif words[0] == "pytest":
            words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words[1:]]
        environment = {**inherited(), "PYTHONPATH": str(self.root), "NO_COLOR": "1"}
        done = subprocess.run(
            words,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout


def _copy(source: Path, target: Path) -> None:
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        shutil.copymode(source, target)


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of an act."""

    group: str
    act: Act
    caught: bool
    line: str
    """The line of the command's output that names it, or what went wrong."""
    seconds: float


def committed(group: str, act: Act, workshop: Workshop) -> Finding:
    """Do an act, and see whether its command fails for it."""
    started = time.monotonic()

    def finding(line: str, *, caught: bool = False) -> Finding:
        return Finding(group, act, caught, line, time.monotonic() - started)

    try:
        with act.done(workshop.root):
            for command in act.before:
                code, output = workshop.run(command)
                if code:
                    return finding(f"`{command}` ended with {code}: {_last(output)}")
            code, output = workshop.run(act.caught_by)
    except ValueError as error:
        return finding(f"cannot be done: {error}")
    found = re.search(act.says, output)
    if code == 0:
        return finding("survived: the command passes")
    if found is None:
        return finding(f"red for another reason (exit code {code}): {_last(output)}")
    line = next(line for line in output[found.start() :].splitlines() or [found[0]] if line.strip())
    return finding(line.strip(), caught=True)


def faults_before(acts: Iterable[Act], workshop: Workshop) -> Iterator[str]:
    """Commands that fail although nothing was done."""
    for command in dict.fromkeys(command for act in acts for command in (*act.before, act.caught_by)):
        started = time.monotonic()
        code, output = workshop.run(command)
        print(f"without any act: {command}: exit code {code}, {time.monotonic() - started:.0f} s", flush=True)
        if code:
            yield f"{command}: exit code {code}: {_last(output)}"


def _last(output: str) -> str:
    return " / ".join(output.strip().splitlines()[-3:])[-400:]


def main() -> int:
    """Exit code 1 when an act survives, or a command fails before any."""
    parser = argparse.ArgumentParser(prog="sabotage", description=__doc__)
    parser.add_argument("words", nargs="*", help="only acts whose file, text or command contains one of these")
    parser.add_argument("--except", dest="left", action="append", default=[], help="leave out acts with this word")
    parser.add_argument("--work", type=Path, default=repository_root() / "build" / "sabotage" / "work")
    options = parser.parse_args()

    def has(words: Iterable[str], text: str) -> bool:
        return any(word in text for word in words)

    acts = [
        (group, act)
        for group, act in read_acts(repository_root())
        for text in [f"{group} {act.about} {act.caught_by}"]
        if has(options.words or [""], text) and not has(options.left, text)
    ]
    if not acts:
        print("no act is of that name", file=sys.stderr)
        return 2
    workshop = Workshop.prepared(repository_root(), repository_root() / "build/sabotage/copy", options.work.resolve())
    faults = list(faults_before((act for _, act in acts), workshop))
    findings = []
    for group, act in acts if not faults else ():
        found = committed(group, act, workshop)
        findings.append(found)
        verdict = "caught" if found.caught else "SURVIVED"
        print(
            f"{verdict:8} {group}: {act.about}\n         {act.caught_by}, {found.seconds:.0f} s: {found.line[:200]}",
            flush=True,
        )
    survivors = [found for found in findings if not found.caught]
    for fault in faults:
        print(f"fails before any act: {fault}")
    print(f"{len(findings)} acts, {len(findings) - len(survivors)} caught, {len(survivors)} survived")
    return 1 if survivors or faults else 0


if __name__ == "__main__":
    sys.exit(main())
