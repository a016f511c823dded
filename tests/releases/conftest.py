"""Real Candle releases, patched and built: minutes per release, and the crate registry is needed once.

All releases are scanned, patched and taken back, and their default build is linted; of the oldest and the newest the
tests are run, and the newest is built in every way. RELEASES="0.9.2 0.11.1" in the environment names the releases to
build and to test; the last one is built in every way.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from work_folder import work_folder

from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

NAMED = os.environ.get("RELEASES", "").split()


def releases() -> list[str]:
    """The releases of specs/candle.yaml, and those that RELEASES names."""
    tried = [release.version for release in load_specs().candle.releases]
    return [*tried, *(name for name in NAMED if name not in tried)]


def built() -> list[str]:
    """The releases that are compiled and linted: all, or those that RELEASES names."""
    return NAMED or releases()


def corners() -> list[str]:
    """The releases whose tests are run: the oldest and the newest, or those that RELEASES names."""
    return NAMED or [releases()[0], releases()[-1]]


def whole() -> list[str]:
    """The release that is built in every way: the newest, or the last that RELEASES names."""
    return built()[-1:]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, versions in (("release", releases), ("built", built), ("corner", corners), ("whole", whole)):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, versions(), scope="module")


@pytest.fixture(scope="session")
def newest() -> str:
    """The newest release that specs/candle.yaml lists."""
    return load_specs().candle.releases[-1].version


@pytest.fixture(scope="session")
def work() -> Path:
    """Scratch trees, logs and cargo's target folder, kept between runs."""
    return work_folder("verify")
