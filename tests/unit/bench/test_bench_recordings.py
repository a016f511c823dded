"""`bench` as a person sees it: at 80 columns, interrupted, and through a pipe. The GPU is pretended."""

from __future__ import annotations

import os
from pathlib import Path

from recorder import on_a_terminal, through_a_pipe

TEXTS = Path(__file__).with_name("recordings")
PROGRAM = (str(Path(__file__).with_name("pretended_gpu.py")),)
WORDS = ("bench", "--only", "relu 2^27")


def test_bench_interrupted(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    """What was measured until then is shown."""
    variables = {**os.environ, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}

    first = on_a_terminal(WORDS, variables, interrupt=lambda frame: "step 2 of 3" in frame, program=PROGRAM)
    first.compare(TEXTS / "interrupted.txt", update=update_goldens)
    assert first.code == 130
    assert [line.split()[:3] for line in first.lines if line.startswith("relu")] == [["relu", "2^27", "f32"]]

    whole = on_a_terminal(WORDS, variables, program=PROGRAM)
    whole.compare(TEXTS / "whole.txt", update=update_goldens)
    assert whole.code == 0

    piped = through_a_pipe(WORDS, variables, program=PROGRAM)
    piped.compare(TEXTS / "through-a-pipe.txt", update=update_goldens)
