"""generated/kernels and docs/kernels.md are what the kernel specs make now, and rendering twice makes the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.kernels.outputs import committed_files, rendered_files, write_files
from codegen.paths import repository_root

if TYPE_CHECKING:
    from pathlib import Path


def test_kernels_are_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    root, wanted = repository_root(), rendered_files()
    if update_goldens:
        write_files(root, wanted)

    assert committed_files(root) == set(wanted), "run `make kernels`"
    for path, text in wanted.items():
        if (root / path).read_text(encoding="utf-8") != text:
            pytest.fail(f"{path} is not what its spec and template make: run `make kernels` and review the difference")


def test_rendering_is_deterministic_and_takes_stale_files_away(tmp_path: Path) -> None:
    first = rendered_files()
    assert write_files(tmp_path, first) == len(first)
    (tmp_path / "generated/kernels/gone.hip").write_text("")

    assert write_files(tmp_path, rendered_files()) == 1

    assert committed_files(tmp_path) == set(first)
