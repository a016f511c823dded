"""What a program needs to find AMD's libraries when it runs on a modelled GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_machine import put

from codegen.amdgpu.runtime import ModelledRuntime
from codegen.errors import InputOutputError, ToolchainMissing
from codegen.verify import modelled as module
from codegen.verify.modelled import modelled


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelledRuntime:
    """AMD's runtime as its packages have it: no name without a version."""
    for name in ("librocblas.so.5.2", "librocblas.so.5", "notes.txt"):
        put(tmp_path, f"blas/{name}")
    loader = put(tmp_path, "loader")
    found = ModelledRuntime(loader, tmp_path / "hip", (tmp_path / "blas",), (), {"HSA_MODEL_LIB": "/model"})
    monkeypatch.setattr(module, "modelled_runtime", lambda _card: found)
    return found


def searched(folder: Path, *, linked: bool) -> list[str]:
    return modelled("gfx942", folder, linked=linked).variables["LD_LIBRARY_PATH"].split(os.pathsep)


def test_linked_programs_find_the_names_that_they_ask_for(runtime: ModelledRuntime, tmp_path: Path) -> None:
    for _ in range(2):  # the second time over the links of the first
        folders = searched(tmp_path / "work", linked=True)
    links = Path(folders[-1])
    assert folders[:-1] == runtime.library_path.split(os.pathsep)
    assert [link.name for link in links.iterdir()] == ["librocblas.so"]
    assert (links / "librocblas.so").resolve().parent == tmp_path / "blas"


@pytest.mark.usefixtures("runtime")
def test_a_relative_folder_is_found_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert modelled("gfx942", Path("work")).folder == tmp_path / "work"
    assert searched(Path("work"), linked=True)[-1] == str(tmp_path / "work/libraries")


def test_programs_that_open_libraries_need_no_links(runtime: ModelledRuntime, tmp_path: Path) -> None:
    assert searched(tmp_path / "work", linked=False) == runtime.library_path.split(os.pathsep)
    assert not (tmp_path / "work").exists()


def test_a_folder_that_cannot_be_made_is_an_error(runtime: ModelledRuntime, tmp_path: Path) -> None:
    assert runtime.rocblas
    with pytest.raises(InputOutputError, match="cannot link AMD's libraries"):
        modelled("gfx942", put(tmp_path, "file"), linked=True)


@pytest.mark.usefixtures("runtime")
def test_without_rocblas_there_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = ModelledRuntime(tmp_path / "loader", tmp_path, (), (), {})
    monkeypatch.setattr(module, "modelled_runtime", lambda _card: bare)
    with pytest.raises(ToolchainMissing, match="rocBLAS was not fetched"):
        modelled("gfx942", tmp_path)
