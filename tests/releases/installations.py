"""ROCm laid out as AMD installs it, made of Debian's packages, to link programs to. None of it runs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codegen.rocm.fetch import fetched
from codegen.rocm.packages import RELEASES, Part
from codegen.rocm.wrappers import LIBRARIES

if TYPE_CHECKING:
    from pathlib import Path

LINKED_WITH_AN_OLDER_C_LIBRARY = "-Clink-arg=-Wl,--allow-shlib-undefined"
"""A flag of rustc: the packages want a newer C library than Debian stable's, which the linker would look for."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What `ROCM_PATH` would name."""

    folder: Path
    sonames: frozenset[str]
    """What programs that are linked to its libraries look for."""


def installed(version: str, folder: Path) -> Installation:
    """Unpack the libraries of a ROCm release into `folder`/lib.

    A test that asks for it is skipped where `make rocm-toolchain` has not run.
    """
    (release,) = (each for each in RELEASES if each.version == version)
    libraries = folder / "lib"
    libraries.mkdir(parents=True)
    for part in (Part.LIBRARIES, Part.BLAS):
        found = fetched(release, part)
        if found is None:
            pytest.skip("missing toolchain: `make rocm-toolchain` was not run")
        for package in found.debs:
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as files:
                # rocBLAS's kernels are gigabytes, and nothing links to them.
                chosen = ["--wildcards", f"./{LIBRARIES}/lib*.so*", "--no-wildcards-match-slash"]
                unpack = [
                    "tar",
                    "-x",
                    "-C",
                    str(libraries),
                    f"--strip-components={len(LIBRARIES.split('/')) + 1}",
                    *chosen,
                ]
                subprocess.run(unpack, stdin=files.stdout, check=True)
    sonames = {soname(file): file.name for file in libraries.glob("lib*.so*") if not file.is_symlink()}
    for name, file in sonames.items():
        (libraries / f"{name.partition('.so')[0]}.so").symlink_to(file)
    return Installation(folder, frozenset(sonames))


def soname(library: Path) -> str:
    """The name that a library gives itself."""
    return _dynamic(library, "SONAME")[0]


def needed(program: Path) -> list[str]:
    """The sonames of the libraries that it is linked to."""
    return _dynamic(program, "NEEDED")


def searched(program: Path) -> list[str]:
    """The folders in which it looks for them before the loader's own."""
    return [folder for folders in _dynamic(program, "RUNPATH") for folder in folders.split(":")]


def _dynamic(file: Path, tag: str) -> list[str]:
    done = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True)
    return [line.partition("[")[2].rstrip("]") for line in done.stdout.splitlines() if f"({tag})" in line]
