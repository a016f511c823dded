"""The planner of launches: its own unit tests, and the kernel tests through Python, as judges."""

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

LIBRARY = "libcandle_rocm_planner.so"
MUTATED_FOLDERS = {
    "planner/src/plan": "templates/candle/3-tensors/candle-core/src/rocm_backend/plan",
    "planner/src/nn_plan": "templates/candle/5-nn/candle-core/src/rocm_backend/nn_plan",
}
"""Where the plans lie in the crate that is compiled here, and where they come from."""
FOR_TESTS = "planner/src/plan/testing.rs"
ROOT = """\
[workspace]
resolver = "3"
members = ["planner"]

[workspace.package]
license = "MIT OR Apache-2.0"

[profile.release]
overflow-checks = true
"""
WITHOUT_A_ROOT = re.compile(r"^\[workspace\].*?(?=^\[package\])|^\[profile\.release\].*\Z", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Planned:
    """The planner's crate in a folder of its own with all of its sources in it, to be compiled with mutants."""

    scratch: ScratchTree
    work: Path
    state: str
    say: Callable[[str], None]

    @classmethod
    def here(cls, work: Path, say: Callable[[str], None]) -> Planned:
        """As this repository has it."""
        folders = ("tests/kernels", "codegen/device", "generated/kernels")
        judging = {
            f"{folder}/{path}": (repository_root() / folder / path).read_bytes()
            for folder in folders
            for path in tree_files(repository_root() / folder)
            if not path.endswith(".pyc")
        }
        state = f"planner-{digest_of({**judging, **crate_files()}, MUTATED.read_text('utf-8'))}"
        return cls(ScratchTree(work / "planner", work / "planner-target"), work / state, state, say)

    @property
    def sources(self) -> dict[str, bytes]:
        """The files that are mutated."""
        found = {path: text for path, text in crate_files().items() if path.startswith(tuple(MUTATED_FOLDERS))}
        return {path: text for path, text in found.items() if path != FOR_TESTS}

    @property
    def environment(self) -> dict[str, str]:
        """What tests run with."""
        return {"CANDLE_ROCM_PLANNER": str(self.work / LIBRARY)}

    def folder_of(self, program: Program) -> Path:
        """Where cargo or pytest would run it."""
        return repository_root() if program.name.startswith("pytest/") else self.scratch.root / "planner"

    def mutants(self, cargo_mutants: Path) -> tuple[Mutant, ...]:
        """All that there are."""
        plain = ScratchTree(self.scratch.root.with_name("planner-plain"), self.scratch.target_dir)
        with plain.exclusive(self.say):
            plain.sync(self._nothing(), crate_files())
            return listed(plain.root, cargo_mutants, [f"{folder}/**" for folder in MUTATED_FOLDERS], [FOR_TESTS])

    def build(self, mutants: Sequence[Mutant]) -> Built:
        """The library and its tests with all mutants in them that can be switched on."""
        root = "planner/src/lib.rs"
        # On a line that is there, so that no mutant moves to another.
        originals = {
            **self.sources,
            root: crate_files()[root].replace(b"mod recorder;", b"mod mutated; mod recorder;", 1),
        }

        def write(texts: Mapping[str, bytes]) -> None:
            self.scratch.sync(self._nothing(), {**crate_files(), **texts})

        board = Switchboard(write, "crate::mutated::mutated", ("planner/src/mutated.rs",), MUTATED.read_text("utf-8"))
        with self.scratch.exclusive(self.say):
            return board.build(mutants, originals, self._compiled)

    def plain(self, mutant: Mutant) -> Compilation:
        """The library and its tests with this one mutant, made in its place."""
        changed = plainly(self.sources[mutant.file], mutant)
        with self.scratch.exclusive(self.say):
            self.scratch.sync(self._nothing(), {**crate_files(), mutant.file: changed})
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
        """Run unit tests, or a file of kernel tests until one fails."""
        return run_either(program, tests, environment, cwd=cwd, timeout=timeout, to_the_end=to_the_end)

    def _nothing(self) -> Path:
        empty = self.work / "empty"
        empty.mkdir(parents=True, exist_ok=True)
        return empty

    def _compiled(self) -> Compilation:
        root, target = self.scratch.root, str(self.scratch.target_dir.resolve())
        for arguments in (("build",), ("test", "--no-run")):
            done = compile_with_cargo(root, (*arguments, "--release"), {"CARGO_TARGET_DIR": target})
            self.say("compiled" if done.ok else f"{len(done.errors)} errors, of mutants that do not compile")
            if not done.ok:
                return done
        linked(self.scratch.target_dir / "release" / LIBRARY, self.work / LIBRARY)
        files = sorted((repository_root() / "tests" / "kernels").glob("test_*.py"))
        python = tuple(Program(f"pytest/{file.stem}", str(file)) for file in files)
        return Compilation(done.ok, (*done.programs, *python), done.errors, done.output)


def crate_files() -> dict[str, bytes]:
    """The crate as a workspace in which every source lies below planner/src."""
    root = repository_root()
    files = {
        f"planner/src/{path}": (root / "planner/src" / path).read_bytes() for path in tree_files(root / "planner/src")
    }
    for own, theirs in MUTATED_FOLDERS.items():
        files |= {f"{own}/{path}": (root / theirs / path).read_bytes() for path in tree_files(root / theirs)}
    files["planner/src/kernel_table.rs"] = (root / "generated/kernels/table.rs").read_bytes()
    places = rb'#\[path = "[^"]*/(kernels/table\.rs|plan/mod\.rs|nn_plan/mod\.rs)"\]'
    here = {b"kernels/table.rs": b"kernel_table.rs"}
    files["planner/src/rocm_backend.rs"] = re.sub(
        places,
        lambda found: b'#[path = "%s"]' % here.get(found[1], found[1]),
        files["planner/src/rocm_backend.rs"],
    )
    files["planner/Cargo.toml"] = WITHOUT_A_ROOT.sub("", (root / "planner/Cargo.toml").read_text("utf-8")).encode()
    files["Cargo.lock"] = (root / "planner/Cargo.lock").read_bytes()
    files["Cargo.toml"] = ROOT.encode()
    return files
