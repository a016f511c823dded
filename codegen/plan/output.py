"""What `generate` writes: patches, new files, and the report as JSON."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.errors import InputOutputError
from codegen.plan.patch import phase_patch

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.plan.analysis import Analysis
    from codegen.plan.decide import Decision
    from codegen.plan.model import FileChange

SCHEMA_VERSION = 1


def write_output(folder: Path, analysis: Analysis) -> tuple[str, ...]:
    """Write the plan below `folder` and return the relative paths, sorted; what an earlier run left there is replaced.

    `patches/0001-core.patch` per phase, `files/<path>` per new file, `report.json`. Raises `InputOutputError`.
    """
    plan = analysis.plan
    texts: dict[str, bytes] = {"report.json": _report(analysis).encode()}
    for phase in plan.phases:
        patch = phase_patch(
            phase.changes, phase=phase.phase, name=phase.name, summary=phase.summary, release=plan.release
        )
        texts[f"patches/{phase.phase:04}-{phase.name}.patch"] = patch.encode()
        texts |= {f"files/{change.path}": change.after for change in phase.changes if change.before is None}
    try:
        for part in ("patches", "files"):
            shutil.rmtree(folder / part, ignore_errors=True)
        for path, content in texts.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != content:
                target.write_bytes(content)
    except OSError as error:
        raise InputOutputError(
            f"cannot write {error.filename}: {error.strerror}", remedy="free space, or choose another folder with --out"
        ) from error
    return tuple(sorted(texts))


def _report(analysis: Analysis) -> str:
    plan = analysis.plan
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "candle-rocm", "version": __version__},
        "candle": plan.release,
        "gating": plan.gating,
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
