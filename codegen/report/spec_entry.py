"""From a line of a spec to the lines of the patched tree that its entry makes, and from a kernel to its spec's line."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.kernels.loader import FOLDER, load_family
from codegen.kernels.render import family_source
from codegen.plan.files import BACKEND_FOLDER
from codegen.report.source_line import MadeLine, sources_of
from codegen.spec.hip_api import HIP_API

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codegen.patch.changes import FileChange
    from codegen.plan.model import Plan

SPECS = "specs/"
PHASES = f"{SPECS}phases/"
KERNELS = f"{SPECS}{FOLDER}/"
_NAMED = re.compile(r"\bname: *\"?([A-Za-z_]\w*)")


def made_of_spec(spec: str, number: int, plan: Plan, entries: Mapping[str, str], root: Path) -> tuple[MadeLine, ...]:
    """What the entry of a spec that line `number` (from 1) belongs to makes in the patched tree.

    Of a phase, all that its rule or file writes; of kernels, the lines of the operation; of another spec, the lines
    with the entry's name in the files that are made of it, or those files. `entries` are the specs' `file:line` by
    name, and `root` is the repository. Nothing for an entry without a use in this release.
    """
    if spec.startswith(PHASES):
        found = _of_phase(spec, number, plan, entries.values())
    else:
        named = _name_at(number, (root / spec).read_text(encoding="utf-8").splitlines())
        found = (
            line
            for change, phase in _new_files(plan)
            if _is_made_of(change, spec)
            for line in (_of_kernel if spec.startswith(KERNELS) else _of_table)(spec, number, named, change, phase)
        )
    return tuple(_joined(sorted(set(found), key=lambda line: (line.path, line.first))))


def _joined(found: Iterable[MadeLine]) -> Iterator[MadeLine]:
    """Neighbouring lines as one run."""
    run: MadeLine | None = None
    for line in found:
        if run is not None and (run.path, run.phase, run.last + 1) == (line.path, line.phase, line.first):
            run = replace(run, last=line.last)
            continue
        if run is not None:
            yield run
        run = line
    if run is not None:
        yield run


def _is_made_of(change: FileChange, spec: str) -> bool:
    """Whether a new file names the spec in its header; what declares C functions is made of their table."""
    declares = spec == HIP_API and change.path.startswith(f"{BACKEND_FOLDER}api/")
    return declares or spec in sources_of(_text(change))


def kernel_line(spec: str, text: str, number: int) -> int | None:
    """The line of a kernel family's spec that made line `number` of its source; None for what the template says."""
    source = family_source(load_family(_family(spec)))
    place = source.origin(number) if source.text == text else None
    return None if place is None else place.line


def _of_phase(spec: str, number: int, plan: Plan, entries: Iterable[str]) -> Iterator[MadeLine]:
    begins = (int(line) for file, _, line in (entry.rpartition(":") for entry in entries) if file == spec)
    first = max((line for line in begins if line <= number), default=0)
    for change in plan.changes:
        for region in change.regions:
            if region.origin.spec == f"{spec}:{first}":
                yield MadeLine(change.path, region.first, region.last, region.origin.phase)


def _of_kernel(spec: str, number: int, _named: str | None, change: FileChange, phase: int) -> Iterator[MadeLine]:
    loaded = load_family(_family(spec))
    own = max((line for line in loaded.lines.values() if line <= number), default=None)
    source = family_source(loaded)
    if own is None or source.text != _text(change):
        yield _whole(change, phase)
        return
    begins = [line for line, _ in source.marks]
    last = source.text.count("\n")
    for (first, made_by), behind in zip(source.marks, [*begins[1:], last + 1], strict=True):
        if made_by == own:
            yield MadeLine(change.path, first, behind - 1, phase)


def _of_table(_spec: str, _number: int, named: str | None, change: FileChange, phase: int) -> Iterator[MadeLine]:
    if named is None:
        yield _whole(change, phase)
        return
    word = re.compile(rf"\b{re.escape(named)}\b")
    for number, line in enumerate(_text(change).splitlines(), 1):
        if word.search(line):
            yield MadeLine(change.path, number, number, phase)


def _name_at(number: int, lines: Sequence[str]) -> str | None:
    """The name of the entry that a line of a spec belongs to: its own, or the nearest above that is not deeper."""
    for line in reversed(lines[:number]):
        if (named := _NAMED.search(line)) is not None:
            return named[1]
    return None


def _new_files(plan: Plan) -> Iterator[tuple[FileChange, int]]:
    phases = {change.path: phase.phase for phase in plan.phases for change in phase.changes}
    yield from ((change, phases[change.path]) for change in plan.changes if change.before is None)


def _whole(change: FileChange, phase: int) -> MadeLine:
    return MadeLine(change.path, 1, len(_text(change).splitlines()), phase)


def _text(change: FileChange) -> str:
    return change.after.decode(errors="replace")


def _family(spec: str) -> str:
    return spec.removeprefix(KERNELS).removesuffix(".yaml")
