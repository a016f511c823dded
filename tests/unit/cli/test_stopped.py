"""Commands that are ended from outside: a reader that goes away, Ctrl-C, a job that is cancelled, a closed terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from made_up import tree_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from in_process import CommandLine

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALLED = """
import os, sys
from codegen.__main__ import main
from codegen.record.disk import Disk

left, number = int(sys.argv[1]), int(sys.argv[2])
plain = Disk.step

def step(self, verb, path):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), number)
    plain(self, verb, path)

Disk.step = step
sys.argv[1:] = sys.argv[3:]
main()
"""
"""`candle-rocm` that gets a signal before its n-th change of the disk."""
AT_ITS_START = """
import os, sys
from codegen.__main__ import main

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "codegen.cli.main":
            os.kill(os.getpid(), int(number))

number = sys.argv.pop(1)
sys.meta_path.insert(0, Finder())
main()
"""
STUBBORN = """
import os, sys
import signal, subprocess, time
if sys.argv[1] in ("--version", "-V", "-vV"):
    print("cargo 1.90.0")
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open({pids!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({pids!r} + ".new", {pids!r})
time.sleep(60)
"""
"""A cargo that does not end when it is asked to."""


def hear() -> None:
    """Between fork and exec: as in a terminal, also where these tests run in the background or under nohup."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A Python program with `codegen` in it, in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, preexec_fn=hear)


# --- readers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["scan", "--help"],
        ["scan", "{candle}"],
        ["scan", "{candle}", "--json"],
        ["diff", "{candle}"],
        ["status", "{candle}"],
        ["check", "{candle}"],
        ["explain", "{candle}", "candle-core/src/device.rs:1"],
        ["kernels", "list"],
        ["versions"],
        ["doctor"],
        ["spec", "lint"],
    ],
    ids=" ".join,
)
def test_a_reader_that_is_gone(candle_rocm: CommandLine, candle: Path, arguments: Sequence[str]) -> None:
    """`candle-rocm ... | head -1`: no traceback, and not exit code 1, which means something."""
    words = [word.format(candle=candle) for word in arguments]
    notes = candle_rocm(*words).stderr
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "codegen", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY)
    os.close(writing)

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, notes)


def test_an_apply_whose_reader_is_gone_has_applied(candle_rocm: CommandLine, candle: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "codegen", "apply", str(candle)]
    done = subprocess.run(command, stdout=writing, stderr=writing, text=True, check=False, cwd=REPOSITORY)
    os.close(writing)

    assert done.returncode in (0, 128 + signal.SIGPIPE)
    candle_rocm.ok("check", candle)


@pytest.mark.parametrize("place", ["full disk", "no reader"])
def test_messages_that_nobody_takes_change_no_exit_code(candle_rocm: CommandLine, candle: Path, place: str) -> None:
    said = candle_rocm("revert", candle)
    reading, writing = os.pipe()
    os.close(reading)
    nowhere = os.open("/dev/full", os.O_WRONLY) if place == "full disk" else writing
    command = [sys.executable, "-m", "codegen", "revert", str(candle)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=nowhere, check=False, cwd=REPOSITORY)
    os.close(writing)

    assert said.code == 5
    assert (done.returncode, done.stdout) == (said.code, b"")


def test_a_disk_that_is_full_for_both_streams(candle_rocm: CommandLine, candle: Path) -> None:
    candle_rocm.ok("apply", candle)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "codegen", "check", str(candle)]
        done = subprocess.run(command, stdout=full, stderr=full, check=False, cwd=REPOSITORY)

    assert done.returncode == 6, "not 1, which would say that the tree is not as apply leaves it"


# --- signals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize(("command", "steps"), [("apply", 300), ("revert", 40)])
def test_stopped_in_the_midst_of_changes(
    candle_rocm: CommandLine, candle: Path, command: str, number: signal.Signals, steps: int
) -> None:
    """What was begun is taken back."""
    pristine = tree_hash(candle)
    if command == "revert":
        candle_rocm.ok("apply", candle)
    before = tree_hash(candle)

    done = run(SIGNALLED, steps, int(number), command, candle)

    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "interrupted\n")
    assert tree_hash(candle) == before
    candle_rocm.ok("status", candle)
    candle_rocm("revert", candle)
    assert tree_hash(candle) == pristine
    assert not (candle / ".candle-rocm").exists()


@pytest.mark.parametrize("number", ENDING)
def test_stopped_while_it_starts(number: signal.Signals) -> None:
    done = run(AT_ITS_START, int(number), "versions")

    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "interrupted\n")


def test_nohup_is_obeyed() -> None:
    ignoring = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    done = run(ignoring + AT_ITS_START, int(signal.SIGHUP), "--version")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 2), (signal.SIGTERM, 1), (signal.SIGHUP, 1)])
def test_verify_takes_what_it_started_with_it(
    candle_rocm: CommandLine, candle: Path, tmp_path: Path, number: signal.Signals, times: int
) -> None:
    """Also what does not end when asked, and when Ctrl-C comes again while it is asked."""
    pids, folder = tmp_path / "pids", tmp_path / "bin"
    folder.mkdir()
    (folder / "cargo").write_text(f"#!{sys.executable}\n{STUBBORN.format(pids=str(pids))}")
    (folder / "cargo").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    words = ["verify", candle, "--only", "check-on", "--work", tmp_path / "work"]
    command = [sys.executable, "-m", "codegen", *map(str, words)]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear,
    ) as process:
        while process.poll() is None and not pids.exists():
            time.sleep(0.05)
        assert pids.exists(), process.communicate()[1]
        for _ in range(times):
            os.killpg(process.pid, number)
            time.sleep(0.3)
        said = process.communicate(timeout=60)[1]

    assert process.returncode == 128 + number
    assert said.splitlines()[-1] == "interrupted"
    assert "Traceback" not in said
    assert [pid for pid in pids.read_text().split() if runs(pid)] == []


def runs(pid: str) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
