"""The backend of a release: where it is laid out, how it is compiled, and which of its tests are run."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.rocm.workspaces import EMULATED_DEVICE
from codegen.verify.cargo import cargo_environment
from codegen.verify.hip_libraries import prepare_libraries
from codegen.verify.scratch import ScratchTree, member_manifests
from codegen.verify.steps import FEATURE
from codegen.verify.steps import UG as UG_FEATURE
from mutants.baseline import names_of
from mutants.building import Built, Compilation, Program, Switchboard, compile_with_cargo
from mutants.files import MUTATED, digest_of, kept, write_json
from mutants.mutant import listed
from mutants.switches import plainly
from mutants.trial import run_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codegen.verify.patched_tree import Subject
    from mutants.mutant import Mutant
    from mutants.trial import Ended

BACKEND = "candle-core/src/rocm_backend"
UG = "candle-core/src/rocm_ug"
"""Kernels that the crate ug describes, in releases that have it."""
MOD = f"{BACKEND}/mod.rs"
MODULE = f"{BACKEND}/mutated.rs"
OPTIONAL = tuple(
    f"{BACKEND}/{name}.rs" for name in ("miopen", "rocrand", "ops/by_miopen", "ops/by_rocrand", "rccl", "rccl/*")
)
"""Behind features of their own, with which other code of the backend is not asked."""
CRATES = ("candle-core", "candle-nn")
DEVICES = "gfx1100,gfx90a"
"""What the machine has: waves of 32 lanes and of 64."""
BUILD = ("test", "--no-run", *(word for crate in CRATES for word in ("--package", crate)), "--lib")


@dataclass(frozen=True, slots=True)
class Backend:
    """A patched release in a folder of its own, to be compiled with mutants."""

    work: Path
    scratch: ScratchTree
    subject: Subject
    emulator: Mapping[str, str]
    """The variables with which it builds and runs on the emulated device."""
    state: str
    """A digest of all that a result depends on."""
    say: Callable[[str], None]

    @classmethod
    def of(cls, release: str, work: Path, say: Callable[[str], None]) -> Backend:
        """A release with all phases that it can have."""
        from benchmarks.patched import patched

        log = work / "logs" / "emulator.log"
        emulator = prepare_libraries(EMULATED_DEVICE, variables=os.environ, log=log, on_message=say)
        _, subject = patched(release)
        libraries = sorted((Path(emulator["ROCM_PATH"]) / "lib").glob("*.so"))
        files = {**subject.patched, **{library.name: library.read_bytes() for library in libraries}}
        state = digest_of(files, release, *BUILD, DEVICES, MUTATED.read_text("utf-8"))
        return cls(work, ScratchTree(work / "tree", work / "target"), subject, emulator, state, say)

    @property
    def sources(self) -> dict[str, bytes]:
        """The backend's files."""
        patched = self.subject.patched.items()
        return {path: text for path, text in patched if path.startswith((BACKEND, UG)) and text is not None}

    @property
    def features(self) -> tuple[str, ...]:
        """What the crates are built with."""
        manifests = member_manifests(self.subject.root, self.subject.patched)
        declared = manifests["candle-core"].get("features", {})
        found = {"candle-core": (FEATURE, *(name for name in (UG_FEATURE,) if name in declared))}
        return tuple(f"{crate}/{name}" for crate in CRATES for name in found.get(crate, (FEATURE,)))

    @property
    def environment(self) -> dict[str, str]:
        """What test programs run with."""
        return {**self.emulator, "CANDLE_ROCM_EMULATOR_DEVICES": DEVICES}

    def folder_of(self, program: Program) -> Path:
        """Where cargo would run it: in its crate."""
        return self.scratch.root / program.name.split("/", maxsplit=1)[0]

    def mutants(self, cargo_mutants: Path) -> tuple[Mutant, ...]:
        """All that there are, but for the providers'."""
        plain = ScratchTree(self.work / "plain", self.work / "plain-target")
        with plain.exclusive(self.say):
            plain.sync(self.subject.root, self.subject.patched)
            return listed(plain.root, cargo_mutants, [f"{BACKEND}/**", f"{UG}/**", f"{UG}.rs"], without=OPTIONAL)

    def build(self, mutants: Sequence[Mutant]) -> Built:
        """The programs with all mutants in them that can be switched on."""
        originals = {path: text for path, text in self.sources.items() if path.endswith(".rs")}
        declared = originals[MOD].replace(b"\nmod allocator;\n", b"\nmod allocator;\npub(crate) mod mutated;\n", 1)
        assert declared != originals[MOD], "mod.rs declares the module"
        assert not any(mutant.file == MOD for mutant in mutants), "nothing in mod.rs moves"

        def write(texts: Mapping[str, bytes]) -> None:
            self.scratch.sync(self.subject.root, {**self.subject.patched, **texts})

        # With the same sources the same mutants do not compile, however many tests are new.
        file = self.work / f"unviable-{digest_of({**originals, MOD: declared}, MUTATED.read_text('utf-8'))}.json"
        known = {int(number): why for number, why in kept(file, dict).items()}
        board = Switchboard(write, "crate::rocm_backend::mutated::mutated", (MODULE,), MUTATED.read_text("utf-8"))
        with self.scratch.exclusive(self.say):
            built = board.build(mutants, {**originals, MOD: declared}, self._compiled, known)
        write_json(file, {str(number): why for number, why in built.unviable.items()})
        return built

    def plain(self, mutant: Mutant) -> Compilation:
        """The programs with this one mutant, made in its place."""
        changed = plainly(self.sources[mutant.file], mutant)
        with self.scratch.exclusive(self.say):
            self.scratch.sync(self.subject.root, {**self.subject.patched, mutant.file: changed})
            return self._compiled()

    @staticmethod
    def cases(programs: Sequence[Program], environment: Mapping[str, str]) -> list[tuple[Program, str]]:
        """The tests on the device, and those of the backend's own code."""
        return [(p, name) for p in programs for name in names_of(p, environment) if _about_rocm(p, name)]

    @staticmethod
    def run(
        program: str,
        tests: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: Path,
        timeout: float,
        to_the_end: bool = False,
    ) -> Ended:
        """Run tests with no compiled kernels, as those that an earlier run has kept would be taken unseen.

        The emulated device keeps its own object code, so that this costs little.
        """
        with tempfile.TemporaryDirectory(prefix="candle-rocm-mutants-") as kernels:
            own = {**environment, "CANDLE_ROCM_CACHE_DIR": kernels}
            return run_tests(program, tests, own, cwd=cwd, timeout=timeout, to_the_end=to_the_end)

    def _compiled(self) -> Compilation:
        targets = [
            word
            for crate in CRATES
            for path in sorted((self.scratch.root / crate / "tests").glob("*.rs"))
            if _on_the_device(path)
            for word in ("--test", path.stem)
        ]
        environment = cargo_environment(self.scratch.target_dir, **self.emulator)
        arguments = (*BUILD, "--features", ",".join(self.features), *targets)
        done = compile_with_cargo(self.scratch.root, arguments, environment)
        self.say("compiled" if done.ok else f"{len(done.errors)} errors, of mutants that do not compile")
        return done


def _about_rocm(program: Program, test: str) -> bool:
    """Whether the test runs on the device, or is about the backend's own code."""
    target = program.name.split("/")[1]
    return target.startswith("rocm_") or "rocm" in test


def _on_the_device(test: Path) -> bool:
    text = test.read_text("utf-8")
    return ("rocm" in text and 'feature = "rocm-' not in text) or "test_device!" in text
