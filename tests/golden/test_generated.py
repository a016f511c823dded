"""generated/ holds what templates render on their own, for review: it is what they render now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root
from codegen.render.backend import OPS_PHASE, Header
from codegen.render.environment import render, undeclared
from codegen.render.hip_api import HipCalls
from codegen.spec.hip_api import HIP_API, parse_hip_api
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

OF_A_TREE = frozenset({"device", "storage"})
"""Variables that hold signatures of the Candle tree at hand."""


def independent_files() -> dict[str, str]:
    """Path below generated/ and text of every new file whose template needs nothing of a Candle tree."""
    specs, root = load_specs(), repository_root()
    hip = HipCalls.of(parse_hip_api((root / HIP_API).read_bytes(), file=HIP_API).api)
    made = {}
    for phase in specs.phases:
        for file in phase.files:
            if file.template is None or undeclared(file.template) & OF_A_TREE:
                continue
            header = Header(phase.phase, file.template, specs.where(file.id).rsplit(":", 1)[0])
            text = render(file.template, {"header": header, "hip": hip, "ops_phase": OPS_PHASE})
            made[f"phase-{phase.phase}/{file.path}"] = text
    return made


def committed_files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.glob("phase-*/**/*") if path.is_file()}


def test_generated_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    folder, wanted = repository_root() / "generated", independent_files()
    assert len(wanted) > 5
    if update_goldens:
        for stale in committed_files(folder) - set(wanted):
            (folder / stale).unlink()
        for path, text in wanted.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")

    assert committed_files(folder) == set(wanted), "run `make regen`"
    for path, text in wanted.items():
        if (folder / path).read_text(encoding="utf-8") != text:
            pytest.fail(
                f"generated/{path} is not what its template renders: run `make regen` and review the difference"
            )
