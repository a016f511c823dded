"""AMD's libraries of their packages, unpacked for the modelled GPU."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from codegen.amdgpu import libraries
from codegen.amdgpu.topology import CARDS
from codegen.errors import ToolchainMissing
from codegen.rocm.fetch import FetchedPart
from codegen.rocm.packages import NEWEST, Part
from codegen.rocm.wrappers import LIBRARIES

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = f"{LIBRARIES}/rocblas/5/library"
FILES = (
    f"{LIBRARIES}/librocblas.so.5",
    f"{KERNELS}/Type_SS_fallback.dat",
    *(f"{KERNELS}/Type_SS_{card}.co" for card in (*CARDS, "gfx900")),
)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of rocBLAS's package, which `fetched` has found, as it has the other."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("missing program: dpkg-deb")
    tree, folder = tmp_path / "tree", tmp_path / "blas"
    for name in FILES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name, encoding="utf-8")
    (tree / "DEBIAN").mkdir()
    control = "Package: librocblas5\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@y.z>\nDescription: x\n"
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    (folder / "packages").mkdir(parents=True)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", tree, folder / "packages/x.deb"], check=True, capture_output=True
    )
    found = {part: FetchedPart(NEWEST, part, tmp_path / part, ("x",)) for part in (Part.BLAS, Part.TRACING)}
    monkeypatch.setattr(libraries, "fetched", lambda _release, part: found.get(part))
    return folder


def test_the_library_and_the_kernels_of_modelled_cards_are_unpacked(packages: Path, tmp_path: Path) -> None:
    folders = libraries.rocblas_folders()
    assert folders == (packages / "root" / LIBRARIES, tmp_path / "tracing/root" / LIBRARIES)
    unpacked = {str(path.relative_to(packages / "root")) for path in (packages / "root").rglob("*") if path.is_file()}
    assert unpacked == {name for name in FILES if "gfx900" not in name}
    assert sorted(path.name for path in packages.iterdir()) == ["packages", "root"]


def test_it_is_unpacked_once(packages: Path) -> None:
    libraries.rocblas_folders()
    shutil.rmtree(packages / "packages")
    assert libraries.rocblas_folders()


def test_a_broken_package_is_no_library(packages: Path) -> None:
    package = packages / "packages/x.deb"
    package.write_bytes(package.read_bytes()[:-100])
    with pytest.raises(ToolchainMissing, match="could not be unpacked"):
        libraries.rocblas_folders()
    assert not (packages / "root").exists()


def test_there_are_none_without_both_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        libraries,
        "fetched",
        lambda _release, part: FetchedPart(NEWEST, part, tmp_path, ("x",)) if part is Part.BLAS else None,
    )
    assert libraries.rocblas_folders() == ()


def test_of_the_others_what_providers_need_is_unpacked(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = (packages / "packages/x.deb").read_bytes()
    for name, there in (("libmiopen1_7.deb", package), ("libamdhip64-7_7.deb", b"no package")):
        (packages / "packages" / name).write_bytes(there)
    (packages / "packages/x.deb").unlink()
    others = FetchedPart(NEWEST, Part.PROVIDERS, packages.parent / "providers", ("x",))
    found = {Part.LIBRARIES: FetchedPart(NEWEST, Part.LIBRARIES, packages, ("x",)), Part.PROVIDERS: others}
    monkeypatch.setattr(libraries, "fetched", lambda _release, part: found.get(part))
    assert libraries.provider_folders() == (packages / "root" / LIBRARIES, others.root / LIBRARIES)
    assert (packages / "root" / FILES[0]).is_file()
    assert not (packages / "root" / KERNELS).exists()
    del found[Part.PROVIDERS]
    assert libraries.provider_folders() == ()
