"""New files of the patched Candle: rendered from templates, or mirrored from a Candle file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.candle.cache import default_cache
from codegen.errors import ForeignBackend, InputOutputError
from codegen.paths import repository_root, templates_dir
from codegen.plan.model import Origin
from codegen.plan.text import EditedText, whole
from codegen.render.backend import FileContext, Header, backend_context
from codegen.render.environment import render
from codegen.spec.hip_api import HIP_API, load_hip_api
from codegen.syntax.rename import rename

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.candle.tree import CandleTree
    from codegen.render.backend import BackendContext
    from codegen.spec.kinds import Gating
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import FileRule, PhaseSpec


def backend_of(tree: CandleTree) -> BackendContext:
    """What the templates of new files are rendered from: the tree's own traits, and the table of HIP functions.

    Raises `InputOutputError` when the table cannot be read, `SpecInvalid` when it is wrong, and as
    `backend_context`.
    """
    try:
        table = (repository_root() / HIP_API).read_bytes()
    except OSError as error:
        raise InputOutputError(
            f"cannot read {HIP_API}: {error.strerror}", remedy="take it again from candle-rocm's repository"
        ) from error
    return backend_context(tree.read, load_hip_api(table, cache=default_cache() / "specs"))


def new_files(
    tree: CandleTree,
    phase: PhaseSpec,
    files: Iterable[FileRule],
    specs: LoadedSpecs,
    gating: Gating,
    backend: BackendContext,
) -> dict[str, EditedText]:
    """The phase's new files by path. Raises `ForeignBackend` if pristine Candle has one of them already."""
    wanted = [rule for rule in files if rule.gating in (None, gating)]
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
