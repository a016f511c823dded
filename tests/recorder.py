"""What a command shows: on a terminal of 80 columns, as it goes and in the end, or through a pipe.

Recordings are kept as text; `pytest ... --update-goldens` makes them again.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyte
from in_process import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

COLUMNS, LINES = 80, 200
CANDLE_ROCM = ("-m", "codegen")
"""What Python is asked to run."""
PATIENCE = 120.0
_CHANGING = (
    (re.compile(r"\b\d+\.\d s\b|\b\d+ s\b|\b\d+ min \d\d s\b"), "N s"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:]+Z"), "TIME"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "COMMIT"),
)


@dataclass(frozen=True, slots=True)
class Recording:
    """A command's life."""

    code: int
    frames: tuple[str, ...]
    """What the last line on the terminal said while it worked, each text once; none through a pipe."""
    lines: tuple[str, ...]
    """What is left in the end."""

    def text(self, *hidden: tuple[str, str]) -> str:
        """As it is kept: with `hidden` texts replaced, and without what each run says otherwise.

        Of what it says while it works only what stands there for long enough to be drawn on any machine.
        """
        parts = [f"exit code {self.code}"]
        parts += [f"while it works: {frame}" for frame in self.frames if ": compiling" in frame]
        text = "\n".join([*parts, *self.lines])
        for text_, name in hidden:
            text = text.replace(text_, name)
        for pattern, name in _CHANGING:
            text = pattern.sub(name, text)
        return "\n".join(dict.fromkeys(text.split("\n"))) + "\n"

    def compare(self, file: Path, *hidden: tuple[str, str], update: bool) -> None:
        """Holds it against the one that is kept."""
        if self.frames:
            assert [line for line in (*self.frames, *self.lines) if len(line) > COLUMNS] == []
        text = self.text(*hidden)
        if update:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")


def on_a_terminal(
    words: Sequence[str],
    variables: Mapping[str, str],
    *,
    interrupt: Callable[[str], bool] = lambda _frame: False,
    program: Sequence[str] = CANDLE_ROCM,
) -> Recording:
    """A run of `candle-rocm` on a terminal; Ctrl-C is pressed when `interrupt` says so of the line at the bottom."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=REPOSITORY,
        env={**variables, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        # What starts the tests may ignore Ctrl-C, and its children would, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    frames: list[str] = []
    pressed = False
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 0.2)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            seen = os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
        stream.feed(seen)
        shown = [line.rstrip() for line in screen.display if line.strip()]
        bottom = shown[-1] if shown else ""
        frames.append(bottom)
        if not pressed and interrupt(bottom):
            pressed = True
            os.killpg(process.pid, signal.SIGINT)
    try:
        code = process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    under_way = dict.fromkeys(frame for frame in frames if frame and frame not in lines)
    return Recording(code, tuple(under_way), tuple(lines))


def through_a_pipe(
    words: Sequence[str], variables: Mapping[str, str], *, program: Sequence[str] = CANDLE_ROCM
) -> Recording:
    """A run whose both outputs go into one pipe."""
    done = subprocess.run(
        [sys.executable, *program, *words],
        cwd=REPOSITORY,
        env=dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Recording(done.returncode, (), tuple(done.stdout.splitlines()))
