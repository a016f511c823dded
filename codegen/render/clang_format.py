"""clang-format over several HIP sources at once; the program comes from PyPI's package of that name."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs
from codegen.errors import ToolchainMissing
from codegen.paths import repository_root

if TYPE_CHECKING:
    from collections.abc import Mapping

_REMEDY = "install it with `pip install clang-format`"


def format_hip(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts as clang-format has them in the repository's style, by path. One process for all of them.

    Raises ToolchainMissing without clang-format, or when it fails.
    """
    if not texts:
        return {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, text in enumerate(texts.values()):
            (folder / f"{number}.h").write_text(text, encoding="utf-8")
        files = [str(folder / f"{number}.h") for number in range(len(texts))]
        style = f"--style=file:{repository_root().absolute() / '.clang-format'}"
        done = programs.run([_program(), style, "-i", *files])
        if done.returncode != 0:
            raise ToolchainMissing(f"clang-format fails: {programs.complains(done).strip()}", remedy=_REMEDY)
        return {path: Path(file).read_text(encoding="utf-8") for path, file in zip(texts, files, strict=True)}


def _program() -> str:
    beside = Path(sys.executable).with_name("clang-format")
    program = str(beside) if beside.exists() else programs.find("clang-format")
    if program is None:
        raise ToolchainMissing("clang-format is not installed", remedy=_REMEDY)
    return program
