"""Kills a test program of a verification at a random moment, many times: each time the verification has to say so.

`python -m sabotage.kills 0.11.1 --count 20 --seed 7 --only rocm-tests`
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.paths import repository_root
from codegen.verify.process import PROCESSES
from codegen.verify.results import OF_VERIFY

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Kill:
    """One program killed, and what the verification said."""

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


def killed(release: str, steps: list[str], work: Path, chance: random.Random) -> Kill | None:
    """Run the steps, kill one program on the way; None when the moment never came."""
    only = [word for step in steps for word in ("--only", step)]
    command = [sys.executable, "-m", "codegen", "verify", release, "--work", str(work), "--json", *only]
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
    return None if victim is None else _judged(victim, json.loads(output))


def _judged(victim: tuple[str, float], document: dict[str, object]) -> Kill:
    name, after = victim
    steps = document["steps"]
    assert isinstance(steps, list)
    said = [line for step in steps for line in step["complaints"] if name in line and "SIGKILL" in line]
    return Kill(name, after, document["passed"] is False and bool(said), said[0] if said else "nothing")


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
    parser.add_argument("release")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--work", type=Path, default=repository_root() / "build" / "verify")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kills: list[Kill] = []
    work = options.work.resolve()
    with unrecorded(work):
        while len(kills) < options.count:
            kill = killed(options.release, options.only or ["rocm-tests"], work, chance)
            if kill is not None:
                kills.append(kill)
                verdict = "seen" if kill.seen else "UNSEEN"
                print(f"{verdict:6} {kill.program} after {kill.after:.2f} s: {kill.said[:160]}", flush=True)
    unseen = sum(not kill.seen for kill in kills)
    print(f"{options.release}: {len(kills)} programs killed, {len(kills) - unseen} seen and named, {unseen} unseen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
