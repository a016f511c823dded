"""Rendered HIP sources to code objects, one per family and architecture, below `build/kernels/`.

src/             the sources and headers as compiled; the compiler runs here, so its messages name relative paths
<arch>/          <family>.hsaco, <family>.origin for the backend's loader, and <family>.key: a hash of everything that
                 decides their content
pch/             <arch>.pch: HIP's own headers precompiled. Reading them takes clang longer than most families do.
"""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from codegen import own_folder, programs
from codegen.errors import InputOutputError, KernelRejected, Problem
from codegen.kernels.diagnostics import Diagnostic, read_diagnostics
from codegen.kernels.origin import ORIGIN, Origins
from codegen.paths import build_folder
from codegen.rocm.toolchain import HOW_TO_GET_ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from subprocess import CompletedProcess

    from codegen.kernels.render import Source, Sources
    from codegen.rocm.toolchain import Toolchain

OPTIONS = ("-O3", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-mcode-object-version=5")
"""What every compiler of kernels is told, whichever ROCm it is from. ROCm before 6.3 refuses code objects of a newer
version than 5."""
_REPRODUCIBLE = ("-fdebug-compilation-dir=.", "-fuse-cuid=none", "-fno-color-diagnostics")
_HIP = "hip/hip_runtime.h"


@dataclass(frozen=True, slots=True)
class CodeObject:
    """Machine code of one family's kernels for one architecture: an AMDGPU ELF file."""

    family: str
    architecture: str
    path: Path
    seconds: float
    """What compiling took; 0 if it was there already."""


def default_folder() -> Path:
    """`build/kernels` of the repository, or where else `build_folder` is."""
    return build_folder() / "kernels"


def compile_kernels(
    sources: Sources,
    architectures: Sequence[str],
    toolchain: Toolchain,
    folder: Path | None = None,
    *,
    jobs: int | None = None,
    options: Sequence[str] = (),
    progress: Callable[[CodeObject], None] = lambda _: None,
) -> tuple[CodeObject, ...]:
    """Code objects of every family for every architecture, in that order; only what changed is compiled.

    `jobs` compilers run at a time, by default one per processor. `options` are told to the compiler besides its usual
    ones. `progress` hears of each code object from any thread.

    Raises:
        KernelRejected: the compiler refuses sources; every error is listed once, at the spec's line that made it.
        InputOutputError: the compiler could not be started, or the folder cannot be written.
    """
    folder = (folder or default_folder()).resolve()
    if (objection := own_folder.objection(folder)) is not None:
        raise InputOutputError(
            f"{folder} {objection}",
            remedy="code objects from this folder are run: make sure that it is yours and that nobody else can write "
            "to it (chmod go-w), or choose another",
        )
    build = _Build(toolchain, folder, sources, Origins.with_headers_of(sources), tuple(options))
    try:
        build.write_sources()
        with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
            headers = {
                architecture: pool.submit(build.precompile, architecture)
                for architecture in architectures
                if build.worth_precompiling(architecture)
            }
            pending = [
                pool.submit(build.compile, source, architecture, headers.get(architecture), progress)
                for source in sources.families
                for architecture in architectures
            ]
        results = [future.result() for future in pending]
    except OSError as cause:
        raise InputOutputError(
            f"compiling kernels: {cause.filename or build.folder}: {cause.strerror or cause}",
            remedy=f"free disk space and make the folder writable; if the compiler is missing, {HOW_TO_GET_ONE}",
        ) from cause
    rejected = [result for result in results if isinstance(result, _Rejected)]
    if rejected:
        raise KernelRejected(_problems(rejected), remedy="correct the spec, or the template that the file names")
    return tuple(result for result in results if isinstance(result, CodeObject))


@dataclass(frozen=True, slots=True)
class _Rejected:
    architecture: str
    diagnostics: tuple[Diagnostic, ...]


def _problems(rejected: Iterable[_Rejected]) -> list[Problem]:
    """Each error once, with the architectures it is seen on."""
    seen: dict[tuple[str, object], tuple[Diagnostic, list[str]]] = {}
    for result in rejected:
        for diagnostic in result.diagnostics:
            _, where = seen.setdefault((diagnostic.text, diagnostic.location), (diagnostic, []))
            if result.architecture not in where:
                where.append(result.architecture)
    return [diagnostic.problem(where) for diagnostic, where in seen.values()]


@dataclass(frozen=True, slots=True)
class _Build:
    """One run's sources, compiler and folder."""

    toolchain: Toolchain
    folder: Path
    sources: Sources
    origins: Origins
    options: tuple[str, ...]

    def write_sources(self) -> None:
        """Write the sources that changed: a precompiled header and an editor's index go by a file's time."""
        for source in self.sources.all:
            path = self.folder / "src" / source.path
            with suppress(FileNotFoundError):
                if path.read_text(encoding="utf-8") == source.text:
                    continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.text, encoding="utf-8")

    def worth_precompiling(self, architecture: str) -> bool:
        """Whether several families will be compiled: making the precompiled header costs as much as it saves on one."""
        missing = [source for source in self.sources.families if not self._is_current(source, architecture)]
        return self.toolchain.precompiles_headers and len(missing) > 1

    def precompile(self, architecture: str) -> Path | None:
        """HIP's headers as clang reads them for the architecture, or None if it would not."""
        target = self.folder / "pch" / f"{architecture}.pch"
        key = self._key(architecture, {_HIP: ""})
        if _is_marked(key, target):
            return target
        empty = target.with_suffix(".hip")
        empty.parent.mkdir(parents=True, exist_ok=True)
        empty.write_text(f"#include <{_HIP}>\n", encoding="utf-8")
        made = _scratch(target)
        command = [*self._command(architecture), "-fsyntax-only", "-Xclang", "-emit-pch", "-Xclang", "-o", "-Xclang"]
        done = self._run([*command, str(made), str(empty)])
        if done.returncode != 0:
            return None  # the families say what is wrong with the headers, if it is more than this
        _install({target: made}, key)
        return target

    def compile(
        self,
        source: Source,
        architecture: str,
        header: Future[Path | None] | None,
        progress: Callable[[CodeObject], None],
    ) -> CodeObject | _Rejected:
        """The code object of one family for one architecture, or the compiler's complaints."""
        target, family = self._target(source, architecture), Path(source.path).stem
        if self._is_current(source, architecture):
            code = CodeObject(family, architecture, target, 0.0)
            progress(code)
            return code
        target.parent.mkdir(parents=True, exist_ok=True)
        precompiled = header.result() if header else None
        with_header = ["-Xclang", "-include-pch", "-Xclang", str(precompiled)] if precompiled else []
        made = _scratch(target)
        started = monotonic()
        done = self._run([*self._command(architecture), *with_header, source.path, "-o", str(made)])
        if done.returncode != 0:
            made.unlink(missing_ok=True)
            return _Rejected(architecture, read_diagnostics(programs.says(done) + programs.complains(done), source))
        origin = _scratch(target.with_suffix(ORIGIN))
        origin.write_text(self.origins.of(source, made), encoding="ascii")
        _install({target: made, target.with_suffix(ORIGIN): origin}, self._source_key(source, architecture))
        code = CodeObject(family, architecture, target, monotonic() - started)
        progress(code)
        return code

    def _command(self, architecture: str) -> list[str]:
        return [*self.toolchain.command(architecture), *OPTIONS, *_REPRODUCIBLE, *self.options, "-I."]

    def _run(self, command: list[str]) -> CompletedProcess[bytes]:
        try:
            return programs.run(command, cwd=self.folder / "src")
        except programs.TookTooLong as cause:
            raise programs.hangs(command[0], cause) from cause

    def _target(self, source: Source, architecture: str) -> Path:
        return self.folder / architecture / f"{Path(source.path).stem}.hsaco"

    def _is_current(self, source: Source, architecture: str) -> bool:
        target = self._target(source, architecture)
        return _is_marked(self._source_key(source, architecture), target, target.with_suffix(ORIGIN))

    def _source_key(self, source: Source, architecture: str) -> str:
        return self._key(architecture, {each.path: each.text for each in (*self.sources.headers, source)})

    def _key(self, architecture: str, texts: Mapping[str, str]) -> str:
        """A hash of the compiler, the command and the texts."""
        parts = [self.toolchain.identity, *self._command(architecture)]
        parts += [part for path, text in sorted(texts.items()) for part in (path, text)]
        return sha256("\0".join(parts).encode()).hexdigest()


def _scratch(target: Path) -> Path:
    return target.with_name(f".{secrets.token_hex(8)}-{target.name}")


def _is_marked(key: str, target: Path, *others: Path) -> bool:
    with suppress(OSError):
        marked = target.with_suffix(".key").read_text(encoding="ascii") == key
        return marked and all(path.exists() for path in (target, *others))
    return False


def _install(made: Mapping[Path, Path], key: str) -> None:
    """Put finished files in their places, targets to files; broken off anywhere, the first target's key is missing and
    they are made again."""
    mark = next(iter(made)).with_suffix(".key")
    mark.unlink(missing_ok=True)
    for target, finished in made.items():
        finished.replace(target)
    mark.write_text(key, encoding="ascii")
