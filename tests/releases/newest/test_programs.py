"""Programs outside of the patched workspace: built as docs/use-in-your-program.md says, run on the emulated device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.spec.kinds import Runtime
from codegen.verify.cargo import UNOPTIMISED
from releases.command_line import PROGRAM
from releases.cover import NAMED
from releases.installations import LINKED_WITH_AN_OLDER_C_LIBRARY, Installation, installed, needed, searched
from releases.programs import OWN, cargo, patched_candle, run, using, with_build_script, with_patch

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.cargo, pytest.mark.network]

SHARES = ["sums: [1.000, 1.000, 1.000]", r"\[0\.", r"\[0\.", r"\[0\.", "as on the CPU"]
VARIABLES: Mapping[Runtime, Mapping[str, str]] = {Runtime.DYNAMIC: {}, Runtime.ROCM_RS: {"SKIP_BINDGEN": "1"}}
"""What has to be set when a program is built."""


PUBLISHED = (
    ("candle-einops", "=0.2.0", "0.11.1"),
    ("candle-optimisers", "=0.10.2", "0.10.2"),
    ("moshi", "=0.6.4", "0.9.2"),
    ("peft-rs", "=1.2.0", "0.11.1"),
)
"""Crates that nobody of this project wrote, and the release that each is built with."""
EACH_PUBLISHED = pytest.mark.parametrize(
    ("name", "version", "candle_release"), PUBLISHED, ids=lambda word: str(word).lstrip("=")
)
FULL = pytest.mark.skipif(bool(NAMED), reason="builds more Candles: not in the share that RELEASES leaves")


EACH_RUNTIME = [pytest.param(Runtime.DYNAMIC), pytest.param(Runtime.ROCM_RS, marks=FULL)]


@pytest.fixture(scope="module", params=EACH_RUNTIME, ids=str)
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


def test_linked_the_program_finds_the_rocm_that_it_was_linked_to(
    work: Path, newest: str, emulator: dict[str, str]
) -> None:
    """With the build script of the docs; without it the loader is told at every start, or finds nothing."""
    candle = patched_candle(work / "programs" / f"candle-{newest}-rocm-rs", newest, "--runtime", "rocm-rs")
    build = {**VARIABLES[Runtime.ROCM_RS], "ROCM_PATH": emulator["ROCM_PATH"]}
    libraries = Path(emulator["ROCM_PATH"]) / "lib"
    folder, program = work / "programs" / "own-found", work / "target" / "debug" / "uses-candle"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(OWN, folder)
    with_patch(folder, candle)

    cargo(folder, work / "target", "build", "--features", "rocm", variables=build)
    assert searched(program) == []
    alone = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    lost = subprocess.run([program], cwd=folder, env=alone, capture_output=True, text=True, check=False)
    assert lost.returncode == 127
    assert "error while loading shared libraries: libamdhip64.so" in lost.stderr

    with_build_script(folder)
    cargo(folder, work / "target", "build", "--features", "rocm", variables=build)
    assert searched(program) == [str(libraries)]
    found = subprocess.run([program], cwd=folder, env=alone, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[0] == "device: Rocm { gpu_id: 0 }"


def published(name: str, version: str, candle_release: str, work: Path, runtime: Runtime) -> Path:
    """The folder of a program that uses a published crate, tied to a patched Candle."""
    suffix = f"{candle_release}-{runtime}"
    candle = patched_candle(work / "programs" / f"candle-{suffix}", candle_release, "--runtime", runtime)
    folder = work / "programs" / f"uses-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    using(folder, name, version, candle_release)
    with_patch(folder, candle)
    return folder


@FULL
@EACH_PUBLISHED
def test_published_crates_compute_on_the_device(
    name: str, version: str, candle_release: str, work: Path, emulator: dict[str, str]
) -> None:
    folder = published(name, version, candle_release, work, Runtime.DYNAMIC)

    done = cargo(folder, work / "target", "run", "--features", "rocm", variables=emulator)

    assert done.output.splitlines() == ["rocm: true", "as on the CPU"]
    assert done.use.launches > 0


@pytest.fixture(scope="module", params=["6.4", "7.2"])
def rocm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The libraries of a release of ROCm."""
    return installed(request.param, tmp_path_factory.mktemp("rocm"))


@FULL
@EACH_PUBLISHED
def test_published_crates_link_to_the_libraries_of_rocm(
    name: str,
    version: str,
    candle_release: str,
    rocm: Installation,
    work: Path,
    emulator: dict[str, str],
    tmp_path: Path,
) -> None:
    """With the linked runtime; what is linked then runs with emulated libraries in the place of AMD's."""
    folder = published(name, version, candle_release, work, Runtime.ROCM_RS)
    with_build_script(folder)
    build = {"ROCM_PATH": str(rocm.folder), "RUSTFLAGS": LINKED_WITH_AN_OLDER_C_LIBRARY}

    cargo(folder, work / "target", "build", "--features", "rocm", variables={**VARIABLES[Runtime.ROCM_RS], **build})
    program = work / "target" / "debug" / "uses-candle"
    assert searched(program) == [str(rocm.folder / "lib")]
    linked = rocm.sonames & set(needed(program))
    # The HIP runtime of ROCm 6 has hipRTC's functions, too, and then nothing is left to link to libhiprtc for.
    assert {each.partition(".so")[0] for each in linked} | {"libhiprtc"} == {"libamdhip64", "libhiprtc", "librocblas"}

    emulated = Path(emulator["ROCM_PATH"]) / "lib"
    for each in rocm.sonames:
        name = each.partition(".so")[0] + ".so"
        for link in (name, each):
            (tmp_path / link).symlink_to((emulated / name).resolve())
    libraries = {"LD_LIBRARY_PATH": str(tmp_path), "LD_PRELOAD": str(tmp_path / "libhiprtc.so")}
    done = run(str(program), folder=folder, variables={**emulator, **libraries})

    assert done.output.splitlines() == ["rocm: true", "as on the CPU"]
    assert done.use.launches > 0


def test_the_command_runs_a_program_on_the_device(program: Path, runtime: Runtime, work: Path) -> None:
    """As README says: `candle-rocm emulator cargo run --features rocm`."""
    done = subprocess.run(
        [PROGRAM, "emulator", "cargo", "run", *UNOPTIMISED, "--features", "rocm"],
        cwd=program,
        env={**os.environ, "CARGO_TARGET_DIR": str(work / "target"), **VARIABLES[runtime]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "device: Rocm { gpu_id: 0 }"
