"""A golden case: a made-up workspace, specs and templates of its own, and what the plan makes of it.

A folder `NAME/` holds `before/` (the workspace), `specs/`, `templates/`, and per variant `after/GATING-PHASE/` with the
Rust files that differ from `before/` or are new, as rustfmt leaves them.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.tree import open_tree
from codegen.patch.attributed_text import EditedText, edited, formatted, whole
from codegen.patch.changes import Origin
from codegen.paths import HOME_VARIABLE
from codegen.plan.decide import refuse_unknown, scan_tree
from codegen.plan.edits import plan_edits
from codegen.render.environment import render
from codegen.render.rustfmt import format_rust
from codegen.spec.loader import load_specs
from codegen.syntax.rename import rename

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from codegen.spec.kinds import Gating

GOLDENS = Path(__file__).parent
LIB = "candle-core/src/lib.rs"


@dataclass(frozen=True, slots=True)
class Variant:
    """One golden of a case."""

    case: str
    gating: Gating
    phase: int
    """The last phase that is applied."""

    def __str__(self) -> str:
        return f"{self.case}-{self.gating.value}-{self.phase}"

    @property
    def folder(self) -> Path:
        """Where the golden lies."""
        return GOLDENS / self.case / "after" / f"{self.gating.value}-{self.phase}"


def made(variant: Variant, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The Rust files that the plan changes or adds, by path."""
    root = GOLDENS / variant.case
    return made_from(root, root / "before", variant, monkeypatch)


def made_from(root: Path, before: Path, variant: Variant, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The same for another workspace under the specs of a case."""
    monkeypatch.setenv(HOME_VARIABLE, str(root))
    specs = load_specs(root)
    tree = open_tree(before)
    scan = scan_tree(tree, specs, gating=variant.gating)
    refuse_unknown(scan)
    phases = range(variant.phase + 1)
    edits = plan_edits(scan, specs, phases=phases, gating=variant.gating)
    texts = {path: edited(tree.read(path), own) for path, own in edits.items()}
    for phase in specs.phases:
        for rule in phase.files if phase.phase in phases else ():
            if rule.gating not in (None, variant.gating):
                continue
            if rule.template is not None:
                text = render(rule.template, {}, root=root / "templates")
            else:
                text = rename(tree.read(rule.mirror or "").decode())
            texts[rule.path] = whole(text, Origin(rule.id, "", phase.phase))
    return _formatted(texts)


def _formatted(texts: Mapping[str, EditedText]) -> dict[str, str]:
    wished = format_rust({path: entry.text for path, entry in texts.items()})
    return {path: formatted(entry, wished[path]).text for path, entry in texts.items()}


def golden(variant: Variant) -> dict[str, str]:
    """The files of the golden, by path."""
    return dict(rust_files(variant.folder))


def write(variant: Variant, files: Mapping[str, str]) -> None:
    """Replaces the golden."""
    shutil.rmtree(variant.folder, ignore_errors=True)
    for path, text in files.items():
        target = variant.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def rust_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Rust files below a folder with their paths relative to it."""
    for path in sorted(folder.rglob("*.rs")):
        yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8")


def compiler_says(folder: Path, features: tuple[str, ...], out: Path) -> str:
    """What rustc has to say about the workspace's crate with some features on; empty when it is content."""
    done = subprocess.run(
        ["rustc", "--crate-type", "lib", "--edition", "2021", "--emit", "metadata", "--out-dir", str(out)]
        + ["-D", "warnings", "-A", "unexpected_cfgs"]
        + [part for feature in features for part in ("--cfg", f'feature="{feature}"')]
        + [str(folder / LIB)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""
