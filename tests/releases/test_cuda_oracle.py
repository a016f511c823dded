"""The CUDA build sees edits inside CUDA-gated code: without such an edit it stops compiling.

Phases 0 and 1 need none there. Phase 2 does (an exhaustive match over QStorage in a function that only CUDA builds
have), so its edits are planned here, with the CUDA stand-in file renamed in place of the files that it will bring.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from codegen.candle.tree import open_tree
from codegen.patch.attributed_text import edited
from codegen.plan.build import plan_tree
from codegen.plan.decide import scan_tree
from codegen.plan.edits import plan_edits
from codegen.spec.kinds import Gating
from codegen.spec.loader import load_specs
from codegen.syntax.rename import rename
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.cuda_oracle import ENVIRONMENT, stub_overlay
from codegen.verify.scratch import ScratchTree

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.patch.changes import Edit

pytestmark = [pytest.mark.cargo, pytest.mark.network]

GATE = re.compile(r'(^|, )feature = "cuda"')


def test_phases_0_and_1_edit_nothing_inside_cuda_code(release: str) -> None:
    """So no edit can be removed there; the day one is planned, the next test has to remove it."""
    specs, tree = load_specs(), open_tree(release)
    scan = scan_tree(tree, specs)
    edits = plan_edits(scan, specs, phases=[0, 1], gating=Gating.DUMMY)
    gated = [decision.site for decision in scan.decisions if GATE.search(decision.site.gate)]

    inside = [
        (path, edit.origin.rule)
        for path, own in edits.items()
        for edit in own
        for site in gated
        if site.path == path and site.start < edit.start < site.end
    ]

    assert inside == []


def test_removing_an_edit_inside_cuda_code_is_seen(newest: str, work: Path) -> None:
    release = newest
    specs, tree = load_specs(), open_tree(release)
    scan = scan_tree(tree, specs)
    core = tuple(found for found in scan.decisions if found.site.path.startswith("candle-core/src/"))
    edits = plan_edits(replace(scan, decisions=core), specs, phases=[0, 1, 2], gating=Gating.DUMMY)
    foreign = [edit for own in edits.values() for edit in own if edit.origin.rule == "quant.cuda-gated-match"]
    assert len(foreign) == 1

    complete = _cuda_errors(release, edits, work)
    lacking = _cuda_errors(
        release, {path: tuple(e for e in own if e not in foreign) for path, own in edits.items()}, work
    )

    assert complete == []
    assert [(code, file) for code, file in lacking] == [("E0004", foreign[0].path)]


def _cuda_errors(release: str, edits: dict[str, tuple[Edit, ...]], work: Path) -> list[tuple[str | None, str]]:
    """Code and file of every error of `cargo check --features cuda` on the tree with these edits."""
    specs, tree = load_specs(), open_tree(release)
    plan = plan_tree(tree, specs, phases=[0, 1])
    overlay: dict[str, bytes | None] = {change.path: change.after for change in plan.changes}
    overlay |= {path: edited(tree.read(path), own).text.encode() for path, own in edits.items()}
    dummy = "candle-core/src/quantized/dummy_{}.rs"
    overlay[dummy.format("rocm")] = rename(tree.read(dummy.format("cuda")).decode()).encode()
    overlay |= stub_overlay(tree.root)
    root = work / "trees" / f"{release}-cuda-mutation"
    scratch = ScratchTree(root, work / "target")
    scratch.sync(tree.root, overlay)
    lock = work / "trees" / release / "Cargo.lock"
    if lock.exists():
        shutil.copy(lock, root / "Cargo.lock")
    run = run_cargo(
        root,
        ("check", "-p", "candle-core", "--features", "cuda"),
        log=work / "logs" / release / "cuda-mutation.log",
        environment=cargo_environment(scratch.target_dir, **ENVIRONMENT),
        on_message=lambda _line: None,
    )
    assert run.ok or run.errors, run.complaint
    return [(error.code, error.span.file if error.span else "") for error in run.errors]
