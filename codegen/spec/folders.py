"""The files of a phase that its folder holds: each lies at the path that it gets in Candle, so no spec lists them.

`templates/candle/3-tensors/candle-core/src/rocm_backend/blas.rs` becomes `candle-core/src/rocm_backend/blas.rs` in
phase 3. A name that ends in `.j2` is a template and loses that ending; anything else is taken as it stands. Files that
an entry of `files` names are that entry's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.spec.document import ScalarNode
from codegen.spec.wording import quoted
from codegen.tree_path import is_tree_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codegen.errors import Problem
    from codegen.spec.document import Document
    from codegen.spec.model import PhaseSpec

TEMPLATE_SUFFIX = ".j2"
SUFFIXES = (".rs", ".py", ".hip")
"""Of files that Candle may get. `spec lint` says of anything else in a phase's folder that nothing uses it."""


def is_plain(source: str) -> bool:
    """Whether a new file is a copy of its source, with a header before it, and no template is rendered."""
    return not source.endswith(TEMPLATE_SUFFIX)


def path_in_tree(source: str, folder: str) -> str:
    """The path in Candle of a file below a phase's folder."""
    return source.removeprefix(f"{folder}/").removesuffix(TEMPLATE_SUFFIX)


def entry_id(phase: str, path: str) -> str:
    """The id of the entry that a file of a folder makes: `tensors.candle-core-src-rocm-backend-blas-rs`."""
    return f"{phase}.{re.sub('[^a-z0-9]+', '-', path.lower()).strip('-')}"


def with_folder_files(phase: PhaseSpec, templates: Sequence[str]) -> PhaseSpec:
    """The phase with an entry for each file of its folder that no entry names; `templates` are all paths there are."""
    from codegen.spec.model import FileRule

    if phase.folder is None:
        return phase
    named = {file.template for file in phase.files}
    made = tuple(
        FileRule(id=entry_id(phase.name, path), path=path, template=source)
        for source in _below(phase.folder, templates)
        if source not in named
        for path in [path_in_tree(source, phase.folder)]
    )
    return phase.model_copy(update={"files": (*made, *phase.files)})


def folder_lines(phase: PhaseSpec, document: Document) -> Iterator[tuple[str, str]]:
    """Where the entries of a phase's folder come from: the line that names the folder. `phase` has its entries."""
    entry = document.mapping.entry("folder")
    if entry is not None and phase.folder is not None:
        for file in phase.files:
            if file.template is not None and file.template.startswith(f"{phase.folder}/"):
                yield file.id, f"{document.file}:{entry.mark.line}"


def check_folder(document: Document, templates: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with the folder that a phase names."""
    node = document.mapping.get("folder")
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return
    sources = list(_below(node.value, templates))
    if not sources:
        yield document.problem(f"there is no file below templates/{node.value}", node.mark)
    first: dict[str, str] = {}
    for source in sources:
        path = path_in_tree(source, node.value)
        if not is_tree_path(path):
            yield document.problem(f"{quoted(path)} is not a path inside the Candle tree", node.mark)
        if path in first:
            yield document.problem(f"templates/{first[path]} and templates/{source} are the same file", node.mark)
        first[path] = source


def _below(folder: str, templates: Sequence[str]) -> Iterator[str]:
    return (
        name
        for name in templates
        if name.startswith(f"{folder}/") and name.removesuffix(TEMPLATE_SUFFIX).endswith(SUFFIXES)
    )


def lines_with_folders(
    phases: Mapping[str, PhaseSpec], documents: Sequence[Document], lines: Mapping[str, str]
) -> dict[str, str]:
    """`lines`, and where the entries of all folders come from; `phases` are those of each file. Explicit lines win."""
    made: dict[str, str] = {}
    for document in documents:
        if document.file in phases:
            made |= dict(folder_lines(phases[document.file], document))
    return made | dict(lines)
