"""The headers for plain HIP programs are what the API table and their template render now."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root
from codegen.render.emulator_headers import FOLDER, declaration, emulator_headers
from codegen.spec.hip_api import HIP_API, parse_hip_api

if TYPE_CHECKING:
    from pathlib import Path


def test_the_emulator_s_headers_are_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    root = repository_root()
    wanted = emulator_headers(parse_hip_api((root / HIP_API).read_bytes()).api, root)
    assert len(wanted) == 6
    for path, text in wanted.items():
        if update_goldens:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        if (root / path).read_text(encoding="utf-8") != text:
            pytest.fail(f"{path} is not what its template renders: run `make regen` and review the difference")


def test_each_header_stands_alone(tmp_path: Path) -> None:
    root = repository_root()
    for library in parse_hip_api((root / HIP_API).read_bytes()).api.libraries:
        source = tmp_path / "alone.cpp"
        source.write_text(f"#include <{library.header}>\n")
        command = ["g++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-I", str(root / FOLDER), str(source)]
        subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("c", "expected"),
    [
        ("const char*", "const char* name"),
        ("int[3]", "int name[3]"),
        ("void (*)(void*, int)", "void (*name)(void*, int)"),
    ],
)
def test_declarations_put_the_name_where_c_wants_it(c: str, expected: str) -> None:
    assert declaration(c, "name") == expected
