"""`port` on published crates that use Candle's CUDA backend by name: what it writes passes `cargo check` as it is.

None of their text is kept here: they come from the registry when the test runs.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash

from codegen.candle.lock import FILE
from codegen.verify.cargo import UNOPTIMISED
from releases.command_line import candle_rocm
from releases.cover import FULL
from releases.programs import patched_candle, published_source

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network, FULL]


@dataclass(frozen=True, slots=True)
class Crate:
    """A published crate, and how it is built for ROCm."""

    name: str
    version: str
    candle: str
    options: tuple[str, ...] = ("--features", "rocm")
    stubs: tuple[str, ...] = ()
    """Functions that use what has no counterpart."""


CRATES = (
    Crate("mistralrs-paged-attn", "0.8.1", "0.10.2", stubs=("swap_blocks",)),
    Crate("candle-fused-attn", "0.4.0", "0.11.1", stubs=("function",)),
    Crate(
        "candle-mi",
        "0.2.2",
        "0.11.1",
        options=("--no-default-features", "--features", "rocm,transformer"),
        stubs=("kernel_present", "launch_adamw", "launch_ema"),
    ),
)


def cargo(folder: Path, target: Path, *arguments: str) -> None:
    variables = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run(["cargo", *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_the_mechanical_part_of_a_port_compiles(crate: Crate, work: Path) -> None:
    candle = patched_candle(work / "programs" / f"candle-{crate.candle}-ports", crate.candle)
    folder = work / "programs" / f"port-{crate.name}"
    published_source(folder, crate.name, crate.version, crate.candle, candle)
    lock = folder / FILE
    before, locked = tree_hash(folder), lock.read_bytes()

    written = candle_rocm("port", folder, "--write")

    assert written.code == 0, written.stderr
    said = written.stdout.splitlines()
    assert [line.split("`")[1] for line in said if " -> stub: " in line] == list(crate.stubs)
    assert candle_rocm("port", folder, "--check").stdout == "up to date\n"
    cargo(folder, work / "target", "check", *UNOPTIMISED, *crate.options)
    assert candle_rocm("port", folder, "--revert").code == 0
    lock.write_bytes(locked)
    assert tree_hash(folder) == before
