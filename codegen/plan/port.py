"""A port: what a crate that uses Candle's CUDA backend by name needs to be built for ROCm as well, and what nobody can
derive."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen.candle.port_manifest import port_manifest
from codegen.candle.program import dependencies, table_of
from codegen.candle.toml_text import decode
from codegen.patch.attributed_text import edited
from codegen.patch.changes import Edit, FileChange, Origin
from codegen.paths import repository_root
from codegen.plan.spellings import spellings
from codegen.syntax.edit import apply_edits
from codegen.syntax.modules import folder_of_modules
from codegen.syntax.port_build import guarded_build, names_nvcc
from codegen.syntax.port_file import BY_HAND, LEFT, MIRRORED, STUB, TAUGHT, Outcome, cuda_modules, modules_of, port_file
from codegen.syntax.port_names import Names
from codegen.syntax.port_twins import Twin, Twins
from codegen.syntax.rename import rename
from codegen.syntax.source import Source, names_backend_at_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codegen.candle.program import Program
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.parity import Parity
    from codegen.syntax.edit import TextEdit
    from codegen.syntax.port_file import Module

_DRIVER = "templates/candle/4-custom-ops/candle-core/src/rocm_backend/driver.rs"
_ORIGIN = Origin("port", "", 0)
_KERNELS = (".cu", ".cuh", ".ptx")
_GENERIC = re.compile(r"[A-Z][a-z]+|[A-Z0-9_]+|.{1,5}|kernels|device_ptr")
"""Names that a program's own items have as well."""
NO_RUST = "what it would become does not parse, so it takes a form that is not known"


@dataclass(frozen=True, slots=True)
class Use:
    """A place that uses Candle's CUDA side, and what becomes of it."""

    path: str
    line: int
    what: str
    outcome: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class PortPlan:
    """All uses of a program, and its files with what is made of them."""

    release: str
    uses: tuple[Use, ...]
    changes: tuple[FileChange, ...]
    alone: str = ""
    """A name that CUDA's and ROCm's code share, so that ROCm's is compiled where the feature `cuda` is off only."""
    default_cuda: bool = False
    """Whether the program turns CUDA on by default."""


@dataclass
class _Draft:
    """What is found while files are read, one after the other."""

    program: Program
    read_as: Mapping[str, str]
    names: Names
    alone: bool
    uses: list[Use] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)
    clash: str = ""
    sources: dict[str, Source] = field(default_factory=dict)
    twins: dict[str, Twin] = field(default_factory=dict)
    there: frozenset[str] = frozenset()
    """Every Rust file."""
    packages: dict[str, dict[str, str]] = field(default_factory=dict)
    """The kernels of each package."""

    def source(self, path: str) -> Source:
        if path not in self.sources:
            text = self.program.read(path)
            decode(text, path)
            self.sources[path] = Source.parse(path, text, spellings=self.read_as)
        return self.sources[path]

    def change(self, path: str, made: Iterable[TextEdit]) -> None:
        """Take note of the edits of a file."""
        source, before = self.source(path), self.program.read(path)
        edits = [Edit(path, source.original(e.start), source.original(e.end), e.text, _ORIGIN) for e in made]
        text = edited(before, sorted(edits, key=lambda edit: (edit.start, edit.end)))
        self.changes.append(FileChange(path, before, text.text.encode(), text.regions))

    def twins_of(self, path: str) -> Twins:
        return Twins.of(self.source(path), self.names, self.kernels(path), alone=self.alone)

    def package_of(self, path: str) -> str:
        """The folder of the package that a file belongs to; `.` for the root's."""
        folders = {str(PurePosixPath(each).parent) for each in self.program.manifests}
        return next((str(each) for each in PurePosixPath(path).parents if str(each) in folders), ".")

    def kernels(self, path: str) -> dict[str, str]:
        """The kernels of a file's package, by name, as paths in it of what is to be their HIP source.

        None where two have one name, or the build script calls no nvcc.
        """
        package = self.package_of(path)
        if package not in self.packages:
            script = next((each for each in _scripts(self.program) if self.package_of(each) == package), None)
            found = [each for each in self.program.files((".cu",)) if self.package_of(each) == package]
            names = Counter(PurePosixPath(each).stem for each in found)
            is_sure = (
                script is not None
                and names_nvcc(self.source(script)) is not None
                and max(names.values(), default=2) == 1
            )
            self.packages[package] = (
                {
                    PurePosixPath(each).stem: str(PurePosixPath(each).relative_to(package).with_suffix(".hip"))
                    for each in found
                }
                if is_sure
                else {}
            )
        return self.packages[package]


def plan_port(program: Program, specs: LoadedSpecs, parity: Parity, release: str) -> PortPlan:
    """The port of a program for a release of Candle. Nothing is written.

    Raises `NotACandleTree` for a manifest that is no TOML or a Rust file that is not UTF-8, `Conflict` for a manifest
    in a form that is not edited, and `InputOutputError`.
    """
    names = _names(program, specs, parity, release)
    read_as = spellings(specs.candle)
    there = frozenset(program.rust_files())
    draft = _Draft(program, read_as, names, alone=False, there=there)
    _rust(draft)
    if draft.clash:
        draft = _Draft(program, read_as, names, alone=True, sources=draft.sources, clash=draft.clash, there=there)
        _rust(draft)
    default_cuda = _manifests(draft)
    _kernels(draft)
    uses = sorted(draft.uses, key=lambda each: (each.path, each.line))
    changes = sorted(draft.changes, key=lambda each: each.path)
    return PortPlan(release, tuple(uses), tuple(changes), draft.clash, default_cuda)


def _names(program: Program, specs: LoadedSpecs, parity: Parity, release: str) -> Names:
    core = "candle_core"
    above = program.manifest("Cargo.toml")
    for path in program.manifests:
        for each in dependencies(program.manifest(path), above):
            if each.package == "candle-core":
                core = each.key.replace("-", "_")
    lacking = {}
    for path, placed in parity.answers_in(release).items():
        name, answer = path.rpartition("::")[2], placed.answer
        known = {form.rpartition("::")[2] for form in answer.form}
        if rename(name) in known or _GENERIC.fullmatch(name) or name in ("builder_arg", "cudarc", "candle_flash_attn"):
            continue
        lacking[name] = str(answer.none or answer.missing or f"{', '.join(answer.form)} does the work: {answer.how}")
    exports = (repository_root() / _DRIVER).read_text(encoding="utf-8")
    enums = frozenset(enum.name for enum in specs.candle.enums)
    return Names(core, frozenset(re.findall(r"\w+", exports)), lacking, enums)


def _rust(draft: _Draft) -> None:
    """Every Rust file: those of modules for CUDA alone get a twin, in the others each place is decided."""
    scripts = set(_scripts(draft.program))
    files = [path for path in sorted(draft.there - scripts) if names_backend_at_all(draft.program.read(path))]
    modules = {
        path: [_found(draft, draft.source(path), each) for each in cuda_modules(draft.source(path))] for path in files
    }
    covered = {file for found in modules.values() for each in found for file in each.files}
    for path in files:
        if path in covered:
            continue
        source = draft.source(path)
        twin_files = {
            each.module.name: said for each in modules[path] if (said := _twin_of(draft, source, each)) is not None
        }
        port = port_file(draft.twins_of(path), twin_files)
        draft.clash = draft.clash or port.clash
        draft.uses += [_use(source, each) for each in port.outcomes]
        if port.edits and not _is_rust(source, apply_edits(source.text, port.edits)):
            draft.uses.append(Use(path, 1, "the file", BY_HAND, f"nothing is changed in it: {NO_RUST}"))
        elif port.edits:
            draft.change(path, port.edits)


@dataclass(frozen=True, slots=True)
class _Found:
    """A module that is there for CUDA alone."""

    module: Module
    files: tuple[str, ...]
    """Its own file first; none where that is not there, or where they name nothing of CUDA's."""
    is_plain: bool = False
    """Whether its files name nothing of CUDA's, so that they may serve both."""


def _is_rust(source: Source, made: str) -> bool:
    """Whether a text that was made of a file parses as well as the file."""
    return bool(source.error_ranges()) or not Source.parse(source.path, made.encode()).error_ranges()


def _use(source: Source, each: Outcome) -> Use:
    return Use(source.path, source.line_of(each.start), each.what, each.outcome, each.note)


def _found(draft: _Draft, source: Source, module: Module) -> _Found:
    files = _files_of(draft, source, module)
    if files and all(_whole(draft, path).text == draft.source(path).text.decode() for path in files):
        return _Found(module, (), is_plain=True)
    return _Found(module, tuple(files))


def _whole(draft: _Draft, path: str) -> Twin:
    if path not in draft.twins:
        draft.twins[path] = draft.twins_of(path).whole()
    return draft.twins[path]


def _twin_of(draft: _Draft, source: Source, found: _Found) -> str | None:
    """What `#[path]` says of the twin of a module: empty for nothing, and an error behind a `!`.

    None where the module's files name nothing of CUDA's.
    """
    module, files = found.module, found.files
    if not files:
        return None if found.is_plain else "!its file is not there"
    renamed = rename(module.name)
    here = PurePosixPath(source.path).parent
    if module.path is not None:
        if len(files) > 1:
            return "!its file is named by #[path], and declares modules of its own"
        file = PurePosixPath(files[0])
        stem = rename(file.stem) if rename(file.stem) != file.stem else f"{file.stem}_rocm"
        targets, said = {files[0]: str(file.with_stem(stem))}, str(file.with_stem(stem).relative_to(here))
    elif renamed != module.name:
        targets, said = {path: _renamed_path(path, files[0], module.name, renamed) for path in files}, ""
    else:
        targets, entry = _twin_folder(files, module.name)
        said = str(PurePosixPath(entry).relative_to(here))
    taken = [path for path in targets.values() if path in draft.there or path in targets]
    if taken:
        return f"!{taken[0]} is there already"
    for path in files:
        if not _is_rust(draft.source(path), _whole(draft, path).text):
            return f"!no twin is made of {path}: {NO_RUST}"
    for path, target in targets.items():
        text, twin = draft.source(path), _whole(draft, path)
        count = len(re.findall("cuda", text.text.decode(), re.IGNORECASE))
        draft.uses.append(
            Use(path, 1, f"a file for CUDA alone, which names it {count} times", MIRRORED, f"as {target}")
        )
        for left in twin.left:
            outcome = STUB if left.stub else BY_HAND
            draft.uses.append(Use(path, text.line_of(left.start), f"`{left.name}`", outcome, left.reason))
        draft.changes.append(FileChange(target, None, twin.text.encode()))
        if twin.taught:
            draft.uses += [_use(text, Outcome(e.start, "match", MIRRORED, TAUGHT)) for e in twin.taught]
            draft.change(path, twin.taught)
    return said


def _renamed_path(path: str, base: str, old: str, new: str) -> str:
    """Where the twin of a module's file is: beside it, under the renamed name."""
    parent = _around(base)
    below = PurePosixPath(path).relative_to(parent)
    first = new + below.parts[0].removeprefix(old)
    return str(parent.joinpath(first, *(rename(part) for part in below.parts[1:])))


def _around(base: str) -> PurePosixPath:
    """The folder in which a module is declared whose own file is `base`."""
    folder = PurePosixPath(base).parent
    return folder.parent if PurePosixPath(base).name == "mod.rs" else folder


def _twin_folder(files: tuple[str, ...], name: str) -> tuple[dict[str, str], str]:
    """The twins of a module whose name says nothing of CUDA, and which of them is the module."""
    base = files[0]
    parent = _around(base)
    if len(files) == 1 and PurePosixPath(base).name != "mod.rs":
        entry = str(parent / f"{name}_rocm.rs")
        return {base: entry}, entry
    entry = str(parent / f"{name}_rocm" / "mod.rs")
    targets = {base: entry}
    for path in files[1:]:
        below = PurePosixPath(path).relative_to(parent / name)
        targets[path] = str((parent / f"{name}_rocm").joinpath(*(rename(part) for part in below.parts)))
    return targets, entry


def _files_of(draft: _Draft, source: Source, module: Module) -> list[str]:
    """The file of a module and those of the modules in it, the module's own first; none where it is not there."""
    here = PurePosixPath(source.path)
    if module.path is not None:
        candidates = [here.parent / module.path]
    else:
        inside = folder_of_modules(here)
        candidates = [inside / f"{module.name}.rs", inside / module.name / "mod.rs"]
    found = next((str(path) for path in candidates if str(path) in draft.there), None)
    if found is None:
        return []
    files = [found]
    inner = draft.source(found)
    for each in modules_of(inner):
        files += _files_of(draft, inner, each)
    return files


def _manifests(draft: _Draft) -> bool:
    """The features of each package; whether one of them has CUDA on by default."""
    program, is_default = draft.program, False
    own = {
        str(table_of(manifest, "package").get("name"))
        for path in program.manifests
        if "package" in (manifest := program.manifest(path))
    }
    for path in program.manifests:
        before = program.read(path)
        made = port_manifest(before.decode(), path, program.manifest("Cargo.toml"), own)
        is_default = is_default or made.default_cuda
        draft.uses += [Use(path, each.line, each.what, each.outcome, each.note) for each in made.entries]
        if made.text != before.decode():
            draft.changes.append(FileChange(path, before, made.text.encode()))
    return is_default


def _kernels(draft: _Draft) -> None:
    """Sources for nvcc, and the build scripts that call it."""
    made = "".join(change.after.decode() for change in draft.changes if change.path.endswith(".rs"))
    there = frozenset(draft.program.files((".hip",)))
    for path in draft.program.files(_KERNELS):
        note = "compile it with hipcc, or give its source to get_or_load_custom_func as HIP"
        if path.endswith(".ptx"):
            note = "PTX is NVIDIA's: give the source that it came from as HIP"
        elif path.endswith(".cuh"):
            note = "goes with the sources that include it"
        elif f'"/{draft.kernels(path).get(PurePosixPath(path).stem, "?")}"' in made:
            target = str(PurePosixPath(path).with_suffix(".hip"))
            note = f"{target}, which the twin includes, is a copy: make HIP of it"
            if target not in there:
                draft.changes.append(FileChange(target, None, draft.program.read(path)))
        draft.uses.append(Use(path, 1, "kernels in CUDA C++", BY_HAND, note))
    for path in _scripts(draft.program):
        source = draft.source(path)
        line = names_nvcc(source)
        if line is None:
            continue
        edit = guarded_build(source)
        note = "it calls nvcc; what it builds for CUDA, build for ROCm with hipcc, or give as HIP source"
        if edit is None:
            draft.uses.append(Use(path, line, "a build script that calls nvcc", BY_HAND, note))
            continue
        draft.change(path, [edit])
        draft.uses.append(Use(path, line, "a build script that calls nvcc", BY_HAND, f"{note}; without `cuda` it ends"))


def _scripts(program: Program) -> Iterable[str]:
    there = frozenset(program.rust_files())
    for path in program.manifests:
        script = table_of(program.manifest(path), "package").get("build", "build.rs")
        found = str(PurePosixPath(path).parent / str(script))
        if found in there:
            yield found


__all__ = ["BY_HAND", "LEFT", "MIRRORED", "PortPlan", "Use", "plan_port"]
