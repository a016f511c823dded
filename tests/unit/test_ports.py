"""The programs in tests/ports are written for CUDA; docs/port-from-cuda.md makes the patched Candle's of them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root
from codegen.syntax.port_names import Names
from codegen.syntax.port_twins import Twins
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from pathlib import Path

ROOT = repository_root()
PAGE = ROOT / "docs/port-from-cuda.md"
RENAMED = ROOT / "templates/candle/4-custom-ops/candle-core/tests/rocm_ports"
PROGRAMS = sorted((ROOT / "tests/ports").glob("*.rs"))


def _script() -> str:
    found = re.search(r"^```sed\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, "the page has no script"
    return found[1]


def test_there_are_five_programs() -> None:
    assert len(PROGRAMS) == 5


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="rustfmt is not installed")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_is_ported_by_the_script_of_the_page(program: Path, tmp_path: Path) -> None:
    script, ported = tmp_path / "rename.sed", tmp_path / program.name
    script.write_text(_script())
    run = subprocess.run(["sed", "--file", script, program], capture_output=True, text=True, check=True)
    ported.write_text(run.stdout)
    # Names that became longer or shorter: lines are broken, and imports ordered, as Rust's style has them.
    subprocess.run(["rustfmt", "--edition", "2021", ported], check=True)
    assert ported.read_text() == (RENAMED / program.name).read_text()
    assert "cuda" not in ported.read_text().lower()


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="rustfmt is not installed")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_the_command_has_the_names_of_the_page(program: Path, tmp_path: Path) -> None:
    """`port` makes of a program what the script makes of it, but for the braces of its imports."""
    driver = (ROOT / "templates/candle/4-custom-ops/candle-core/src/rocm_backend/driver.rs").read_text()
    names = Names("candle_core", frozenset(re.findall(r"\w+", driver)), {})
    twin = Twins.of(Source.parse(program.name, program.read_bytes()), names, {}, alone=False).whole()
    assert twin.left == ()
    ported = tmp_path / program.name
    ported.write_text(twin.text)
    subprocess.run(["rustfmt", "--edition", "2021", ported], check=True)

    assert _code(ported.read_text()) == _code((RENAMED / program.name).read_text())


def _code(text: str) -> tuple[list[str], set[str]]:
    """The code without its imports, and the words of these."""
    imports = re.findall(r"^use [^;]*;", text, re.MULTILINE)
    rest = re.sub(r"^use [^;]*;\n", "", text, flags=re.MULTILINE)
    return rest.split(), {word for each in imports for word in re.findall(r"\w+", each)}
