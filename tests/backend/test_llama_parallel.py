"""llama on several GPUs, as a program of a patched Candle: in threads, processes and machines, and with ranks that end.

FAULTS=200 tries so many faults, starting at FAULT_SEED=0.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from typing import TYPE_CHECKING

import pytest
from machines import FIRST_ADDRESS, two_machines
from some import some

from backend.conftest import Probe, Program
from codegen.verify.steps import FEATURE, OPTIONAL

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

DEVICES = "gfx1100,gfx90a,gfx942,gfx1100,gfx90a,gfx942,gfx1100,gfx90a"
TEXT = ("--prompt", "1,17,300,42,5", "--tokens", "12")
RANKS = 4
LIMIT = 2.0
"""Seconds that ranks wait for each other where one is to fail."""
MARGIN = 10.0
"""Seconds beyond that in which a busy machine starts and ends processes."""


@pytest.fixture(scope="module")
def llama(work: Path, emulator: dict[str, str]) -> Probe:
    """The program, on the newest release."""
    return Program("candle-nn", "rocm_llama_parallel", (), (FEATURE, *OPTIONAL)).built(work, emulator)


@pytest.fixture(scope="module")
def expected(llama: Probe) -> str:
    """What one GPU says."""
    (line,) = llama.lines(*TEXT, CANDLE_ROCM_EMULATOR_DEVICES="gfx1100")
    assert len(set(line.split())) > 6, "a model that repeats itself shows little"
    return line


def free_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("how", ["threads", "processes", "layers"])
def test_parts_say_what_one_gpu_says(llama: Probe, expected: str, ranks: int, how: str) -> None:
    words = {
        "threads": ("--ranks", ranks, "--threads"),
        "processes": ("--ranks", ranks, "--hub", free_address()),
        "layers": ("--spread", ranks),
    }[how]
    assert llama.lines(*TEXT, *words, CANDLE_ROCM_EMULATOR_DEVICES=DEVICES) == [expected]


def test_ranks_may_be_on_two_machines(llama: Probe, expected: str, weights: tuple[str, ...]) -> None:
    with two_machines() as machines:
        ranks = [
            llama.start(
                *TEXT,
                *weights,
                *("--ranks", 2, "--rank", rank, "--gpu", 0, "--hub", f"{FIRST_ADDRESS}:29500"),
                before=before,
                CANDLE_ROCM_EMULATOR_DEVICES="gfx1100",
            )
            for rank, before in enumerate(machines)
        ]
        ended = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], ended
    assert [out for out, _ in ended] == [f"{expected}\n", ""]


@pytest.fixture(scope="module")
def weights(llama: Probe, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Those that the program makes up, so that it need not do so again."""
    folder = tmp_path_factory.mktemp("weights")
    llama.lines(*TEXT, CANDLE_ROCM_EMULATOR_DEVICES="gfx1100", TMPDIR=str(folder))
    (file,) = folder.glob("*.safetensors")
    return "--weights", str(file), "--heads", "16"


def test_a_process_that_fails_ends_the_others(llama: Probe) -> None:
    began = time.monotonic()
    done = llama("--ranks", 2, "--hub", free_address(), CANDLE_ROCM_EMULATOR_DEVICES="gfx1100")
    assert done.returncode == 1
    assert "ROCm device 1 not found" in done.stderr
    assert time.monotonic() - began < MARGIN


FAULTS = int(os.environ.get("FAULTS", "12"))
FAULT_SEED = int(os.environ.get("FAULT_SEED", "0"))


@pytest.mark.parametrize("seed", range(FAULT_SEED, FAULT_SEED + FAULTS))
def test_every_other_rank_ends_with_an_error_that_names_the_call(
    llama: Probe, weights: tuple[str, ...], seed: int
) -> None:
    """A rank is killed or stopped at a random moment, or has another count."""
    draw = random.Random(seed)
    kind = draw.choice(["killed", "stopped", "another count"])
    victim = draw.randrange(RANKS)
    hub = free_address()

    def started(rank: int) -> subprocess.Popen[str]:
        count = "1,17" if kind == "another count" and rank == victim else "1,17,300,42,5"
        return llama.start(
            *weights,
            *("--prompt", count, "--tokens", 200, "--ranks", RANKS, "--rank", rank, "--hub", hub, "--patience", 2),
            CANDLE_ROCM_EMULATOR_DEVICES=DEVICES,
            CANDLE_ROCM_RCCL_TIMEOUT=str(LIMIT),
            CANDLE_ROCM_EMULATOR_RCCL_HANGS=str(draw.randrange(2)),
        )

    ranks = [started(rank) for rank in range(RANKS)]
    try:
        time.sleep(draw.uniform(0.3, 1.5))
        if kind != "another count":
            ranks[victim].send_signal(signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        others = [rank for rank in range(RANKS) if kind == "another count" or rank != victim]
        outcomes = {}
        for rank in others:
            out, errors = ranks[rank].communicate(timeout=LIMIT + MARGIN)
            outcomes[rank] = (ranks[rank].returncode, out, errors)
        for rank, (code, _, errors) in some(outcomes.items()):
            assert code == 1, (seed, kind, victim, outcomes)
            # A rank that fails before there is a communicator is missed where the id is handed out.
            said = (f" of rank {rank} of {RANKS} failed: ", f"rank {rank} of {RANKS}: {hub}: ")
            assert any(text in errors for text in said), (seed, kind, victim, outcomes)
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
