"""`verify` as a person sees it: recordings at 80 columns, through a pipe, interrupted, and gone on with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from fake_cargo import artifact, install
from made_up import MANIFESTS
from recorder import on_a_terminal, through_a_pipe

TEXTS = Path(__file__).with_name("recordings")
STEPS = ("--phase", "1", "--only", "check-off", "--only", "check-on", "--only", "clippy-on")
TOOLS = ("rustc", "rustfmt", "cargo-clippy")


@pytest.fixture
def variables(tmp_path: Path, shared_cache: Path) -> dict[str, str]:
    """The environment of a command, with a cargo that takes its time, and all of it where there is a file `stop`."""
    folder = tmp_path / "bin"
    made = [artifact(crate) for crate in MANIFESTS]
    install(
        folder,
        "cargo",
        f"import time\n"
        f"if sys.argv[1:2] in (['check'], ['clippy']):\n"
        f"    print('   Compiling candle-core v0.11.1', file=sys.stderr, flush=True)\n"
        f"    time.sleep(1.2)\n"
        f"    while os.path.exists({str(tmp_path / 'stop')!r}) and '--features' in sys.argv: time.sleep(0.1)\n"
        f"for line in {['cargo 1.0', *made]!r}: print(line)\n",
    )
    for name in TOOLS:
        install(folder, name, f"print('{name} 1.0')")
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
    return {
        **kept,
        "PATH": os.pathsep.join([str(folder), "/usr/bin", "/bin"]),
        "CANDLE_ROCM_FETCH_DIR": str(shared_cache),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
    }


def test_verify_interrupted_and_gone_on_with(
    candle: Path,
    tmp_path: Path,
    variables: dict[str, str],
    update_goldens: bool,  # noqa: FBT001 - a fixture
) -> None:
    """The first run passes a step and is interrupted in the second; the next one does not do the first again."""
    words = ("verify", str(candle), "--work", str(tmp_path / "work"), *STEPS)
    hidden = ((str(tmp_path), "DIR"), (sys.executable, "PYTHON"))
    (tmp_path / "stop").touch()

    first = on_a_terminal(words, variables, interrupt=lambda frame: "step 2 of 3" in frame and "compiling" in frame)
    first.compare(TEXTS / "interrupted.txt", *hidden, update=update_goldens)
    assert first.code == 130

    (tmp_path / "stop").unlink()
    second = on_a_terminal(words, variables)
    second.compare(TEXTS / "gone-on-with.txt", *hidden, update=update_goldens)
    assert any("step 1 of 3" in line and "in a run that was" in " ".join(second.lines) for line in second.lines)

    third = through_a_pipe((*words, "--fresh"), variables)
    third.compare(TEXTS / "through-a-pipe.txt", *hidden, update=update_goldens)
