"""Programs outside of the patched workspace: built as docs/use-in-your-program.md says, run on the emulated device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from codegen.rocm.workspaces import EMULATED_DEVICE
from codegen.spec.kinds import Runtime
from codegen.verify.hip_libraries import prepare_libraries
from releases.command_line import PROGRAM
from releases.programs import OWN, cargo, patched_candle, using, with_patch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

SHARES = ["sums: [1.000, 1.000, 1.000]", r"\[0\.", r"\[0\.", r"\[0\.", "as on the CPU"]
VARIABLES: Mapping[Runtime, Mapping[str, str]] = {Runtime.DYNAMIC: {}, Runtime.ROCM_RS: {"SKIP_BINDGEN": "1"}}
"""What has to be set when a program is built."""


PUBLISHED = (("candle-einops", "=0.2.0", "0.11.1"), ("candle-optimisers", "=0.10.2", "0.10.2"))
"""Crates that nobody of this project wrote, and the release that each is built with."""


@pytest.fixture(scope="module")
def emulator(work: Path) -> dict[str, str]:
    """The variables that `candle-rocm emulator` prints."""
    return prepare_libraries(EMULATED_DEVICE, variables=os.environ, log=work / "logs" / "emulator.log")


@pytest.fixture(scope="module", params=list(Runtime), ids=str)
def runtime(request: pytest.FixtureRequest) -> Runtime:
    found: Runtime = request.param
    return found


@pytest.fixture(scope="module")
def program(work: Path, newest: str, runtime: Runtime) -> Path:
    """Our own program in a folder of its own, tied to a patched Candle."""
    candle = patched_candle(work / "programs" / f"candle-{newest}-{runtime}", newest, "--runtime", runtime)
    folder = work / "programs" / f"own-{runtime}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(OWN, folder)
    with_patch(folder, candle)
    return folder


def test_our_program_builds_without_rocm_and_computes_on_the_device(
    program: Path, runtime: Runtime, work: Path, emulator: dict[str, str]
) -> None:
    """One binary where there is no ROCm, and where there is; linked, it is built once for each."""
    target, build = work / "target", VARIABLES[runtime]

    without = cargo(program, target, "run", "--features", "rocm", variables=build)
    assert without.output.splitlines()[0] == "device: cpu"
    assert without.output.splitlines()[-1] == "as on the CPU"
    assert without.use.idle

    on_it = cargo(program, target, "run", "--features", "rocm", variables={**build, **emulator})
    first, *others = on_it.output.splitlines()
    assert first == "device: Rocm { gpu_id: 0 }"
    assert all(
        re.match(re.escape(want) if "sums" in want else want, line) for want, line in zip(SHARES, others, strict=True)
    )
    assert on_it.use.launches > 0
    assert any("softmax" in name for name in on_it.use.kernels)


def test_linked_the_program_says_what_to_set(work: Path, newest: str, emulator: dict[str, str]) -> None:
    candle = patched_candle(work / "programs" / f"candle-{newest}-rocm-rs", newest, "--runtime", "rocm-rs")
    folder = work / "programs" / "own-unset"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(OWN, folder)
    with_patch(folder, candle)
    environment = {name: value for name, value in os.environ.items() if name != "SKIP_BINDGEN"}

    done = subprocess.run(
        # rocm-rs's own build script fails too, and cargo runs the two in any order.
        ["cargo", "check", "--features", "rocm", "--keep-going"],
        cwd=folder,
        env={**environment, "CARGO_TARGET_DIR": str(work / "target")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if "SKIP_BINDGEN=1" in line]
    assert line.strip().startswith(
        "set SKIP_BINDGEN=1 in the environment, or in [env] of your project's .cargo/config.toml"
    )


@pytest.mark.skipif("RELEASES" in os.environ, reason="builds two more Candles: not in the share that RELEASES leaves")
@pytest.mark.parametrize(("name", "version", "candle_release"), PUBLISHED, ids=lambda word: str(word).lstrip("="))
def test_published_crates_compute_on_the_device(
    name: str, version: str, candle_release: str, work: Path, emulator: dict[str, str]
) -> None:
    runtime = Runtime.DYNAMIC
    suffix = f"{candle_release}-{runtime}"
    candle = patched_candle(work / "programs" / f"candle-{suffix}", candle_release, "--runtime", runtime)
    folder = work / "programs" / f"uses-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    using(folder, name, version, candle_release)
    with_patch(folder, candle)

    done = cargo(folder, work / "target", "run", "--features", "rocm", variables=emulator)

    assert done.output.splitlines() == ["rocm: true", "as on the CPU"]
    assert done.use.launches > 0


def test_the_command_runs_a_program_on_the_device(program: Path, runtime: Runtime, work: Path) -> None:
    """As README says: `candle-rocm emulator cargo run --features rocm`."""
    done = subprocess.run(
        [PROGRAM, "emulator", "cargo", "run", "--features", "rocm"],
        cwd=program,
        env={**os.environ, "CARGO_TARGET_DIR": str(work / "target"), **VARIABLES[runtime]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "device: Rocm { gpu_id: 0 }"
