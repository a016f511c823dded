"""Real Candle releases, patched and built: minutes per release, and the crate registry is needed once.

RELEASES="0.9.1 0.11.1" in the environment narrows the run, and has everything done for the releases that it names.
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
    """The releases of specs/candle.yaml, or those that RELEASES names."""
    return NAMED or [release.version for release in load_specs().candle.releases]


def corners() -> list[str]:
    """The releases that are built and tested in every way: the oldest and the newest, or those that RELEASES names.

    Between them a release is scanned, patched and taken back, and its default build is linted.
    """
    return NAMED or [releases()[0], releases()[-1]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "release" in metafunc.fixturenames:
        metafunc.parametrize("release", releases(), scope="module")
    if "corner" in metafunc.fixturenames:
        metafunc.parametrize("corner", corners(), scope="module")


@pytest.fixture(scope="session")
def newest() -> str:
    """The newest release that specs/candle.yaml lists."""
    return load_specs().candle.releases[-1].version


@pytest.fixture(scope="session")
def work() -> Path:
    """Scratch trees, logs and cargo's target folder, kept between runs."""
    return work_folder("verify")
