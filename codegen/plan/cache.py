"""The last plan of a tree, kept between runs: nothing is scanned again while nothing has changed.

The key covers every byte that the plan depends on: Candle's Rust files and manifests, the specs, the templates, this
package, and the choices. A damaged entry counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen import __version__
from codegen.paths import repository_root
from codegen.plan.decide import Decision, State
from codegen.plan.model import FileChange, Origin, PhaseChanges, Plan, Region
from codegen.syntax.sites import Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.candle.tree import CandleTree

KEPT = 24
"""Entries that the folder holds at most; the oldest go first."""


def fingerprint(tree: CandleTree, *, phases: Sequence[int], gating: str) -> str:
    """BLAKE2 over everything that a plan depends on."""
    digest = hashlib.blake2b(digest_size=20)
    digest.update(json.dumps([__version__, tree.release, list(phases), gating]).encode())
    manifests = [*(crate.manifest for crate in tree.crates), "Cargo.toml", ".cargo/config.toml"]
    for path in (*tree.rust_files(), *manifests):
        content = tree.read(path) if tree.exists(path) else b""
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    for name, content in _own_files():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def recall(folder: Path, key: str, tree: CandleTree) -> tuple[Plan, tuple[Decision, ...]] | None:
    """What `remember` kept under the key, or None."""
    try:
        document = json.loads((folder / f"{key}.json").read_bytes())
        return _plan(document, tree), tuple(_decision(entry) for entry in document["decisions"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def remember(folder: Path, key: str, plan: Plan, decisions: Iterable[Decision]) -> None:
    """Keep a plan. A folder that cannot be written to is no error: the next run plans again."""
    document = {
        "release": plan.release,
        "gating": plan.gating,
        "phases": [
            {"phase": p.phase, "name": p.name, "summary": p.summary, "changes": [_kept(c) for c in p.changes]}
            for p in plan.phases
        ],
        "decisions": [asdict(decision) for decision in decisions],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file)
        Path(name).replace(folder / f"{key}.json")
        _drop_old(folder)
    except (OSError, ValueError):
        return


def _own_files() -> Iterator[tuple[str, bytes]]:
    root = repository_root()
    for part, suffixes in (("specs", (".yaml",)), ("templates", (".j2",)), ("codegen", (".py",))):
        base = root / part if part != "codegen" else Path(__file__).parent.parent
        for parent, folders, names in os.walk(base):
            folders.sort()
            for name in sorted(names):
                if name.endswith(suffixes):
                    path = Path(parent) / name
                    yield path.relative_to(base).as_posix(), path.read_bytes()


def _kept(change: FileChange) -> dict[str, Any]:
    origins = sorted({region.origin for region in change.regions}, key=lambda o: (o.rule, o.spec, o.phase))
    index = {origin: number for number, origin in enumerate(origins)}
    return {
        "path": change.path,
        "new": change.before is None,
        "after": change.after.decode("utf-8"),
        "origins": [asdict(origin) for origin in origins],
        "regions": [[region.first, region.last, index[region.origin]] for region in change.regions],
    }


def _plan(document: dict[str, Any], tree: CandleTree) -> Plan:
    left: dict[str, bytes] = {}
    phases = []
    for phase in document["phases"]:
        changes = []
        for entry in phase["changes"]:
            path = entry["path"]
            before = None if entry["new"] else left.get(path) or tree.read(path)
            origins = [Origin(**origin) for origin in entry["origins"]]
            regions = tuple(Region(first, last, origins[index]) for first, last, index in entry["regions"])
            left[path] = entry["after"].encode()
            changes.append(FileChange(path, before, left[path], regions))
        phases.append(PhaseChanges(phase["phase"], phase["name"], phase["summary"], tuple(changes)))
    return Plan(document["release"], document["gating"], tuple(phases))


def _decision(entry: dict[str, Any]) -> Decision:
    known = {field.name for field in fields(Decision)}
    site = dict(entry["site"], enums=tuple(entry["site"]["enums"]))
    rest = {key: value for key, value in entry.items() if key in known and key not in ("site", "state")}
    return Decision(site=Site(**site), state=State(entry["state"]), **rest)


def _drop_old(folder: Path) -> None:
    entries = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in entries[KEPT:]:
        path.unlink(missing_ok=True)
