"""The action and the pre-commit hook of this repository, run on trees that are up to date and on others."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from in_process import REPOSITORY
from made_up import replace_in
from some import some

if TYPE_CHECKING:
    from in_process import CommandLine


def loaded(name: str) -> Any:
    return yaml.safe_load((REPOSITORY / name).read_text(encoding="utf-8"))


def step(title: str, **inputs: str) -> tuple[int, str]:
    """The exit code and the output of a step of the action, which GitHub runs with `bash -e`."""
    (found,) = [each for each in loaded("action.yml")["runs"]["steps"] if each["name"] == title]
    assert found["shell"] == "bash"
    given = {name: inputs.get(name.lower(), "") for name in found["env"]}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]],
        env={**os.environ, **given, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def patched(candle: Path, candle_rocm: CommandLine) -> Path:
    candle_rocm.ok("apply", candle)
    return candle


def test_the_action_passes_where_all_is_up_to_date_and_fails_where_a_file_was_edited(
    patched: Path, tmp_path: Path
) -> None:
    sarif = tmp_path / "sites.sarif"
    assert step("Look for undecided sites", candle=str(patched), sarif=str(sarif))[0] == 0
    assert '"version": "2.1.0"' in sarif.read_text(encoding="utf-8")
    assert step("Check that the tree is up to date", candle=str(patched)) == (0, "up to date\n")
    replace_in(patched / "candle-core/src/device.rs", "impl Device", "// mine\nimpl Device")
    code, said = step("Check that the tree is up to date", candle=str(patched))
    assert code == 1
    assert "candle-core/src/device.rs" in said


def test_the_action_fails_at_an_undecided_site_and_names_it(candle: Path, tmp_path: Path) -> None:
    source = candle / "candle-core/src/new_backend.rs"
    source.write_text("pub static CUDA_TABLE: [u8; 1] = [0];\n", encoding="utf-8")
    code, said = step("Look for undecided sites", candle=str(candle), sarif=str(tmp_path / "sites.sarif"))
    assert code == 4
    assert "file=candle-core/src/new_backend.rs" in said
    assert (tmp_path / "sites.sarif").stat().st_size > 0


def test_no_input_is_pasted_into_a_script() -> None:
    """Else whoever names a folder in a pull request runs commands: https://docs.github.com/actions/security-guides."""
    for each in some(loaded("action.yml")["runs"]["steps"]):
        assert "${{" not in each["run"]


def test_the_hook_runs_a_command_that_there_is(patched: Path) -> None:
    (hook,) = loaded(".pre-commit-hooks.yaml")
    program, *words = shlex.split(hook["entry"])
    assert program == "candle-rocm"
    done = subprocess.run([sys.executable, "-m", "codegen", *words], cwd=patched, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "up to date\n"), done.stderr
