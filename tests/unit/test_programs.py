"""Programs are started in one place, where nothing of a tree chooses what is run or how."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from some import some

import codegen
from codegen import programs
from codegen.errors import ExitCode
from codegen.render.rustfmt import format_rust

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(codegen.__file__).parent
STARTERS = {
    "os": {"system", "popen", "startfile", "fork", "forkpty"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}
MODULES = {"subprocess", "pty", "multiprocessing", "_posixsubprocess", "commands", "popen2"}


def starts_of(text: str) -> Iterator[int]:
    """Lines that could start a program; an import for annotations only cannot."""
    tree = ast.parse(text)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import) and any(each.name.split(".")[0] in MODULES for each in node.names):
            yield node.lineno
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            if module in MODULES or any(_is_starter(module, each.name) for each in node.names):
                yield node.lineno
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and _is_starter(node.value.id, node.attr)
        ):
            yield node.lineno


def _is_starter(module: str, name: str) -> bool:
    return name in STARTERS.get(module, ()) or (module == "os" and name.startswith(("exec", "spawn", "posix_spawn")))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import subprocess", [1]),
        ("import os\nos.system('x')", [2]),
        ("import os\nos.execvp('x', [])", [2]),
        ("from os import posix_spawn", [1]),
        ("from subprocess import run", [1]),
        ("def f():\n    import multiprocessing.pool", [2]),
        ("if TYPE_CHECKING:\n    from subprocess import Popen", []),
        ("import os\nos.replace('a', 'b')", []),
    ],
)
def test_what_counts_as_starting_a_program(text: str, lines: list[int]) -> None:
    assert [*starts_of(text)] == lines


def test_one_module_starts_programs() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): [*starts_of(path.read_text(encoding="utf-8"))]
        for path in some(PACKAGE.rglob("*.py"))
    }

    # `candle-rocm emulator COMMAND` becomes the program that its user names, with that user's variables, and
    # `make model-tests` becomes Python on the modelled GPU.
    become = ["amdgpu/runtime.py", "cli/emulator.py"]
    assert sorted(path for path, lines in found.items() if lines) == [*become, "programs.py"]


def test_a_program_starts_in_no_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = programs.run([sys.executable, "-I", "-c", "import os; print(os.getcwd())"])

    assert programs.says(done) == "/\n"


def test_a_program_gets_few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    left = ["GIT_DIR", "RUSTC_WRAPPER", "CARGO_BUILD_RUSTC", "RUSTFMT", "LD_PRELOAD", "PYTHONPATH", "CPATH", "PAGER"]
    for name in left:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("ROCM_PATH", "/opt/rocm")

    got = programs.environment(MORE="1")

    assert not set(left) & set(got)
    assert (got["ROCM_PATH"], got["MORE"], got["LC_ALL"]) == ("/opt/rocm", "1", "C")


def test_a_relative_path_names_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    for program in (tmp_path / "rustfmt", tmp_path / "bin/rustfmt"):
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    for path in (".", "", ":", "bin", "./bin:", f"bin:{os.environ['PATH']}"):
        monkeypatch.setenv("PATH", path)
        assert programs.find("rustfmt") != str(tmp_path / "rustfmt")
        assert "bin" not in programs.absolute_path().split(":")
        if programs.find("rustfmt") is not None:
            format_rust({"a.rs": "fn  a( ){ }\n"})

    assert not (tmp_path / "was-run").exists()


def test_a_toolchain_of_the_tree_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rustup's rustfmt goes by the rust-toolchain.toml of the folder it is started in."""
    real = shutil.which("rustfmt")
    if real is None or Path(real).resolve().name != "rustup":
        pytest.skip("the toolchain of a tree was not tried: rustfmt is not rustup's here")
    fake = tmp_path / "toolchain/bin/rustfmt"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    fake.chmod(0o755)
    tree = tmp_path / "candle"
    tree.mkdir()
    (tree / "rust-toolchain.toml").write_text(f'[toolchain]\npath = "{tmp_path}/toolchain"\n')
    monkeypatch.delenv("RUSTUP_TOOLCHAIN", raising=False)
    monkeypatch.chdir(tree)

    assert format_rust({"a.rs": "fn  a( ){ }\n"}) == {"a.rs": "fn a() {}\n"}
    assert not (tmp_path / "was-run").exists()


def test_a_program_that_never_ends() -> None:
    with pytest.raises(programs.TookTooLong) as caught:
        programs.run([sys.executable, "-c", "input()\nwhile True: pass"], given="\n", seconds=0.3)

    error = programs.hangs("python", caught.value)
    assert error.exit_code is ExitCode.IO
    assert "python did not end in 0 seconds" in str(error)
