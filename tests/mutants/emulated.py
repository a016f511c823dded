"""The emulated libraries: their own unit tests, and tests/emulator through Python, as judges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.paths import repository_root
from codegen.verify.scratch import ScratchTree, tree_files
from mutants.building import Built, Compilation, Program, Switchboard, compile_with_cargo
from mutants.files import MUTATED, digest_of, linked
from mutants.mutant import listed
from mutants.python_tests import cases_of, run_either
from mutants.switches import plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mutants.mutant import Mutant
    from mutants.trial import Ended

CRATES = ("amdhip64", "rocblas", "runtime")
FIRST_MODULE = re.compile(rb"^(?:pub )?mod \w+;$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Emulated:
    """The sources of the emulated libraries in a folder of their own, to be compiled with mutants."""

    scratch: ScratchTree
    work: Path
    state: str
    say: Callable[[str], None]

    @classmethod
    def here(cls, work: Path, say: Callable[[str], None]) -> Emulated:
        """As this repository has them."""
        files = {
            f"{folder}/{path}": (repository_root() / folder / path).read_bytes()
            for folder in ("emulator", "tests/emulator", "codegen/device")
            for path in tree_files(repository_root() / folder)
            if not path.endswith(".pyc")
        }
        state = f"emulator-{digest_of(files, MUTATED.read_text('utf-8'))}"
        return cls(ScratchTree(work / "emulator", work / "emulator-target"), work / state, state, say)

    @property
    def sources(self) -> dict[str, bytes]:
        """The files that are mutated."""
        root = repository_root() / "emulator"
        return {path: (root / path).read_bytes() for path in tree_files(root) if path.split("/")[0] in CRATES}

    @property
    def environment(self) -> dict[str, str]:
        """What tests run with."""
        return {"CANDLE_ROCM_HIP": str(self.work / "libraries")}

    def folder_of(self, program: Program) -> Path:
        """Where cargo or pytest would run it."""
        crate = program.name.split("/", maxsplit=1)[0]
        return repository_root() if crate == "pytest" else self.scratch.root / crate

    def mutants(self, cargo_mutants: Path) -> tuple[Mutant, ...]:
        """All that there are."""
        plain = ScratchTree(self.scratch.root.with_name("emulator-plain"), self.scratch.target_dir)
        with plain.exclusive(self.say):
            plain.sync(repository_root() / "emulator")
            return listed(plain.root, cargo_mutants, [f"{crate}/src/**" for crate in CRATES])

    def build(self, mutants: Sequence[Mutant]) -> Built:
        """The libraries and programs with all mutants in them that can be switched on."""
        originals = {path: text for path, text in self.sources.items() if path.endswith(".rs")}
        for crate in CRATES:
            root = f"{crate}/src/lib.rs"
            # On a line that is there, so that no mutant moves to another.
            originals[root] = FIRST_MODULE.sub(rb"mod mutated; \g<0>", originals[root], count=1)
        modules = tuple(f"{crate}/src/mutated.rs" for crate in CRATES)

        def write(texts: Mapping[str, bytes]) -> None:
            self.scratch.sync(repository_root() / "emulator", texts)

        board = Switchboard(write, "crate::mutated::mutated", modules, MUTATED.read_text("utf-8"))
        with self.scratch.exclusive(self.say):
            return board.build(mutants, originals, self._compiled)

    def plain(self, mutant: Mutant) -> Compilation:
        """The libraries and programs with this one mutant, made in its place."""
        changed = plainly(self.sources[mutant.file], mutant)
        with self.scratch.exclusive(self.say):
            self.scratch.sync(repository_root() / "emulator", {mutant.file: changed})
            return self._compiled()

    def cases(self, programs: Sequence[Program], environment: Mapping[str, str]) -> list[tuple[Program, str]]:
        """The unit tests, and each file of Python tests. Raises BaselineFailed if none of these reaches a mutant."""
        return cases_of(programs, environment, self.work / "asked", self.say)

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
        """Run tests of a program of Rust's, or a file of Python tests until one fails."""
        return run_either(program, tests, environment, cwd=cwd, timeout=timeout, to_the_end=to_the_end)

    def _compiled(self) -> Compilation:
        root, target = self.scratch.root, str(self.scratch.target_dir.resolve())
        packages = [word for crate in CRATES for word in ("--package", f"candle-rocm-emulator-{crate}")]
        for arguments in (("build",), ("test", "--no-run", *packages)):
            done = compile_with_cargo(root, (*arguments, "--release"), {"CARGO_TARGET_DIR": target})
            self.say("compiled" if done.ok else f"{len(done.errors)} errors, of mutants that do not compile")
            if not done.ok:
                return done
        for library in sorted((self.scratch.target_dir / "release").glob("lib*.so")):
            linked(library, self.work / "libraries" / library.name)
        files = sorted((repository_root() / "tests" / "emulator").glob("test_*.py"))
        python = tuple(Program(f"pytest/{file.stem}", str(file)) for file in files)
        return Compilation(done.ok, (*done.programs, *python), done.errors, done.output)
