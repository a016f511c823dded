"""The probe program, built in a patched Candle against the emulated device, once for each runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from work_folder import work_folder

from codegen.candle.tree import open_tree
from codegen.plan.build import plan_tree
from codegen.rocm.workspaces import EMULATED_DEVICE
from codegen.spec.kinds import DEFAULT_RUNTIME, Runtime
from codegen.spec.loader import load_specs
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.device_use import RECORD, DeviceUse, read_use
from codegen.verify.hip_libraries import LIBRARY_PATH, prepare_libraries
from codegen.verify.scratch import ScratchTree
from codegen.verify.steps import FEATURE

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE_LINE = {"RUST_BACKTRACE": "0"}
"""With which an error says in one line what is wrong, unless a test wants more."""
PROBE_SOURCES = tuple(sorted(Path(__file__).parent.glob("probe/*.rs")))


class Probe:
    """Runs the program of tests/backend/probe."""

    def __init__(self, program: Path, environment: dict[str, str]) -> None:
        self._program = program
        self._environment = environment
        self.ran_on: set[str] = set()
        """What the libraries of its runs said that they are; tests/file_results.py clears it."""

    def __call__(self, *words: str | int, **variables: str) -> subprocess.CompletedProcess[str]:
        """What it says, and how it ends; `variables` are set for this run."""
        command = [str(self._program), *map(str, words)]
        with TemporaryDirectory() as record:
            environment = {**os.environ, **ONE_LINE, **self._environment, RECORD: record, **variables}
            done = self._run(command, environment)
            with suppress(ValueError):  # it ended while it wrote
                self.ran_on |= _said(read_use(Path(record)))
        return done

    def start(self, *words: str | int, before: Sequence[str] = (), **variables: str) -> subprocess.Popen[str]:
        """The program, which goes on; `before` is a command that runs the rest of its command line."""
        command = [*before, str(self._program), *map(str, words)]
        environment = {**os.environ, **ONE_LINE, **self._environment, **variables}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def lines(self, *words: str | int, **variables: str) -> list[str]:
        """What it prints; it has to end well."""
        return _lines(self(*words, **variables))

    def counts(self) -> dict[str, dict[str, int]]:
        """Calls by function of each operation, as a release build makes them, which does not report indices."""
        found = {}
        for line in self.lines("counts", CANDLE_ROCM_CHECK_INDICES="0"):
            words = line.split(" ")
            calls = dict(word.split("=") for word in words if "=" in word)
            name = " ".join(word for word in words if "=" not in word).strip()
            found[name] = {function: int(number) for function, number in calls.items()}
        return found

    def lines_without_libraries(self, *words: str) -> list[str]:
        """What it prints where no ROCm library can be found."""
        return _lines(self._run([str(self._program), *words], _without_libraries()))

    def lines_with(self, loader: Path, libraries: Path, *words: str) -> list[str]:
        """What it prints with other libraries, and with the C library that they were made for."""
        command = [str(loader), "--library-path", str(libraries), str(self._program), *words]
        return _lines(self._run(command, _without_libraries()))

    @staticmethod
    def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def work() -> Path:
    """What is kept between runs; tests/releases has the same, and so the crates that Candle depends on."""
    return work_folder("newest")


@pytest.fixture(scope="session")
def emulator(work: Path) -> dict[str, str]:
    """The variables with which programs run on the emulated device."""
    return prepare_libraries(EMULATED_DEVICE, variables=os.environ, log=work / "logs" / "emulator.log")


@pytest.fixture(scope="session")
def probe(work: Path, emulator: dict[str, str]) -> Probe:
    """The program, on the newest release."""
    return Program("candle-nn", "backend_probe", PROBE_SOURCES).built(work, emulator)


@pytest.fixture(scope="session")
def linked_probe(work: Path, emulator: dict[str, str]) -> Probe:
    """The same, with libraries that are linked."""
    return Program("candle-nn", "backend_probe", PROBE_SOURCES).built(work, emulator, Runtime.ROCM_RS)


@dataclass(frozen=True, slots=True)
class Program:
    """An example to add to a patched crate."""

    crate: str
    name: str
    sources: tuple[Path, ...]
    features: tuple[str, ...] = (FEATURE,)

    def lay_out(self, scratch: ScratchTree, runtime: Runtime = DEFAULT_RUNTIME) -> None:
        """Puts the newest release, patched, and the program's sources into a tree; the caller has it for itself."""
        specs = load_specs()
        tree = open_tree(specs.candle.releases[-1].version)
        plan = plan_tree(tree, specs, runtime=runtime)
        overlay: dict[str, bytes | None] = {change.path: change.after for change in plan.changes}
        for source in self.sources:
            overlay[f"{self.crate}/examples/{self.name}/{source.name}"] = source.read_bytes()
        scratch.sync(tree.root, overlay)

    def built(self, work: Path, emulator: dict[str, str], runtime: Runtime = DEFAULT_RUNTIME) -> Probe:
        """The program, built against the newest release."""
        scratch = ScratchTree(work / "scratch" / "backend", work / "target")
        environment = cargo_environment(scratch.target_dir, **emulator)
        program = work / "scratch" / f"{self.name}-{runtime.value}"
        with scratch.exclusive():
            self.lay_out(scratch, runtime)
            build = ["build", "-p", self.crate, "--features", ",".join(self.features), "--example", self.name]
            run = run_cargo(scratch.root, build, log=work / "logs" / f"{program.name}.log", environment=environment)
            assert run.ok, run.complaint or run.errors
            shutil.copy(scratch.target_dir / "debug" / "examples" / self.name, program)
        return Probe(program, {**emulator, "CANDLE_ROCM_CACHE_DIR": str(work / "kernels")})


def _said(use: DeviceUse) -> set[str]:
    """What did the work, by name: `emulator (gfx1100)`; nothing where none was done."""
    first = {devices[0] for devices in use.devices if devices}
    return set() if use.idle else {f"{library} ({arch})" for library in use.libraries for arch in first}


def _without_libraries() -> dict[str, str]:
    """Our environment, but for what leads to ROCm's libraries."""
    kept = {name: value for name, value in os.environ.items() if name not in (LIBRARY_PATH, "ROCM_PATH")}
    return {**kept, **ONE_LINE}


def _lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.splitlines()
