"""Where specs and templates are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, UsageError
from codegen.paths import HOME_VARIABLE, repository_root, specs_dir, templates_dir

if TYPE_CHECKING:
    from pathlib import Path


def test_by_default_the_folder_that_the_package_lies_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    assert (repository_root() / "codegen" / "paths.py").is_file()
    assert specs_dir() == repository_root() / "specs"


def test_environment_names_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    assert repository_root() == tmp_path
    assert templates_dir() == tmp_path / "templates"


def test_folder_without_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    with pytest.raises(UsageError) as caught:
        repository_root()
    assert caught.value.exit_code is ExitCode.USAGE
    assert str(caught.value) == (
        f"usage error: {tmp_path} has no folder 'specs' (CANDLE_ROCM_HOME names it)\n"
        "  = help: set CANDLE_ROCM_HOME to a checkout of candle-rocm"
    )
