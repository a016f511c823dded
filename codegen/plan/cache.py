"""The last plan of a tree, kept between runs: nothing is scanned again while nothing has changed.

The key covers every byte that the plan depends on: Candle's Rust files and manifests, the specs, the templates, this
package, and the choices. A damaged entry counts as none, and so does one that others could have written.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen import __version__, own_folder
from codegen.patch.changes import FileChange, Origin, PhaseChanges, Region
from codegen.paths import COMPILED, repository_root
from codegen.plan.model import Decision, Plan, State
from codegen.programs import find
from codegen.syntax.site import Site
from codegen.tree_path import TREE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codegen.candle.tree import CandleTree

DIGEST_SIZE = 20
CONFIGURATION = (".cargo/config.toml", "rustfmt.toml", ".rustfmt.toml", TREE_FILE)
"""Files besides sources and manifests that a plan depends on."""
KEPT = 24
"""Entries that the folder holds at most; the oldest go first."""


def fingerprint(
    tree: CandleTree, *, phases: Sequence[int], gating: str, runtime: str, leave_unknown: bool = False
) -> str:
    """BLAKE2 over everything that a plan depends on."""
    digest = hashlib.blake2b(digest_size=DIGEST_SIZE)
    choices = [__version__, tree.release, list(phases), gating, runtime, leave_unknown, _rustfmt()]
    digest.update(json.dumps(choices).encode())
    manifests = [*(crate.manifest for crate in tree.crates), "Cargo.toml", *CONFIGURATION]
    paths = (*tree.rust_files(), *tree.python_files(), *manifests)
    read = ((path, tree.read(path) if tree.exists(path) else None) for path in paths)
    for name, content in (*read, *own_files()):
        digest.update(f"{name}\0{-1 if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return digest.hexdigest()


def recall(folder: Path, key: str, tree: CandleTree) -> tuple[Plan, tuple[Decision, ...], bool] | None:
    """What `remember` kept under the key, or None."""
    try:
        digest, _, content = own_folder.read(folder, f"{key}.json").partition(b"\n")
    except OSError:
        return None
    if digest != _digest(content):
        return None
    document = json.loads(content)
    return _plan(document, tree), tuple(_decision(entry) for entry in document["decisions"]), document["tried"]


def remember(folder: Path, key: str, plan: Plan, decisions: Iterable[Decision], *, tried: bool) -> None:
    """Keep a plan. A folder that cannot be written to is no error: the next run plans again."""
    document = {
        "release": plan.release,
        "gating": plan.gating,
        "runtime": plan.runtime,
        "tried": tried,
        "phases": [
            {"phase": p.phase, "name": p.name, "summary": p.summary, "changes": [_kept(c) for c in p.changes]}
            for p in plan.phases
        ],
        "decisions": [asdict(decision) for decision in decisions],
    }
    content = json.dumps(document).encode()
    try:
        own_folder.write(folder, f"{key}.json", _digest(content) + b"\n" + content)
        _drop_old(folder)
    except OSError:
        return


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).hexdigest().encode()


def _rustfmt() -> list[str | int]:
    """Which rustfmt would run, without running it: the file, its size and time, and rustup's choice of toolchain."""
    program = find("rustfmt")
    if program is None:
        return []
    status = Path(program).stat()
    return [program, status.st_size, status.st_mtime_ns, os.environ.get("RUSTUP_TOOLCHAIN", "")]


def own_files() -> Iterator[tuple[str, bytes]]:
    """candle-rocm's own specs, templates, kernels and code, each with its name, wherever they were installed."""
    root = repository_root()
    package = Path(__file__).parent.parent
    kernels = root / "generated" / "kernels"
    for base, suffix in ((root / "specs", ".yaml"), (root / "templates", ""), (kernels, ""), (package, ".py")):
        for parent, folders, names in os.walk(base):
            folders[:] = sorted(name for name in folders if name != COMPILED)
            for name in sorted(names):
                if name.endswith(suffix):
                    path = Path(parent) / name
                    yield f"{base.name}/{path.relative_to(base).as_posix()}", path.read_bytes()


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
            before = None if entry["new"] else left[path] if path in left else tree.read(path)
            origins = [Origin(**origin) for origin in entry["origins"]]
            regions = tuple(Region(first, last, origins[index]) for first, last, index in entry["regions"])
            left[path] = entry["after"].encode()
            changes.append(FileChange(path, before, left[path], regions))
        phases.append(PhaseChanges(phase["phase"], phase["name"], phase["summary"], tuple(changes)))
    return Plan(document["release"], document["gating"], document["runtime"], tuple(phases))


def _decision(entry: dict[str, Any]) -> Decision:
    site = Site(**{**entry["site"], "enums": tuple(entry["site"]["enums"])})
    return Decision(**{**entry, "site": site, "state": State(entry["state"])})


def _drop_old(folder: Path) -> None:
    entries = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in entries[KEPT:]:
        path.unlink(missing_ok=True)
