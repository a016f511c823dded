"""Debian's ROCm packages below `build/rocm/<version>/<part>/`, complete or not there at all.

compiler/      bin/clang, bin/lld (run as any user, see wrappers), root/usr/...
disassembler/  bin/llvm-objdump, likewise
headers/       root/usr/include/...
libraries/     packages/*.deb, for those that read symbols
blas/          likewise
tracing/       root/usr/lib/...

Each part has a packages.json: what it was made from. A part is fetched again when the table in packages.py changed.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from codegen import file_locks
from codegen.errors import InputOutputError, ToolchainMissing
from codegen.paths import build_folder
from codegen.rocm.apt import MIRROR_VARIABLE, PrivateApt, debian_mirror, unpack_deb
from codegen.rocm.packages import ANCHOR, Part
from codegen.rocm.wrappers import write_compiler, write_disassembler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from codegen.rocm.packages import RocmRelease

LAYOUT = 1
"""Changes whenever the same packages would be laid out in another way."""
MANIFEST = "packages.json"


@dataclass(frozen=True, slots=True)
class FetchedPart:
    """One part of one ROCm version on this machine."""

    release: RocmRelease
    part: Part
    folder: Path
    packages: tuple[str, ...]
    """`name_version_architecture` of each package, sorted."""

    @property
    def root(self) -> Path:
        """The folder that holds the packages' `usr/` (parts that are unpacked)."""
        return self.folder / "root"

    @property
    def debs(self) -> tuple[Path, ...]:
        """The packages themselves (parts that are not unpacked)."""
        return tuple(sorted((self.folder / "packages").glob("*.deb")))

    @property
    def digest(self) -> str:
        """Names the exact packages."""
        return sha256("\n".join(self.packages).encode()).hexdigest()


def default_folder() -> Path:
    """`build/rocm` of the repository, or where else `build_folder` is."""
    return build_folder() / "rocm"


def fetched(release: RocmRelease, part: Part, folder: Path | None = None) -> FetchedPart | None:
    """The part if it is below `folder` (default `default_folder()`), complete and as the table wants it."""
    place = _place(folder or default_folder(), release, part)
    try:
        manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        if manifest["wanted"] != _wanted(release, part):
            return None
        return FetchedPart(release, part, place, tuple(manifest["packages"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def fetch(
    release: RocmRelease,
    part: Part,
    folder: Path | None = None,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> FetchedPart:
    """The part, downloaded and unpacked if it was not there. Needs no root and changes nothing of the system.

    Raises:
        ToolchainMissing: no apt, no mirror, no network, or the mirror's Debian has another ROCm by now.
        InputOutputError: the folder cannot be written.
    """
    base = folder or default_folder()
    try:
        with _locked(base):
            there = fetched(release, part, base)
            return there or _fetch(release, part, base, progress)
    except OSError as cause:
        raise InputOutputError(
            f"fetching ROCm {release.version}: {cause.filename or base}: {cause.strerror or cause}",
            remedy="free disk space, or make the folder writable",
        ) from cause


def _fetch(release: RocmRelease, part: Part, base: Path, progress: Callable[[str], None]) -> FetchedPart:
    wanted = release.parts[part]
    apt = PrivateApt(base / "apt" / release.version, os.environ)
    progress(f"loading the package lists of Debian {', '.join(release.suites)}")
    apt.update(debian_mirror(os.environ), release.suites)
    suite = _suite(apt, release)
    with _staging(base) as staging:
        new = staging / "new"
        progress(f"downloading the {part} packages of ROCm {release.version} (Debian {suite})")
        debs = apt.download(
            suite, alone=wanted.alone, with_dependencies=wanted.with_dependencies, into=new / "packages"
        )
        if wanted.unpack:
            progress(f"unpacking {len(debs)} packages")
            for deb in debs:
                unpack_deb(deb, new / "root")
            shutil.rmtree(new / "packages")
        if part is Part.COMPILER:
            write_compiler(new, release.llvm)
        elif part is Part.DISASSEMBLER:
            write_disassembler(new, release.llvm)
        manifest = {"wanted": _wanted(release, part), "packages": [deb.stem for deb in debs]}
        (new / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        place = _place(base, release, part)
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            place.rename(staging / "replaced")
        new.rename(place)
    return FetchedPart(release, part, place, tuple(manifest["packages"]))


def _suite(apt: PrivateApt, release: RocmRelease) -> str:
    versions = apt.versions(ANCHOR)
    for suite, version in versions.items():
        if version.startswith(f"{release.version}."):
            return suite
    there = ", ".join(f"{version} in {suite}" for suite, version in versions.items()) or "none"
    raise ToolchainMissing(
        f"Debian {' and '.join(release.suites)} have no HIP {release.version} (any more): {ANCHOR} is {there}",
        remedy=f"correct the table codegen/rocm/packages.py, or set {MIRROR_VARIABLE} to a mirror that still has it",
    )


def _wanted(release: RocmRelease, part: Part) -> dict[str, object]:
    """What decides the content of a part, as JSON has it."""
    packages = release.parts[part]
    return {
        "layout": LAYOUT,
        "suites": list(release.suites),
        "alone": list(packages.alone),
        "with_dependencies": list(packages.with_dependencies),
    }


def _place(base: Path, release: RocmRelease, part: Part) -> Path:
    return base / release.version / part


@contextmanager
def _staging(base: Path) -> Iterator[Path]:
    """An empty folder on the same file system, gone after the block; what a killed process left goes with it."""
    folder = base / "staging"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(base: Path) -> Iterator[None]:
    """One process at a time fetches; a second one waits and then finds everything there."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as file:
        file_locks.wait_for(file.fileno())
        yield
