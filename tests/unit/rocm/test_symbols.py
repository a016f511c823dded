"""Which functions a shared library exports."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from made_up_rocm import build_library, build_package

from codegen.errors import ExitCode, InputOutputError, ToolchainMissing
from codegen.rocm.symbols import exported_functions

if TYPE_CHECKING:
    from pathlib import Path

EXPORTED = frozenset({"hipFree", "hipMalloc", "hipElse", "__hipRegister", "other", "uses"})
"""Not among them: what is undefined, a variable, a function of C++."""


def test_functions_of_a_shared_library(tmp_path: Path) -> None:
    assert exported_functions(build_library(tmp_path), "amdhip64") == EXPORTED


def test_functions_of_a_library_in_a_package_are_kept_beside_it(tmp_path: Path) -> None:
    package = build_package(tmp_path, build_library(tmp_path))
    assert exported_functions(package, "amdhip64") == EXPORTED

    kept = tmp_path / "libamdhip64-7_7.2.4_amd64.amdhip64.symbols.json"
    assert set(json.loads(kept.read_text())) == EXPORTED
    kept.write_text('["hipKept"]')
    assert exported_functions(package, "amdhip64") == frozenset({"hipKept"})
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["content"], "nothing else is left"


def test_a_package_that_is_newer_than_its_symbols_is_read_again(tmp_path: Path) -> None:
    package = build_package(tmp_path, build_library(tmp_path))
    kept = tmp_path / "libamdhip64-7_7.2.4_amd64.amdhip64.symbols.json"
    kept.write_text('["hipOld"]')
    os.utime(kept, (1, 1))
    assert exported_functions(package, "amdhip64") == EXPORTED


def test_a_package_without_the_library(tmp_path: Path) -> None:
    assert exported_functions(build_package(tmp_path, build_library(tmp_path)), "hiprtc") is None


def test_what_is_no_library(tmp_path: Path) -> None:
    file = tmp_path / "libamdhip64.so.7"
    file.write_text("text")
    with pytest.raises(InputOutputError, match=r"cannot read the symbols of .*libamdhip64\.so\.7: ") as caught:
        exported_functions(file, "amdhip64")
    assert caught.value.exit_code == ExitCode.IO


def test_a_library_that_exports_nothing_is_not_believed(tmp_path: Path) -> None:
    library = build_library(tmp_path, "static int own() { return 0; }")
    with pytest.raises(InputOutputError, match="it exports no function"):
        exported_functions(library, "amdhip64")


def test_a_damaged_package(tmp_path: Path) -> None:
    package = build_package(tmp_path, build_library(tmp_path))
    package.write_bytes(package.read_bytes()[:400])
    with pytest.raises(InputOutputError, match=r"cannot read .*\.deb: "):
        exported_functions(package, "amdhip64")


def test_programs_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build_library(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainMissing, match="readelf is not installed"):
        exported_functions(library, "amdhip64")
    with pytest.raises(ToolchainMissing, match="dpkg-deb is not installed"):
        exported_functions(tmp_path / "x.deb", "amdhip64")
