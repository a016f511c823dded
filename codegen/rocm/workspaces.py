"""The cargo workspaces that ship with candle-rocm: libraries with the ABI of ROCm's, and the planner of launches."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.paths import build_folder, is_checkout, repository_root

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Workspace:
    """A cargo workspace of this repository that makes libraries."""

    name: str
    """Its folder, and what `make` calls it."""
    title: str
    """What the libraries are, in messages."""
    multiplied: tuple[str, ...] = ()
    """Architectures that its rocBLAS has kernels for, in files as the real one has them; it looks for none if empty."""

    @property
    def sources(self) -> Path:
        """Its folder."""
        return repository_root() / self.name

    @property
    def target(self) -> Path:
        """Cargo's target folder: in a checkout the one that `make` uses, else one for these very sources.

        Cargo goes by the time of a file, and a wheel's files may have any.
        """
        own = self.name if is_checkout() else f"{self.name}-{_digest(self.sources)}"
        return build_folder() / own


EMULATED_DEVICE = Workspace("emulator", "the emulated HIP device", ("gfx1100", "gfx90a", "gfx942"))
HIP_ON_NVIDIA = Workspace("nvidia", "HIP on NVIDIA")
PLANNER = Workspace("planner", "the planner of launches")


def _digest(folder: Path) -> str:
    """Names the content of a folder."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.blake2b(path.read_bytes()).digest())
    return digest.hexdigest()
