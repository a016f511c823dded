"""Real Candle releases, patched and built: minutes per release, and the crate registry is needed once.

All releases are scanned, patched and taken back, and their default build is linted; beyond that cover.txt says which
steps are run on which, so that no distinct text is left out. RELEASES="0.9.2 0.11.1" in the environment names the
releases to patch, to build and to take back; the last one is built in more ways, and others are planned only.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from work_folder import work_folder

from codegen.rocm.workspaces import EMULATED_DEVICE
from codegen.spec.kinds import Gating
from codegen.spec.loader import load_specs
from codegen.verify.hip_libraries import prepare_libraries
from releases.cover import NAMED, groups

if TYPE_CHECKING:
    from pathlib import Path


def releases() -> list[str]:
    """The releases of specs/candle.yaml, and those that RELEASES names."""
    tried = [release.version for release in load_specs().candle.releases]
    return [*tried, *(name for name in NAMED if name not in tried)]


def built() -> list[str]:
    """The releases that are compiled and linted: all, or those that RELEASES names."""
    return list(NAMED) or releases()


def compared() -> list[str]:
    """The releases whose matches rustc lists: all, or the last one that RELEASES names."""
    return list(NAMED[-1:]) or releases()


def ways() -> list[tuple[str, Gating]]:
    """The releases that are built, with each gating."""
    return [(each, gating) for each in built() for gating in Gating]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, versions in (("release", releases), ("built", built), ("compared", compared)):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, versions(), scope="module")
    if "way" in metafunc.fixturenames:
        found = ways()
        metafunc.parametrize("way", found, ids=["-".join(way) for way in found], scope="module")
    if "group" in metafunc.fixturenames:
        chosen = groups()
        metafunc.parametrize("group", chosen, ids=map(str, chosen), scope="module")


@pytest.fixture(scope="session")
def newest() -> str:
    """The newest release that specs/candle.yaml lists."""
    return load_specs().candle.releases[-1].version


@pytest.fixture(scope="session")
def work() -> Path:
    """Scratch trees, logs and cargo's target folder, kept between runs."""
    return work_folder("verify")


@pytest.fixture(scope="module")
def emulator(work: Path) -> dict[str, str]:
    """The variables that `candle-rocm emulator` prints."""
    return prepare_libraries(EMULATED_DEVICE, variables=os.environ, log=work / "logs" / "emulator.log")
