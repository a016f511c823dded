"""rocBLAS as Debian packages it, for the modelled GPU: its library, and its kernels for the cards that are modelled."""

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
"""The folder of its kernels: files named for a card, and lists of those that all cards have."""


def rocblas_folders() -> tuple[Path, ...]:
    """The folders of rocBLAS and of what it loads besides HIP; none if the packages were not fetched.

    The first call unpacks it, a third of a GB.

    Raises:
        ToolchainMissing: the package is broken.
    """
    blas, tracing = fetched(NEWEST, Part.BLAS), fetched(NEWEST, Part.TRACING)
    if blas is None or tracing is None:
        return ()
    if not blas.root.is_dir():
        _unpack_all(blas)
    return blas.root / LIBRARIES, tracing.root / LIBRARIES


def _unpack_all(blas: FetchedPart) -> None:
    with TemporaryDirectory(dir=blas.folder, ignore_cleanup_errors=True) as staging:
        new = Path(staging, "root")
        new.mkdir()
        for package in blas.debs:
            _unpack(package, new)
        # Another process may have done the same meanwhile.
        with suppress(OSError):
            new.rename(blas.root)


def _unpack(package: Path, folder: Path) -> None:
    """What the modelled cards need of a package; the kernels of all cards are three times as much."""
    chosen = [f"./{LIBRARIES}/lib*", f"{KERNELS}*_fallback.dat", *(f"{KERNELS}*{card}*" for card in CARDS)]
    take: list[str | Path] = ["tar", "-x", "-C", folder, "--wildcards", *chosen]
    with (
        programs.start(["dpkg-deb", "--fsys-tarfile", package], stdout=programs.PIPE) as files,
        programs.start(take, stdin=files.stdout or programs.NOTHING) as taking,
    ):
        pass
    if taking.returncode or files.returncode:
        raise ToolchainMissing(f"{package} could not be unpacked", remedy="remove it and run `make rocm-toolchain`")
