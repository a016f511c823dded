"""Kills a test program of a verification at a random moment, many times: each time the verification has to say so.

`python -m sabotage.kills 0.9.1 0.11.1 --count 20 --seed 7 --only rocm-tests`: the releases take turns. Of several steps
each kill draws one.
"""

from __future__ import annotations

import argparse
import contextlib
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
from codegen.verify.process import PROCESSES
from codegen.verify.results import OF_VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LOOK_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Kill:
    """One program killed, and what the verification said."""

    release: str
    step: str
    program: str
    after: float
    """Seconds after the program was first seen."""
    seen: bool
    """The step failed, and named the program and the signal."""
    said: str


def programs(target: Path) -> Iterator[tuple[int, str]]:
    """The test programs that run now: not those that only list their tests."""
    for folder in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            executable = (folder / "exe").readlink()
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if executable.parent == target / "debug/deps" and b"--list" not in words and len(words) > 2:
                yield int(folder.name), executable.name.rpartition("-")[0]


def killed(release: str, step: str, options: Sequence[str], work: Path, chance: random.Random) -> Kill | None:
    """Run a step, kill one program on the way; None when the moment never came."""
    arguments = ["verify", release, *options, "--work", str(work), "--json", "--only", step]
    command = [sys.executable, "-m", "codegen", *arguments]
    wanted, delay = chance.randrange(12), chance.expovariate(3.0)
    started: dict[int, float] = {}
    victim: tuple[str, float] | None = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None and victim is None:
            for pid, name in programs(work / "target"):
                first = started.setdefault(pid, time.monotonic())
                number, age = list(started).index(pid), time.monotonic() - first
                if number >= wanted and age >= delay:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        victim = (name, age)
                    break
            time.sleep(LOOK_SECONDS)
        output = process.communicate()[0]
    return None if victim is None else Kill(release, step, *victim, *judged(victim[0], json.loads(output)))


def judged(program: str, document: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether a verification failed for this program and said so, and what it said."""
    said = [
        line
        for step in document["steps"]
        if step["verdict"] == "failed"
        for line in step["complaints"]
        if re.search(rf"\b{re.escape(program)}\b", line) and "SIGKILL" in line
    ]
    return document["passed"] is False and bool(said), said[0] if said else "nothing"


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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--runtime", help="as `verify` has it")
    parser.add_argument("--work", type=Path, default=repository_root() / "build" / "verify")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kills: list[Kill] = []
    work = options.work.resolve()
    choices = ["--runtime", options.runtime] if options.runtime else []
    with unrecorded(work):
        while len(kills) < options.count:
            release = options.releases[len(kills) % len(options.releases)]
            kill = killed(release, chance.choice(options.only or ["rocm-tests"]), choices, work, chance)
            if kill is None:
                print(f"none   {release}: its programs ended before the moment came", flush=True)
                continue
            kills.append(kill)
            verdict = "seen" if kill.seen else "UNSEEN"
            what = f"{kill.release} {kill.step}: {kill.program} after {kill.after:.2f} s"
            print(f"{verdict:6} {what}: {kill.said[:160]}", flush=True)
    unseen = sum(not kill.seen for kill in kills)
    print(f"{len(kills)} programs killed, {len(kills) - unseen} seen and named, {unseen} unseen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
