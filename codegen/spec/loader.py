"""Reads `specs/candle.yaml` and `specs/phases/*.yaml`: all valid, or one error that lists every finding."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, Problem, SpecInvalid
from codegen.paths import COMPILED, repository_root
from codegen.spec import cache as spec_cache
from codegen.spec.loaded import LoadedSpecs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from codegen.spec.document import Document

CANDLE_FILE = "specs/candle.yaml"
PHASES_FOLDER = "specs/phases"
TEMPLATES_FOLDER = "templates"
REMEDY = "correct the spec; `candle-rocm spec schema` prints what editors need to complete and check it"


def load_specs(root: Path | None = None, *, cache: Path | None = None) -> LoadedSpecs:
    """The specs of a repository (`root` holds `specs/` and `templates/`; by default the one candle-rocm comes with).

    With a `cache` folder, unchanged specs come from there. Raises `SpecInvalid` with all findings of all files, and
    `InputOutputError` for a file that cannot be read.
    """
    root = root or repository_root()
    sources, problems = _read_sources(root)
    templates = template_names(root / TEMPLATES_FOLDER)
    if cache is None or problems:
        return _load(sources, templates, problems)
    key = spec_cache.fingerprint(sources, templates)
    loaded = spec_cache.recall(cache, key)
    if loaded is None:
        loaded = _load(sources, templates, problems)
        spec_cache.remember(cache, key, loaded)
    return loaded


def template_names(folder: Path) -> tuple[str, ...]:
    """Every file below `folder` as a relative path with forward slashes, sorted.

    Hidden files are none, nor is what pip compiles of Python sources when it installs a wheel.
    """
    names: list[str] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != COMPILED]
        prefix = os.path.relpath(parent, folder).replace(os.sep, "/")
        names += (name if prefix == "." else f"{prefix}/{name}" for name in files if not name.startswith("."))
    return tuple(sorted(names))


def _read_sources(root: Path) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """The spec files, candle.yaml first, then the phases by name; and what is wrong with the set of files."""
    problems: list[Problem] = []
    sources: list[tuple[str, bytes]] = []
    if (root / CANDLE_FILE).exists():
        sources.append((CANDLE_FILE, _read(root, CANDLE_FILE)))
    else:
        problems.append(Problem(f"{CANDLE_FILE} does not exist"))
    folder = root / PHASES_FOLDER
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    phases = [name for name in names if name.endswith(".yaml") and not name.startswith(".")]
    problems += (
        Problem(f"{PHASES_FOLDER}/{name} is not read: spec files end in .yaml")
        for name in names
        if name.endswith(".yml")
    )
    if not phases:
        problems.append(Problem(f"{PHASES_FOLDER} has no phase, such as 0-setup.yaml"))
    sources += ((f"{PHASES_FOLDER}/{name}", _read(root, f"{PHASES_FOLDER}/{name}")) for name in phases)
    return sources, problems


def _read(root: Path, name: str) -> bytes:
    try:
        return (root / name).read_bytes()
    except OSError as error:
        raise InputOutputError(
            f"cannot read {name}: {error.strerror}", remedy="check the file's permissions"
        ) from error


def _load(sources: Sequence[tuple[str, bytes]], templates: Sequence[str], problems: list[Problem]) -> LoadedSpecs:
    from codegen.spec.check import check
    from codegen.spec.document import read_document
    from codegen.spec.folders import lines_with_folders, with_folder_files
    from codegen.spec.model import CandleSpec, PhaseSpec, Specs
    from codegen.spec.validation import validate

    documents = [read_document(name, content) for name, content in sources]
    candle_document = next((document for document in documents if document.file == CANDLE_FILE), None)
    phase_documents = [document for document in documents if document.file != CANDLE_FILE]
    found = list(problems)
    for document in documents:
        found += document.problems
    candle: CandleSpec | None = None
    if candle_document is not None:
        candle, candle_problems = validate(candle_document, CandleSpec)
        found += candle_problems
    phases: dict[str, PhaseSpec] = {}
    for document in phase_documents:
        phase, phase_problems = validate(document, PhaseSpec)
        found += phase_problems
        if phase is not None:
            phases[document.file] = with_folder_files(phase, templates)
    found += check(candle_document, phase_documents, templates)
    if found or candle is None:
        raise SpecInvalid(in_order(found), remedy=REMEDY)
    specs = Specs(candle=candle, phases=tuple(sorted(phases.values(), key=lambda phase: phase.phase)))
    lines = lines_with_folders(phases, phase_documents, dict(_lines(documents)))
    return LoadedSpecs(specs, MappingProxyType(lines))


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """By file, line and column, each once; those without a place first."""

    def key(problem: Problem) -> tuple[str, int, int, str]:
        place = problem.location
        return (place.file, place.line, place.column, problem.message) if place else ("", 0, 0, problem.message)

    return sorted(set(problems), key=key)


def _lines(documents: Sequence[Document]) -> Iterator[tuple[str, str]]:
    from codegen.spec.check import entries_with_id

    for document in documents:
        if document.file == CANDLE_FILE:
            for key in ("releases", "crates", "enums", "cuda_kernels", "foreign"):
                for index, entry in enumerate(document.mapping.mappings(key)):
                    yield f"{key}[{index}]", f"{document.file}:{entry.mark.line}"
        for name, _, entry in entries_with_id(document):
            yield name, f"{document.file}:{entry.mark.line}"
