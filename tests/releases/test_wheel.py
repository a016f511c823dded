"""candle-rocm as a wheel, in an empty environment outside of the clone: every command works there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash

from codegen.paths import default_cache, repository_root

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

OURS = ("CANDLE_ROCM_HOME", "CANDLE_ROCM_WORK", "PYTHONPATH")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the environment, the user's cache and the tree."""
    return tmp_path_factory.mktemp("installed")


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    """The command, installed from a wheel."""
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, repository_root()], check=True)
    (wheel,) = wheels.glob("candle_rocm-*.whl")
    venv.create(folder / "venv", with_pip=False)
    subprocess.run([*pip, "--python", folder / "venv" / "bin" / "python", "install", wheel], check=True)
    return folder / "venv" / "bin" / "candle-rocm"


@pytest.fixture(scope="module")
def installed(program: Path, folder: Path) -> Installed:
    return Installed(program, folder)


class Installed:
    """Runs the command in an empty folder, with a cache of its own that has the releases which ours has."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.cache = folder / "cache"
        self.cache.mkdir()
        for name in ("crates", "releases"):
            if (default_cache() / name).is_dir():
                (self.cache / name).symlink_to(default_cache() / name)

    def __call__(self, *arguments: str | Path) -> str:
        kept = {name: value for name, value in os.environ.items() if name not in OURS}
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env={**kept, "CANDLE_ROCM_FETCH_DIR": str(self.cache)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_generates_applies_checks_and_reverts(installed: Installed, newest: str) -> None:
    tree = installed.folder / "candle"
    installed("fetch", newest, "--to", tree)
    pristine = tree_hash(tree)

    assert "0 unknown" in installed("scan", tree)
    installed("generate", tree)
    assert (installed.folder / "generated" / newest / "report.json").is_file()
    installed("apply", tree)
    assert installed("check", tree) == "up to date\n"
    assert (tree / "candle-core/src/rocm_backend/hip/fill.hip").is_file() or any(tree.rglob("fill.hip"))
    installed("revert", tree)
    assert tree_hash(tree) == pristine


def test_other_commands_work_too(installed: Installed, newest: str) -> None:
    assert newest in installed("versions")
    assert "specs are valid" in installed("spec", "lint")
    installed("kernels", "list")
    installed("kernels", "render", "--to", installed.folder / "kernels")
    assert (installed.folder / "kernels" / "fill.hip").is_file()
    installed("report", newest, "--html", installed.folder / "report.html")
    installed("doctor")


def test_verifies_on_the_emulated_device_that_it_builds(installed: Installed, newest: str, work: Path) -> None:
    """With the work folder that other tests here have warm; the emulated device is built from what the wheel brings."""
    said = installed("verify", newest, "--target", "emulator", "--only", "rocm-basic", "--work", work)

    assert "rocm_basic tests on the device" in said
    (built,) = (installed.cache / "build").glob("emulator-*")
    assert (built / "release" / "libamdhip64.so").is_file()
    assert "emulator" in said


def test_writes_nothing_beside_itself(installed: Installed) -> None:
    """Last of the file: site-packages has what the wheel brought, and Python's own cache."""
    (shipped,) = installed.folder.glob("venv/lib/python*/site-packages/codegen/shipped")
    assert {path.name for path in shipped.iterdir()} == {
        ".clang-format",
        "emulator",
        "generated",
        "nvidia",
        "planner",
        "specs",
        "templates",
    }
    assert [path for path in shipped.rglob("*") if path.name in ("target", "build")] == []
