"""What `generate` writes: patches, new files, and the report as JSON."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import __version__, beneath
from codegen.errors import InputOutputError
from codegen.patch.git_format import phase_patch
from codegen.record.disk import Disk
from codegen.record.exchange import digest_at
from codegen.record.fields import checked_path
from codegen.record.record import sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.patch.changes import FileChange
    from codegen.plan.model import Decision
    from codegen.workspace.analysis import Analysis

SCHEMA_VERSION = 1
TOOL = "candle-rocm"
REPORT = "report.json"


def write_output(folder: Path, analysis: Analysis, *, named: bool = True) -> tuple[str, ...]:
    """Write the plan below `folder` and return the relative paths, sorted.

    `patches/0001-core.patch` per phase, `files/<path>` per new file, `report.json`. What an earlier run left there and
    this one does not write is deleted; files that are not ours stay. No link below the folder is followed, and the
    folder itself may be one only where the user `named` it. Raises `InputOutputError`, and then everything there is as
    it was.
    """
    plan = analysis.plan
    texts: dict[str, bytes] = {REPORT: _report(analysis).encode()}
    for phase in plan.phases:
        patch = phase_patch(
            phase.changes, phase=phase.phase, name=phase.name, summary=phase.summary, release=plan.release
        )
        texts[patch_path(phase.phase, phase.name)] = patch.encode()
        for change in phase.changes:
            path = _file_path(change.path)
            if change.before is None or path in texts:  # a later phase may write a new file again
                texts[path] = change.after
    try:
        real = folder.resolve() if named else Path.cwd() / folder
        stale = _earlier(real) - texts.keys()
        _make_folders(real)
        _replace(real, texts)
        for path in stale:
            _delete(real, path)
    except (OSError, InputOutputError) as error:
        cause = error.__cause__ if isinstance(error, InputOutputError) else error
        reason = cause.strerror if isinstance(cause, OSError) else cause
        raise InputOutputError(
            f"cannot write {folder}: {reason}",
            remedy="free disk space and check the permissions there, or choose another folder with --out",
        ) from error
    return tuple(sorted(texts))


class _Unhurried(Disk):
    """A generated file may be generated again: nobody waits until it is on the medium."""

    def flush(self, descriptor: int) -> None:
        """Left to the system."""


_DISK = _Unhurried()


def patch_path(phase: int, name: str) -> str:
    """Where a phase's patch lies in the folder."""
    return f"patches/{phase:04}-{name}.patch"


def _file_path(path: str) -> str:
    return f"files/{path}"


def _earlier(folder: Path) -> set[str]:
    """What the report that lies there says an earlier run wrote; nothing if there is none, or it is not ours."""
    try:
        found = beneath.read(folder / REPORT)
        document = json.loads(b"" if found is None else found.data)
        if document["tool"]["name"] != TOOL:
            return set()
        patches = {patch_path(phase["phase"], phase["name"]) for phase in document["phases"]}
        new = {_file_path(file["path"]) for phase in document["phases"] for file in phase["files"] if file["new"]}
        return {checked_path(path) for path in patches | new}
    except (ValueError, KeyError, TypeError, RecursionError):
        return set()


def _replace(folder: Path, texts: Mapping[str, bytes]) -> None:
    """Write the files aside, then rename all of them into place; those that are as wanted keep their times."""
    staging = folder / f".candle-rocm-{secrets.token_hex(8)}"
    _DISK.make_folder(staging)
    try:
        staged = []
        for index, (path, content) in enumerate(texts.items()):
            target = folder / path
            if digest_at(target) != sha256(content):
                _DISK.write(staging / str(index), content)
                staged.append((staging / str(index), target))
        for parent in sorted({target.parent for _, target in staged}):
            _make_folders(parent)
        for source, target in staged:
            _DISK.replace(source, target)
    finally:
        with suppress(InputOutputError):
            _DISK.clear(staging)


def _make_folders(folder: Path) -> None:
    for path in (*reversed(folder.parents[:-1]), folder):
        if beneath.status(path) is None:
            _DISK.make_folder(path)


def _delete(folder: Path, path: str) -> None:
    """Delete a file and the folders that are then empty."""
    target = folder / path
    if beneath.status(target) is not None:
        _DISK.unlink(target)
    for parent in target.relative_to(folder).parents:
        if parent.parts:
            _DISK.drop(folder / parent)


def _report(analysis: Analysis) -> str:
    plan = analysis.plan
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": TOOL, "version": __version__},
        "candle": plan.release,
        "gating": plan.gating,
        "runtime": plan.runtime,
        "phases": [
            {
                "phase": phase.phase,
                "name": phase.name,
                "summary": phase.summary,
                "files": [_file(change) for change in phase.changes],
            }
            for phase in plan.phases
        ],
        "sites": [_site(decision) for decision in analysis.decisions],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _file(change: FileChange) -> dict[str, object]:
    regions = [{"first": r.first, "last": r.last, **asdict(r.origin)} for r in change.regions]
    return {"path": change.path, "new": change.before is None, "regions": regions}


def _site(decision: Decision) -> dict[str, object]:
    site = decision.site
    return {
        "path": site.path,
        "line": site.line,
        "column": site.column,
        "kind": site.kind,
        "item": site.item,
        "state": decision.state.value,
        "rule": decision.rule,
        "phase": decision.phase,
        "lands": decision.lands,
        "stand_in": decision.stand_in,
        "verb": decision.verb,
        "reason": decision.reason,
    }
