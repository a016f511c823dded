"""Kills a test program of a verification at a random moment, many times: each time the verification has to say so.

`python -m sabotage.kills 0.9.1 0.11.1 --count 20 --seed 7 --only rocm-tests`: the releases take turns. Of several steps
each kill draws one.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.paths import repository_root
from codegen.verify.judge import Verdict
from codegen.verify.process import PROCESSES
from codegen.verify.results import OF_VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LOOK_SECONDS = 0.002
ENDED_BY = "ended with signal 9 (SIGKILL)"


@dataclass(frozen=True, slots=True)
class Kill:
    """One program killed, and what the verification said."""

    release: str
    step: str
    program: str
    after: float
    """Seconds after the program was first seen."""
    said: str
    """The step's line with the program and the signal; nothing where it had none, or did not fail."""


def programs(target: Path, parent: int) -> Iterator[tuple[int, str]]:
    """The test programs that a process runs now: not those that only list their tests, or run a single one again."""
    for folder in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            executable = (folder / "exe").readlink()
            words = (folder / "cmdline").read_bytes().split(b"\0")
            listing_or_alone = b"--list" in words or b"--nocapture" in words
            started_by = int((folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[1])
            own = started_by == parent and executable.parent == target / "debug/deps"
            if own and not listing_or_alone and len(words) > 2:
                yield int(folder.name), executable.name.rpartition("-")[0]


def killed(
    release: str, step: str, options: Sequence[str], work: Path, chance: random.Random, count: int, turns: int
) -> list[Kill]:
    """Run a step, kill `count` programs on the way; fewer when the moment of the others never came."""
    arguments = ["verify", release, *options, "--work", str(work), "--json", "--only", step]
    command = [sys.executable, "-m", "codegen", *arguments]
    victims: list[tuple[str, float]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        killer = Killer(chance, work / "target", process.pid, max(1, turns // count))
        while process.poll() is None and len(victims) < count:
            victims += killer.look()
            time.sleep(LOOK_SECONDS)
        output = process.communicate()[0]
    said = judged([program for program, _ in victims], json.loads(output))
    return [Kill(release, step, *victim, line) for victim, line in zip(victims, said, strict=True)]


class Killer:
    """Draws which program of those that start is killed, and when; after each kill anew."""

    def __init__(self, chance: random.Random, target: Path, parent: int, among: int) -> None:
        self._chance = chance
        self._target = target
        self._parent = parent
        self._among = among
        self._known: set[int] = set()
        self._draw()

    def _draw(self) -> None:
        self._started: dict[int, float] = {}
        self._wanted, self._delay = self._chance.randrange(self._among), self._chance.expovariate(3.0)

    def look(self) -> list[tuple[str, float]]:
        """The program that was killed now, if it was the moment, and its age."""
        for pid, name in programs(self._target, self._parent):
            if pid in self._known:
                continue
            first = self._started.setdefault(pid, time.monotonic())
            number, age = list(self._started).index(pid), time.monotonic() - first
            if number >= self._wanted and age >= self._delay:
                self._known.update(self._started)
                self._draw()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return [(name, age)]
        return []


def judged(programs: Sequence[str], document: Mapping[str, Any]) -> list[str]:
    """What the verification said of each program that was killed: a line of its own, or nothing."""
    lines = [
        line
        for step in document["steps"]
        if step["verdict"] == Verdict.FAILED and document["passed"] is False
        for line in step["complaints"]
        if ENDED_BY in line
    ]
    said = []
    for program in programs:
        found = next((line for line in lines if re.search(rf"\b{re.escape(program)}\b", line)), "")
        if found:
            lines.remove(found)
        said.append(found)
    return said


@contextlib.contextmanager
def unrecorded(work: Path) -> Iterator[None]:
    """Takes back what the runs within add to the results: a run that was tampered with is none."""
    results = work / OF_VERIFY
    known = results.read_bytes() if results.exists() else b""
    try:
        yield
    finally:
        results.write_bytes(known)


def main() -> int:
    """Exit code 1 when a kill went unseen."""
    parser = argparse.ArgumentParser(prog="sabotage.kills", description=__doc__)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--each", type=int, default=1, help="so many in each run of a step")
    parser.add_argument(
        "--turns", type=int, default=12, help="they fall on so many programs, of those that start first"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--runtime", help="as `verify` has it")
    parser.add_argument("--work", type=Path, default=repository_root() / "build" / "verify")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kills: list[Kill] = []
    work = options.work.resolve()
    choices = ["--runtime", options.runtime] if options.runtime else []
    turns = itertools.cycle(options.releases)
    with unrecorded(work):
        while len(kills) < options.count:
            step = chance.choice(options.only or ["rocm-tests"])
            each = min(options.each, options.count - len(kills))
            found = killed(next(turns), step, choices, work, chance, each, options.turns)
            for kill in found:
                verdict = "seen" if kill.said else "UNSEEN"
                what = f"{kill.release} {kill.step}: {kill.program} after {kill.after:.2f} s"
                print(f"{verdict:6} {what}: {kill.said[:160]}", flush=True)
            kills += found
    unseen = sum(not kill.said for kill in kills)
    print(f"{len(kills)} programs killed, {len(kills) - unseen} seen and named, {unseen} unseen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
