"""`kernels build` as a person sees it: at 80 columns, interrupted, gone on with, and through a pipe."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from in_process import REPOSITORY, copy_of_home
from recorder import COLUMNS, on_a_terminal, through_a_pipe
from rocm_toolchain import real_disassembler, real_toolchain

from codegen.kernels.loader import load_families
from codegen.rocm.fetch import default_folder

if TYPE_CHECKING:
    import pytest

TEXTS = Path(__file__).with_name("recordings")
QUICK, SLOW = "fill", "softmax"
"""Two families, of which the first is compiled long before the second."""


def test_kernels_build_interrupted_and_gone_on_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    update_goldens: bool,  # noqa: FBT001 - a fixture
) -> None:
    """The first run is interrupted when it has made one of two code objects; the next one makes the other."""
    toolchain = real_toolchain()
    real_disassembler()
    packages = default_folder()
    home = copy_of_home(tmp_path / "home", monkeypatch)
    for spec in (home / "specs/kernels").glob("*.yaml"):
        if spec.stem not in (QUICK, SLOW):
            spec.unlink()
    shutil.copy(REPOSITORY / ".clang-format", home)
    (home / packages.relative_to(REPOSITORY)).parent.mkdir(parents=True)
    (home / packages.relative_to(REPOSITORY)).symlink_to(packages)
    objects = tmp_path / "objects"
    words = ("kernels", "build", "--arch", "gfx1100", "--to", str(objects))
    variables = {**os.environ, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    told = f"compiling with {toolchain}"
    as_wrapped = "\n".join(told[first : first + COLUMNS].rstrip() for first in range(0, len(told), COLUMNS))
    count = sum(len(loaded.kernels) for loaded in load_families() if loaded.name in (QUICK, SLOW))
    hidden = (
        (str(tmp_path), "DIR"),
        (as_wrapped, "compiling with TOOLCHAIN"),
        (told, "compiling with TOOLCHAIN"),
        (f"{count} kernels in 2", "N kernels in 2"),
    )

    first = on_a_terminal(words, variables, interrupt=lambda frame: "step 1 of 2" in frame)
    first.compare(TEXTS / "interrupted.txt", *hidden, update=update_goldens)
    assert first.code == 130
    made = (objects / "gfx1100" / f"{QUICK}.hsaco").stat().st_mtime_ns
    assert not (objects / "gfx1100" / f"{SLOW}.hsaco").exists()

    second = on_a_terminal(words, variables)
    second.compare(TEXTS / "gone-on-with.txt", *hidden, update=update_goldens)
    assert (objects / "gfx1100" / f"{QUICK}.hsaco").stat().st_mtime_ns == made

    third = through_a_pipe((*words[:-1], str(tmp_path / "again")), variables)
    third.compare(TEXTS / "through-a-pipe.txt", *hidden, update=update_goldens)
