"""candle-rocm installed with pip, pipx and uv, on each Python from 3.11 on that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_up import tree_hash

from codegen.paths import default_cache, repository_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif("RELEASES" in os.environ, reason="one installation is tested in the share that RELEASES leaves"),
]

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
INSTALLERS = ("uv==0.13.9", "pipx==1.18.4")
OURS = ("CANDLE_ROCM_HOME", "CANDLE_ROCM_WORK", "PYTHONPATH")


def pythons() -> Iterator[Path]:
    """One interpreter of each supported version, on PATH or of pyenv; the one that runs this among them."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in SUPPORTED:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            yield Path(sys.executable)
            continue
        named = shutil.which(f"python{version}")
        for found in (*([Path(named)] if named else []), *sorted(kept.glob(f"{version}.*/bin/python"))):
            asked = subprocess.run([found, "-c", ""], capture_output=True, check=False)
            if asked.returncode == 0:  # a shim of pyenv is there for versions that are not chosen, too
                yield found
                break


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", folder, repository_root())
    (built,) = folder.glob("candle_rocm-*.whl")
    return built


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with pipx and uv."""
    folder = tmp_path_factory.mktemp("installers")
    venv.create(folder, with_pip=False)
    pip(Path(sys.executable), "--python", folder / "bin" / "python", "install", *INSTALLERS)
    return folder / "bin"


def pip(python: Path, *arguments: object) -> None:
    words = ["-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    subprocess.run([python, *words], check=True)


def install(tool: str, python: Path, wheel: Path, folder: Path, installers: Path) -> Path:
    """The command, as the tool installs it."""
    settings = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "PIPX_HOME": "home", "PIPX_BIN_DIR": "bin"}
    variables = {**os.environ, "PIPX_MAN_DIR": str(folder / "man"), "UV_PYTHON_DOWNLOADS": "never"}
    variables |= {name: str(folder / place) for name, place in settings.items()}
    index = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True)
    if index.returncode == 0:
        variables["UV_DEFAULT_INDEX"] = index.stdout.decode().strip()
    commands = {
        "pip": [[python, "-m", "venv", folder], [folder / "bin" / "python", "-m", "pip", "--quiet", "install", wheel]],
        "pipx": [[installers / "pipx", "install", "--python", python, wheel]],
        "uv": [[installers / "uv", "tool", "install", "--quiet", "--python", python, wheel]],
    }
    for command in commands[tool]:
        words = [str(word) for word in command]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin" / "candle-rocm"


@pytest.mark.parametrize("python", list(pythons()), ids=str)
@pytest.mark.parametrize("tool", ["pip", "pipx", "uv"])
def test_an_installed_command_works_in_any_folder(
    tool: str, python: Path, wheel: Path, installers: Path, newest: str, tmp_path: Path
) -> None:
    """Every warning is an error: what a later Python takes away, an earlier one warns of."""
    program = install(tool, python, wheel, tmp_path / "installed", installers)
    folder, cache = tmp_path / "elsewhere", tmp_path / "cache"
    tree = folder / "candle"
    for each in (folder, cache):
        each.mkdir()
    for name in ("crates", "releases"):
        if (default_cache() / name).is_dir():
            (cache / name).symlink_to(default_cache() / name)
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    variables = {**kept, "CANDLE_ROCM_FETCH_DIR": str(cache), "PYTHONWARNINGS": "error"}

    def run(*arguments: str) -> str:
        done = subprocess.run([program, *arguments], cwd=folder, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("fetch", newest, "--to", "candle")
    pristine = tree_hash(tree)
    assert "0 unknown" in run("scan", "candle")
    run("generate", "candle")
    assert (folder / "generated" / newest / "report.json").is_file()
    run("apply", "candle")
    assert run("check", "candle") == "up to date\n"
    assert tree_hash(tree) != pristine
    run("revert", "candle")
    assert tree_hash(tree) == pristine
    run("kernels", "list")
    run("doctor")


@pytest.mark.parametrize("version", SUPPORTED)
def test_what_it_depends_on_needs_no_compiler(version: str, wheel: Path, tmp_path: Path) -> None:
    """There are wheels for each supported Python, this machine's or not."""
    wanted = ["--only-binary=:all:", "--python-version", version, "--implementation", "cp"]
    pip(Path(sys.executable), "install", "--dry-run", "--target", tmp_path / "none", *wanted, wheel)
    assert not (tmp_path / "none").exists()
