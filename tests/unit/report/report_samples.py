"""Small decisions, origins and scans, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen.candle.tree import CandleTree
from codegen.patch.changes import FileChange, Origin, Region
from codegen.plan.decide import Scan
from codegen.plan.model import Decision, State
from codegen.spec.loaded import LoadedSpecs
from codegen.spec.model import CandleSpec, PhaseSpec, Specs
from codegen.syntax.site import Site
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "candle-core/src/device.rs"
TEXT = b"enum Device {\n    Cuda(u8),\n}\n"
ORIGIN = Origin("core.dispatch", "specs/phases/1-core.yaml:9", 1)
PHASES = (
    PhaseSpec(phase=0, name="setup", summary="The feature."),
    PhaseSpec(phase=1, name="core", summary="The arms."),
    PhaseSpec(phase=2, name="later", summary="Waits.", applied=False),
)
LINES = {"core.dispatch": "specs/phases/1-core.yaml:9", "crates[1]": "specs/candle.yaml:4"}


def site(**given: Any) -> Site:
    """A site at line 2 of `TEXT`, unless told otherwise."""
    known: dict[str, Any] = {
        "path": PATH,
        "kind": "enum",
        "start": 18,
        "end": 26,
        "line": 2,
        "column": 5,
        "item": "Device",
        "name": "Cuda",
        "snippet": "Cuda(u8)",
    }
    return Site(**{**known, **given})


def decision(
    state: State = State.HANDLED, *, crate: str = "candle-core", at: dict[str, Any] | None = None, **given: Any
) -> Decision:
    """A decision in a state that fits it, unless told otherwise; `at` goes to `site`."""
    fitting: dict[State, dict[str, Any]] = {
        State.HANDLED: {"rule": "core.dispatch", "phase": 1, "lands": 1, "verb": "mirror"},
        State.PENDING: {"rule": "later.storage", "phase": 2, "lands": 2, "verb": "mirror"},
        State.LEFT: {"rule": "core.left", "phase": 1, "verb": "leave", "reason": "only CUDA has it"},
        State.UNKNOWN: {"reason": "no rule handles this site and no spec leaves it alone"},
    }
    return Decision(site(**(at or {})), crate, state, **{**fitting[state], **given})


def scan_of(*decisions: Decision, files: Mapping[str, bytes] | None = None) -> Scan:
    """A scan of a tree that exists in memory only."""
    tree = CandleTree(Path("nowhere"), "0.11.1", (), {PATH: TEXT, **(files or {})})
    return Scan(tree, decisions, {PATH: Source.parse(PATH, TEXT)}, {})


def specs(*, tried: str = "0.11.1") -> LoadedSpecs:
    """Specs with three phases and no rules."""
    candle = CandleSpec.model_validate(
        {
            "releases": [{"version": tried, "exhaustive_matches": 1}],
            "crates": [
                {"name": "candle-core", "rocm": True},
                {"name": "candle-lab", "rocm": False, "reason": "a laboratory without AMD cards"},
            ],
            "enums": [],
            "foreign": [],
        }
    )
    return LoadedSpecs(Specs(candle=candle, phases=PHASES), LINES)


def change(before: str | None, after: str, *regions: Region, path: str = PATH) -> FileChange:
    """A change of one file."""
    return FileChange(path, before.encode() if before is not None else None, after.encode(), regions)
