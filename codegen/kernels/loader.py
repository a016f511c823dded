"""Reads all kernel specs; every finding has its file, line and column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, SpecInvalid
from codegen.kernels import blocks
from codegen.kernels.model import Family, Kernel, kernels_of
from codegen.paths import specs_dir
from codegen.spec.document import Document, Mark, read_document
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "kernels"
"""Below `specs/`."""
_REMEDY = "codegen/kernels/model.py explains the keys."


@dataclass(frozen=True, slots=True)
class LoadedFamily:
    """A family, the file it came from and its kernels."""

    family: Family
    file: str
    """Relative to the repository: `specs/kernels/unary.yaml`."""
    text: str
    kernels: tuple[Kernel, ...]
    lines: Mapping[str, int]
    """Of each op in the file, counting from 1."""

    @property
    def name(self) -> str:
        """The family's name: of its spec, its template and its source."""
        return self.family.family


def load_families(root: Path | None = None) -> tuple[LoadedFamily, ...]:
    """All families below `root` (the repository's `specs/`), by name.

    Raises SpecInvalid with everything that is wrong in any of the files.
    """
    folder = (root or specs_dir()) / FOLDER
    formats, problems = _formats(root)
    read = [_read(path.name, path.read_bytes(), formats) for path in sorted(folder.glob("*.yaml"))]
    loaded = [family for family, _ in read if family is not None]
    problems += [problem for _, findings in read for problem in findings]
    problems += _same_symbols(loaded)
    if problems:
        raise SpecInvalid(problems, remedy=_REMEDY)
    return tuple(loaded)


def load_family(name: str, root: Path | None = None) -> LoadedFamily:
    """The family of that name alone. Raises SpecInvalid with everything that is wrong in its file, or without it."""
    path = (root or specs_dir()) / FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise SpecInvalid(Problem(f"specs/{FOLDER}/{path.name} does not exist"), remedy=_REMEDY)
    formats, problems = _formats(root)
    family, findings = _read(path.name, path.read_bytes(), formats)
    if family is None or findings:
        raise SpecInvalid([*problems, *findings], remedy=_REMEDY)
    return family


@cache  # YAML is slow to read, and one process may ask for the specs often
def _read(name: str, content: bytes, formats: bytes | None) -> tuple[LoadedFamily | None, tuple[Problem, ...]]:
    """The family in the file of that name and content, and everything that is wrong with it.

    `formats` is the content of specs/blocks.yaml: None without the file, empty if it cannot be used.
    """
    document = read_document(f"specs/{FOLDER}/{name}", content)
    family, findings = validate(document, Family)
    problems = [*document.problems, *findings]
    if family is None:
        return None, tuple(problems)
    if f"{family.family}.yaml" != name:
        problems.append(document.problem(f"family '{family.family}' belongs in {family.family}.yaml", _top(document)))
    lines = _lines(document)
    if family.blocks:
        if formats is None:
            problems.append(document.problem(f"specs/{blocks.FILE} does not exist", document.mapping.mark))
        if not formats:
            return None, tuple(problems)
        family = family.with_formats(blocks.read_blocks(formats))
    return LoadedFamily(family, document.file, document.text, kernels_of(family, lines), lines), tuple(problems)


def _formats(root: Path | None) -> tuple[bytes | None, list[Problem]]:
    """The content of specs/blocks.yaml as `_read` takes it, and what is wrong with it."""
    file = (root or specs_dir()) / blocks.FILE
    if not file.is_file():
        return None, []
    content = file.read_bytes()
    try:
        blocks.read_blocks(content)
    except SpecInvalid as error:
        return b"", list(error.problems)
    return content, []


def _top(document: Document) -> Mark:
    entry = document.mapping.entry("family")
    return entry.mark if entry else document.mapping.mark


def _lines(document: Document) -> dict[str, int]:
    """The line of each op, by its name."""
    return {op.text("name") or "": op.mark.line for op in document.mapping.mappings("ops")}


def _same_symbols(families: list[LoadedFamily]) -> list[Problem]:
    owners: dict[str, LoadedFamily] = {}
    problems = []
    for loaded in families:
        for kernel in loaded.kernels:
            owner = owners.setdefault(kernel.symbol, loaded)
            if owner is not loaded:
                place = Location.in_text(loaded.file, loaded.text, kernel.line)
                problems.append(Problem(f"{owner.file} makes {kernel.symbol} too", place))
    return problems
