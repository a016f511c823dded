"""The backend of the newest release: where it is laid out, how it is compiled, and which of its tests are run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.paths import repository_root
from codegen.verify.cargo import cargo_environment
from codegen.verify.hip_libraries import EMULATED_DEVICE, prepare_libraries
from codegen.verify.scratch import ScratchTree
from mutants.baseline import Baseline, Passing, measured
from mutants.building import Built, Compilation, Program, Switchboard, compile_with_cargo
from mutants.mutant import Mutant, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BACKEND = "candle-core/src/rocm_backend"
FILES = (f"{BACKEND}/**",)
PROVIDERS = tuple(f"{BACKEND}/{name}.rs" for name in ("miopen", "rocrand", "ops/by_miopen", "ops/by_rocrand"))
"""Behind features of their own, with which other code of the backend is not asked."""
MODULE = f"{BACKEND}/mutated.rs"
CRATES = ("candle-core", "candle-nn")
DEVICES = "gfx1100,gfx90a"
"""What the machine has: waves of 32 lanes and of 64."""
BUILD = (
    "test",
    "--no-run",
    *(word for crate in CRATES for word in ("--package", crate)),
    "--features",
    ",".join(f"{crate}/rocm" for crate in CRATES),
    "--lib",
)


@dataclass(frozen=True, slots=True)
class Bench:
    """A patched release, its mutants, and all that is needed to try them."""

    folder: Path
    """Of this state of everything that a result depends on."""
    tree: Path
    mutants: tuple[Mutant, ...]
    originals: Mapping[str, bytes]
    environment: Mapping[str, str]
    built: Built
    baseline: Baseline

    def folder_of(self, program: Program) -> Path:
        """Where cargo would run it: in its crate."""
        return self.tree / program.name.split("/", maxsplit=1)[0]


def laid_out(work: Path, release: str, cargo_mutants: Path, jobs: int, say: Callable[[str], None]) -> Bench:
    """Lay the release out, compile its mutants, and run the tests without one; or take all that from the last time."""
    from benchmarks.patched import patched

    emulator = prepare_libraries(
        EMULATED_DEVICE, repository_root(), variables=os.environ, log=work / "logs" / "emulator.log", on_message=say
    )
    _, subject = patched(release)
    template = (Path(__file__).parent / "mutated.rs").read_text("utf-8")
    state = _digest(release, template, subject.patched, Path(emulator["ROCM_PATH"]) / "lib")
    folder = work / state
    environment = {
        **emulator,
        "CANDLE_ROCM_CACHE_DIR": str(folder / "kernels"),
        "CANDLE_ROCM_EMULATOR_DEVICES": DEVICES,
    }
    scratch = ScratchTree(work / "tree", work / "target")
    with scratch.exclusive(say):
        files = {path: text for path, text in subject.patched.items() if path.startswith(BACKEND) and text is not None}
        if not (folder / "built.json").exists():
            scratch.sync(subject.root, subject.patched)
            mutants = listed(scratch.root, cargo_mutants, FILES)
            mutants = tuple(mutant for mutant in mutants if mutant.file not in PROVIDERS)
            _write_json(folder / "mutants.json", [asdict(mutant) for mutant in mutants])
            say(f"compiling {len(mutants)} mutants")
            _write_json(folder / "built.json", _built_document(_build(scratch, mutants, files, emulator, say), folder))
        mutants = tuple(
            Mutant(**{**entry, "start": tuple(entry["start"]), "end": tuple(entry["end"])})
            for entry in json.loads((folder / "mutants.json").read_text("utf-8"))
        )
        built = _read_built(json.loads((folder / "built.json").read_text("utf-8")))
        bench = Bench(folder, scratch.root, mutants, files, environment, built, Baseline((), ()))
        if not (folder / "baseline.json").exists():
            _write_json(folder / "baseline.json", _baseline_document(bench, jobs, say))
    document = json.loads((folder / "baseline.json").read_text("utf-8"))
    baseline = Baseline(tuple(Passing.read(each) for each in document["tests"]), tuple(document["waiting"]))
    return Bench(folder, scratch.root, mutants, files, environment, built, baseline)


def _build(
    scratch: ScratchTree,
    mutants: tuple[Mutant, ...],
    files: Mapping[str, bytes],
    emulator: Mapping[str, str],
    say: Callable[[str], None],
) -> Built:
    root = scratch.root
    mod = f"{BACKEND}/mod.rs"
    originals = {path: text for path, text in files.items() if path.endswith(".rs")}
    originals[mod] = originals[mod].replace(b"\nmod allocator;\n", b"\nmod allocator;\nmod mutated;\n", 1)
    shifted = _below(mutants, mod)
    assert not shifted, f"mutants below the module's declaration: {shifted}"
    targets = [
        word
        for crate in CRATES
        for path in sorted((root / crate / "tests").glob("*.rs"))
        if _on_the_device(path)
        for word in ("--test", path.stem)
    ]
    environment = cargo_environment(scratch.target_dir, **emulator)

    def compiled() -> Compilation:
        done = compile_with_cargo(root, (*BUILD, *targets), environment)
        say("compiled" if done.ok else f"{len(done.errors)} errors, of mutants that do not compile")
        return done

    template = (Path(__file__).parent / "mutated.rs").read_text("utf-8")
    switchboard = Switchboard(root, "crate::rocm_backend::mutated::mutated", MODULE, template)
    return switchboard.build(mutants, originals, compiled)


def _below(mutants: tuple[Mutant, ...], path: str) -> list[str]:
    return [mutant.name for mutant in mutants if mutant.file == path]


def _on_the_device(test: Path) -> bool:
    text = test.read_text("utf-8")
    return ("rocm" in text and 'feature = "rocm-' not in text) or "test_device!" in text


def _digest(release: str, template: str, overlay: Mapping[str, bytes | None], libraries: Path) -> str:
    """Of all that a result depends on."""
    digest = hashlib.sha256(f"{release}\n{template}\n{BUILD}\n{DEVICES}\n".encode())
    for path, content in sorted(overlay.items()):
        digest.update(f"{path} {hashlib.sha256(content or b'').hexdigest()}\n".encode())
    for library in sorted(libraries.glob("*.so")):
        digest.update(f"{library.name} {hashlib.sha256(library.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _built_document(built: Built, folder: Path) -> dict[str, object]:
    """For JSON; with links to the programs, which cargo may replace."""
    programs = {}
    (folder / "programs").mkdir(parents=True, exist_ok=True)
    for program in built.programs:
        link = folder / "programs" / program.name.replace("/", "-")
        link.unlink(missing_ok=True)
        os.link(program.path, link)
        programs[program.name] = str(link)
    return {
        "programs": programs,
        "inside": sorted(built.inside),
        "unviable": {str(number): why for number, why in built.unviable.items()},
        "unswitchable": {str(number): why for number, why in built.unswitchable.items()},
    }


def _read_built(document: Mapping[str, dict[str, str]]) -> Built:
    return Built(
        programs=tuple(Program(name, path) for name, path in document["programs"].items()),
        inside=frozenset(int(number) for number in document["inside"]),
        unviable={int(number): why for number, why in document["unviable"].items()},
        unswitchable={int(number): why for number, why in document["unswitchable"].items()},
    )


def _baseline_document(bench: Bench, jobs: int, say: Callable[[str], None]) -> dict[str, object]:
    baseline = measured(
        bench.built.programs,
        bench.environment,
        folder_of=bench.folder_of,
        records=bench.folder / "reached",
        jobs=jobs,
        on_message=say,
    )
    return {"tests": [test.document() for test in baseline.tests], "waiting": list(baseline.waiting)}


def _write_json(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
