"""The emulated device's libraries, built and laid out; cargo is a stand-in that makes files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from codegen.errors import VerificationFailed
from codegen.verify.cargo import CargoRun
from codegen.verify.emulator import prepare_emulator


class Cargo:
    """Makes libraries where cargo would, and remembers what it was asked."""

    def __init__(self, *libraries: str, code: int = 0) -> None:
        self.libraries = libraries
        self.code = code
        self.asked: tuple[str, ...] = ()

    def __call__(self, root: Path, arguments: tuple[str, ...], **_more: Any) -> CargoRun:
        self.asked = arguments
        built = root / "build/emulator/release"
        built.mkdir(parents=True, exist_ok=True)
        for name in self.libraries:
            (built / name).write_text("", encoding="ascii")
        return CargoRun(arguments, self.code, (), (), (), "", 1.0, Path("x.log"))


def prepared(repository: Path, cargo: Cargo, **variables: str) -> dict[str, str]:
    return prepare_emulator(repository, variables=variables, log=repository / "emulator.log", cargo=cargo)


def test_the_libraries_are_linked_as_a_rocm_installation_has_them(tmp_path: Path) -> None:
    cargo = Cargo("libamdhip64.so", "librocblas.so", "libhiprtc.d")
    variables = prepared(tmp_path, cargo)
    folder = tmp_path / "build/emulator/rocm"
    assert variables == {"ROCM_PATH": str(folder), "LD_LIBRARY_PATH": str(folder / "lib")}
    assert sorted(path.name for path in (folder / "lib").iterdir()) == ["libamdhip64.so", "librocblas.so"]
    assert (folder / "lib/libamdhip64.so").resolve() == tmp_path / "build/emulator/release/libamdhip64.so"
    assert cargo.asked[:2] == ("build", "--release")


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


def test_an_emulator_that_does_not_build_is_a_failure_and_no_skip(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed, match="does not build") as caught:
        prepared(tmp_path, Cargo(code=101))
    assert "emulator.log" in str(caught.value)
