"""New files of the patched Candle: rendered from templates, or mirrored from a Candle file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import ForeignBackend
from codegen.paths import repository_root, templates_dir
from codegen.plan.model import Origin
from codegen.plan.text import EditedText, whole
from codegen.render.backend import FileContext, Header, backend_context
from codegen.render.environment import render
from codegen.render.hip_api import HIP_API
from codegen.syntax.rename import rename

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.candle.tree import CandleTree
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import FileRule, Gating, PhaseSpec


def new_files(
    tree: CandleTree, phase: PhaseSpec, files: Iterable[FileRule], specs: LoadedSpecs, gating: Gating
) -> dict[str, EditedText]:
    """The phase's new files by path. Raises `ForeignBackend` if pristine Candle has one of them already."""
    wanted = [rule for rule in files if rule.gating in (None, gating)]
    if not wanted:
        return {}
    backend = backend_context(tree.read, (repository_root() / HIP_API).read_bytes())
    made = {}
    for rule in wanted:
        if tree.exists(rule.path):
            raise ForeignBackend(
                f"{rule.path} exists already, and candle-rocm did not write it",
                remedy="start from a tree without it, or move the file away",
            )
        where = specs.where(rule.id)
        if rule.template is not None:
            header = Header(phase.phase, rule.template, where.rsplit(":", 1)[0])
            text = render(rule.template, FileContext.of(header, backend), root=templates_dir())
        else:
            text = rename(tree.read(rule.mirror or "").decode())
        made[rule.path] = whole(text, Origin(rule.id, where, phase.phase, rule.template))
    return made
