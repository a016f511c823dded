"""What all tests share: hypothesis' settings, guards of the run, a made-up Candle and the command line."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import file_results
import limits
import pytest
import skips
import surroundings
from hypothesis import settings
from in_process import CommandLine, copy_of_home
from made_up import candle_tree
from surroundings import in_ci

if TYPE_CHECKING:
    from collections.abc import Iterator

# No deadline: the machines that run this are shared, and a slow example is no failure.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if in_ci() else "local")

# The registry on the loopback interface serves tests of the command line too, and made-up plans those in a browser.
sys.path += [str(Path(__file__).parent / "unit" / name) for name in ("candle", "report")]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers `--update-goldens`, for every folder of tests."""
    parser.addoption("--update-goldens", action="store_true", help="write what is made over the goldens (make regen)")


def pytest_configure(config: pytest.Config) -> None:
    """Registers what watches over a run."""
    for guard in (surroundings, limits, skips, file_results):
        config.pluginmanager.register(guard, guard.__name__)


@pytest.fixture(scope="session")
def update_goldens(pytestconfig: pytest.Config) -> bool:
    """True if the goldens are to be written instead of compared."""
    return bool(pytestconfig.getoption("--update-goldens"))


@pytest.fixture(scope="session", autouse=True)
def medium() -> Iterator[None]:
    """Nobody waits for the disk: no test takes the power away, and an apply asks 400 times whether all is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for parsed specs and plans that all tests of this process share: they are slow to make."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def candle_rocm(shared_cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line, without colours, with the shared cache, and with the specs of this repository."""
    monkeypatch.setenv("CANDLE_ROCM_FETCH_DIR", str(shared_cache))
    monkeypatch.delenv("CANDLE_ROCM_HOME", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    return CommandLine(capsys)


@pytest.fixture
def own_cache(tmp_path: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache instead of the shared one."""
    monkeypatch.setenv("CANDLE_ROCM_FETCH_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up tree, for reading only."""
    return candle_tree(tmp_path_factory.mktemp("pristine") / "candle")


@pytest.fixture
def candle(pristine: Path, tmp_path: Path) -> Path:
    """A copy of the made-up tree to write to."""
    return shutil.copytree(pristine, tmp_path / "candle")


@pytest.fixture
def home(tmp_path: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the specs and templates, in force, to be changed by the test."""
    return copy_of_home(tmp_path / "home", monkeypatch)
