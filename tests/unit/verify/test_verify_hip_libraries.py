"""Libraries in place of ROCm's, built and laid out; cargo is a stand-in that makes files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from codegen.errors import VerificationFailed
from codegen.paths import HOME_VARIABLE, repository_root
from codegen.rocm.workspaces import EMULATED_DEVICE, HIP_ON_NVIDIA, Workspace
from codegen.verify.cargo import CargoRun
from codegen.verify.hip_libraries import prepare_libraries


class Cargo:
    """Makes libraries where cargo was told to, and remembers what it was asked."""

    def __init__(self, *libraries: str, code: int = 0) -> None:
        self.libraries = libraries
        self.code = code
        self.asked: tuple[str, ...] = ()

    def __call__(self, _root: Path, arguments: tuple[str, ...], **_more: Any) -> CargoRun:
        self.asked = arguments
        built = Path(arguments[arguments.index("--target-dir") + 1]) / "release"
        built.mkdir(parents=True, exist_ok=True)
        for name in self.libraries:
            (built / name).write_text("", encoding="ascii")
        return CargoRun(arguments, self.code, (), "", 1.0, Path("x.log"))


def prepared(
    repository: Path,
    cargo: Cargo,
    workspace: Workspace = EMULATED_DEVICE,
    needed: tuple[str, ...] = (),
    **variables: str,
) -> dict[str, str]:
    log = repository / f"{workspace.name}.log"
    (repository / "specs").mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(repository))
        return prepare_libraries(workspace, variables=variables, log=log, needed=needed, cargo=cargo)


@pytest.mark.parametrize("workspace", [EMULATED_DEVICE, HIP_ON_NVIDIA], ids=["emulator", "nvidia"])
def test_the_libraries_are_linked_as_a_rocm_installation_has_them(tmp_path: Path, workspace: Workspace) -> None:
    cargo = Cargo("libamdhip64.so", "librocblas.so", "libhiprtc.d")
    variables = prepared(tmp_path, cargo, workspace)
    folder = tmp_path / "build" / workspace.name / "rocm"
    assert variables == {"ROCM_PATH": str(folder), "LD_LIBRARY_PATH": str(folder / "lib")}
    kernels = [path.name for path in (folder / "lib/rocblas/library").glob("*")]
    assert sorted(kernels) == [f"TensileLibrary_lazy_{name}.dat" for name in workspace.multiplied]
    assert sorted(path.name for path in (folder / "lib").glob("*.so")) == ["libamdhip64.so", "librocblas.so"]
    built = tmp_path / "build" / workspace.name / "release/libamdhip64.so"
    assert (folder / "lib/libamdhip64.so").resolve() == built
    assert cargo.asked[:3] == ("build", "--release", "--locked")
    assert str(tmp_path / workspace.name / "Cargo.toml") in cargo.asked


@pytest.mark.parametrize("workspace", [EMULATED_DEVICE, HIP_ON_NVIDIA], ids=["emulator", "nvidia"])
def test_the_workspace_is_there_and_make_builds_it_in_the_same_place(workspace: Workspace) -> None:
    root = repository_root()
    built = f"--manifest-path {workspace.name}/Cargo.toml --target-dir {workspace.target.relative_to(root)}\n"
    assert (root / workspace.name / "Cargo.toml").is_file()
    assert f"\n{workspace.name}: ##" in (makefile := (root / "Makefile").read_text(encoding="utf-8"))
    assert f"\tcargo build --quiet --release --locked {built}" in makefile


def test_a_second_time_changes_nothing_and_wrong_links_are_put_right(tmp_path: Path) -> None:
    prepared(tmp_path, Cargo("libamdhip64.so"))
    link = tmp_path / "build/emulator/rocm/lib/libamdhip64.so"
    before = link.lstat().st_ino
    prepared(tmp_path, Cargo("libamdhip64.so"))
    assert link.lstat().st_ino == before
    link.unlink()
    link.symlink_to("/nowhere")
    prepared(tmp_path, Cargo("libamdhip64.so"))
    assert link.exists()


def test_the_users_own_library_path_stays_behind_it(tmp_path: Path) -> None:
    searched = prepared(tmp_path, Cargo("libamdhip64.so"), LD_LIBRARY_PATH="/mine")["LD_LIBRARY_PATH"]
    assert searched.split(os.pathsep) == [str(tmp_path / "build/emulator/rocm/lib"), "/mine"]


def test_folders_that_the_libraries_need_are_searched_last(tmp_path: Path) -> None:
    cargo = Cargo("libamdhip64.so")
    searched = prepared(tmp_path, cargo, HIP_ON_NVIDIA, ("/cuda/lib64",), LD_LIBRARY_PATH="/mine")["LD_LIBRARY_PATH"]
    assert searched.split(os.pathsep) == [str(tmp_path / "build/nvidia/rocm/lib"), "/mine", "/cuda/lib64"]


@pytest.mark.parametrize(
    ("workspace", "title"), [(EMULATED_DEVICE, "the emulated HIP device"), (HIP_ON_NVIDIA, "HIP on NVIDIA")]
)
def test_libraries_that_do_not_build_are_a_failure_and_no_skip(
    tmp_path: Path, workspace: Workspace, title: str
) -> None:
    with pytest.raises(VerificationFailed, match=f"{title} does not build") as caught:
        prepared(tmp_path, Cargo(code=101), workspace)
    assert f"{workspace.name}.log; see `make {workspace.name}`" in str(caught.value)
