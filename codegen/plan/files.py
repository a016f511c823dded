"""New files of the patched Candle: rendered from templates, or mirrored from a Candle file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.errors import ForeignBackend, InputOutputError, UnknownSite
from codegen.kernels.dtypes import DTYPES
from codegen.patch.attributed_text import EditedText, whole
from codegen.patch.changes import Origin
from codegen.paths import default_cache, repository_root, templates_dir
from codegen.release import in_range
from codegen.render.backend import BACKEND, FileContext, Header, backend_context
from codegen.render.hip_api import refuse_unknown_names, used_names
from codegen.render.new_file import new_file
from codegen.spec.backend_traits import BACKEND_TRAITS, parse_backend_traits
from codegen.spec.hip_api import HIP_API, load_hip_api
from codegen.syntax.rename import rename

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codegen.candle.tree import CandleTree
    from codegen.errors import Problem
    from codegen.render.backend import BackendContext
    from codegen.spec.kinds import Runtime
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import CopyRule, FileRule, PhaseSpec

BACKEND_FOLDER = "candle-core/src/rocm_backend/"
"""Where the generated files lie that may use what is C."""


def backend_of(tree: CandleTree) -> BackendContext:
    """What the templates of new files are rendered from: the tree's own traits, and the table of HIP functions.

    Raises `InputOutputError` when a table cannot be read, `SpecInvalid` when it is wrong, and as
    `backend_context`.
    """
    hip_api = load_hip_api(_own(HIP_API), cache=default_cache() / "specs")
    traits = parse_backend_traits(_own(BACKEND_TRAITS))
    return backend_context(tree.read, hip_api, {dtype.name for dtype in DTYPES}, traits)


def _own(path: str) -> bytes:
    try:
        return (repository_root() / path).read_bytes()
    except OSError as error:
        raise InputOutputError(
            f"cannot read {path}: {error.strerror}", remedy="restore it from candle-rocm's repository"
        ) from error


def methods_without_template(tree: CandleTree) -> tuple[Problem, ...]:
    """Methods of the tree's backend traits that no template computes: on ROCm they return an error, or cannot be had.

    Raises as `backend_of`, but for `UnknownSite`.
    """
    if not tree.exists(BACKEND):
        return ()
    try:
        return backend_of(tree).unanswered
    except UnknownSite as error:
        return error.problems


def new_files(
    tree: CandleTree,
    phase: PhaseSpec,
    files: Iterable[FileRule],
    specs: LoadedSpecs,
    runtime: Runtime,
    backend: BackendContext,
    earlier: Mapping[str, EditedText],
) -> dict[str, EditedText]:
    """The phase's new files by path; `earlier` has those of the phases before it.

    Raises `ForeignBackend` if pristine Candle has one of them already, and `TemplateInvalid` for a C name that the API
    table does not have.
    """
    made: dict[str, EditedText] = {}
    differences = tuple(each for each in phase.differences if in_range(tree.release, each.since, each.until))
    for rule in sorted(files, key=lambda rule: bool(rule.declares)):
        _refuse_existing(tree, rule.path)
        where = specs.where(rule.id)
        if rule.template is not None:
            header = Header(phase.phase, rule.template, where.rsplit(":", 1)[0])
            names = _c_names({**earlier, **made}, backend) if rule.declares else frozenset()
            context = FileContext.of(
                header, backend, runtime, declares=rule.declares, names=names, differences=differences
            )
            text = new_file(rule.template, context, root=templates_dir())
        else:
            text = rename(tree.read(rule.mirror or "").decode())
        made[rule.path] = whole(text, Origin(rule.id, where, phase.phase, rule.template))
    return made


def copied_files(
    tree: CandleTree, phase: PhaseSpec, copies: Iterable[CopyRule], specs: LoadedSpecs
) -> dict[str, EditedText]:
    """The phase's copies of this repository's files, by path in the tree. Raises as `new_files`."""
    made = {}
    for rule in copies:
        for path, source in _sources(repository_root() / rule.source, rule.path):
            _refuse_existing(tree, path)
            origin = Origin(rule.id, specs.where(rule.id), phase.phase)
            made[path] = whole(source.read_text(encoding="utf-8"), origin)
    return made


def _sources(source: Path, path: str) -> Iterator[tuple[str, Path]]:
    """Paths in the tree, and what is copied there."""
    if not source.exists():
        raise InputOutputError(
            f"cannot read {source.name}: no such file", remedy="restore it from candle-rocm's repository"
        )
    if source.is_file():
        yield path, source
        return
    for file in sorted(source.rglob("*")):
        if file.is_file() and file.suffix != ".rs":
            yield f"{path}/{file.relative_to(source).as_posix()}", file


def _refuse_existing(tree: CandleTree, path: str) -> None:
    if tree.exists(path):
        raise ForeignBackend(
            f"{path} exists already, and candle-rocm did not write it",
            remedy="start from a tree without it, or move the file away",
        )


def _c_names(files: Mapping[str, EditedText], backend: BackendContext) -> frozenset[str]:
    """The C names that the backend's files use."""
    texts = {path: file.text for path, file in files.items() if path.startswith(BACKEND_FOLDER)}
    refuse_unknown_names(backend.hip_api, texts)
    return used_names(texts.values())
