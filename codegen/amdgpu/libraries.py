"""AMD's libraries as Debian packages them, for the modelled GPU.

Of rocBLAS, the library and its kernels for the cards that are modelled; of MIOpen and rocRAND, the libraries alone.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from codegen import programs
from codegen.amdgpu.topology import CARDS
from codegen.errors import ToolchainMissing
from codegen.rocm.fetch import fetched
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.wrappers import LIBRARIES

if TYPE_CHECKING:
    from codegen.rocm.fetch import FetchedPart

KERNELS = "*/library/"
"""The folder of rocBLAS's kernels: files named for a card, and lists of those that all cards have."""
LIBRARY = f"./{LIBRARIES}/lib*"
"""A package's libraries."""
PROVIDERS = ("libmiopen", "librocrand")
"""How the names of their packages begin."""


def rocblas_folders() -> tuple[Path, ...]:
    """The folders of rocBLAS and of what it loads besides HIP; none if the packages were not fetched.

    The first call unpacks it, a third of a GB.

    Raises:
        ToolchainMissing: the package is broken.
    """
    blas, tracing = fetched(NEWEST, Part.BLAS), fetched(NEWEST, Part.TRACING)
    if blas is None or tracing is None:
        return ()
    # The kernels of all cards are three times as much.
    kernels = (f"{KERNELS}*_fallback.dat", *(f"{KERNELS}*{card}*" for card in CARDS))
    _unpack_once(blas, files=(LIBRARY, *kernels))
    return blas.root / LIBRARIES, tracing.root / LIBRARIES


def provider_folders() -> tuple[Path, ...]:
    """The folders of MIOpen, of rocRAND and of what they load besides rocBLAS; none if the packages were not fetched.

    The first call unpacks them, half a GB.

    Raises:
        ToolchainMissing: a package is broken.
    """
    libraries, others = fetched(NEWEST, Part.LIBRARIES), fetched(NEWEST, Part.PROVIDERS)
    if libraries is None or others is None:
        return ()
    _unpack_once(libraries, PROVIDERS)
    return libraries.root / LIBRARIES, others.root / LIBRARIES


def _unpack_once(part: FetchedPart, packages: tuple[str, ...] = ("",), files: tuple[str, ...] = (LIBRARY,)) -> None:
    """Of the packages of a part whose names begin so, the files of these patterns."""
    if part.root.is_dir():
        return
    with TemporaryDirectory(dir=part.folder, ignore_cleanup_errors=True) as staging:
        new = Path(staging, "root")
        new.mkdir()
        for package in part.debs:
            if package.name.startswith(packages):
                _unpack(package, files, new)
        # Another process may have done the same meanwhile.
        with suppress(OSError):
            new.rename(part.root)


def _unpack(package: Path, files: tuple[str, ...], folder: Path) -> None:
    take: list[str | Path] = ["tar", "-x", "-C", folder, "--wildcards", *files]
    with (
        programs.start(["dpkg-deb", "--fsys-tarfile", package], stdout=programs.PIPE) as unpacked,
        programs.start(take, stdin=unpacked.stdout or programs.NOTHING) as taking,
    ):
        pass
    if taking.returncode or unpacked.returncode:
        raise ToolchainMissing(f"{package} could not be unpacked", remedy="remove it and run `make rocm-toolchain`")
