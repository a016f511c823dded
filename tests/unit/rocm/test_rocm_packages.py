"""The table of Debian's ROCm packages."""

from __future__ import annotations

import re

import pytest

from codegen.errors import UsageError
from codegen.rocm.packages import (
    BESIDE_MIOPEN,
    NEWEST,
    OLDEST,
    RELEASES,
    Part,
    RocmRelease,
    releases_with,
    rocm_release,
)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_each_release_has_every_part(release: RocmRelease) -> None:
    """But for the disassembler, as the newest reads all code, what models need, and RCCL, which Debian has twice."""
    lacking = set() if release is NEWEST else {Part.DISASSEMBLER, Part.TRACING, Part.PROVIDERS}
    if release.version == "6.4":
        lacking.add(Part.COLLECTIVES)
    assert set(release.parts) == set(Part) - lacking
    for packages in release.parts.values():
        names = packages.alone + packages.with_dependencies
        assert names
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name) for name in names if name != BESIDE_MIOPEN)


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_the_compiler_packages_are_of_one_llvm(release: RocmRelease) -> None:
    packages = release.parts[Part.COMPILER]
    llvm = {name for name in packages.alone + packages.with_dependencies if re.match("(lib)?(clang|lld|rocm)", name)}
    assert llvm
    assert all(re.search(rf"-?{release.llvm}(t64|-dev)?$", name) for name in llvm)


def test_which_releases_a_part_is_fetched_of() -> None:
    assert releases_with(Part.COMPILER) == (NEWEST, OLDEST)
    assert releases_with(Part.DISASSEMBLER) == (NEWEST,)
    assert releases_with(Part.HEADERS) == RELEASES


def test_versions_ascend_and_are_found_by_name() -> None:
    versions = [release.version for release in RELEASES]
    assert versions == sorted(versions)
    assert rocm_release(versions[-1]) is NEWEST


def test_an_unknown_version_lists_the_known() -> None:
    with pytest.raises(UsageError) as raised:
        rocm_release("4.0")
    assert all(release.version in raised.value.remedy for release in RELEASES)
