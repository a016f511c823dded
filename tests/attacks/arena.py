"""Where attacks take place: a hostile tree, a canary beside it, and every command run on the tree, in this process.

To add attacks, write a module with a tuple of functions `attack(dice, arena)` that make the tree hostile, and name it
in test_attacks.py. `dice` is a seeded `random.Random`: all that is chosen is chosen by it.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from canary import SECRET, Canary

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

SECONDS = 10.0
"""What a command and its programs may work at most."""
WAIT = 120.0
"""Seconds that may pass meanwhile; the machines that run this are shared, and what hangs is still found."""
MEMORY = 1 << 20
"""KiB by which this process may grow at most."""
BUG = 70
READING = ("scan", "status", "check", "explain", "report", "verify", "diff", "generate", "parity")
WRITING = ("declare", "apply", "revert")
COMMANDS = (*READING, *WRITING)
CORE = "candle-core"
LIB = f"{CORE}/src/lib.rs"
MANIFEST = '[package]\nname = "candle-core"\nversion = "0.11.1"\n'
WORKSPACE = '[workspace]\nmembers = ["candle-core"]\n'

Appearance = dict[str, tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Arena:
    """A folder with a tree, a canary and a place where commands may write."""

    root: Path
    canary: Canary

    @classmethod
    def build(cls, root: Path) -> Arena:
        """A tree that is small, so that thousands of attacks take minutes."""
        for name, text in (
            ("Cargo.toml", WORKSPACE),
            (f"{CORE}/Cargo.toml", MANIFEST),
            (LIB, "pub mod device;\n"),
            (f"{CORE}/src/device.rs", "pub enum Device { Cpu }\n"),
        ):
            path = root / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (root / "work").mkdir()
        return cls(root, Canary.plant(root / "outside"))

    @property
    def tree(self) -> Path:
        """The tree that is attacked with."""
        return self.root / "tree"

    @property
    def outside(self) -> Path:
        """What nobody may read or write."""
        return self.canary.root

    def arguments(self, command: str) -> list[str | Path]:
        """The command on the tree, told to write below `work` and to build nothing."""
        work = self.root / "work"
        extra: dict[str, list[str | Path]] = {
            "explain": [f"{LIB}:1"],
            "report": ["--html", work / "report.html"],
            "generate": ["--out", work / "out"],
            "verify": ["--only", "no-such-step", "--work", work / "verify"],
            "apply": ["--force", "--allow-dirty"],
            "revert": ["--force"],
        }
        return [command, self.tree, *extra.get(command, [])]

    def attack(self, candle_rocm: CommandLine, commands: tuple[str, ...] = COMMANDS) -> list[str]:
        """What goes wrong when these commands are run on the tree, one after the other; nothing should."""
        wrong = []
        before = appearance(self.tree)
        for command in commands:
            started, worked, grown = monotonic(), work(), peak()
            result = candle_rocm(*self.arguments(command))
            took, waited = work() - worked, monotonic() - started
            wrong += [f"{command}: outside: {trace}" for trace in self.canary.touched()]
            if result.code == BUG:
                wrong.append(f"{command}: exit code 70: {result.stderr[:300]}")
            if took > SECONDS or waited > WAIT:
                wrong.append(f"{command}: took {waited:.1f} s, of which it worked {took:.1f}")
            if peak() - grown > MEMORY:
                wrong.append(f"{command}: took {(peak() - grown) >> 10} MiB")
            if SECRET.decode().strip() in result.stdout + result.stderr:
                wrong.append(f"{command}: shows what is outside")
            if command in READING and appearance(self.tree) != before:
                wrong.append(f"{command}: wrote in the tree")
            before = appearance(self.tree)
            if wrong:
                break
        return wrong


def work() -> float:
    """Seconds that this process and the programs it started have worked."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def peak() -> int:
    """KiB that this process had at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def appearance(tree: Path) -> Appearance:
    """Everything in the tree with its inode, its size and the time of its last change; links are not followed."""
    found: Appearance = {}
    pending = [str(tree)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found[entry.path] = (status.st_ino, status.st_size, status.st_mtime_ns)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
    return found
