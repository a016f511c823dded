"""The sites of real Candle: each release has exactly those that were reviewed, and every rule is for some of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from some import some

from codegen.candle.tree import open_tree
from codegen.paths import templates_dir
from codegen.plan.decide import Scan, scan_tree
from codegen.plan.model import State
from codegen.spec.kinds import Gating
from codegen.spec.loader import load_specs
from releases.command_line import candle_rocm

pytestmark = [pytest.mark.network]

SPECS = load_specs()
RULES = tuple(rule for phase in SPECS.phases for rule in phase.rules)
FALLBACKS = {rule.id for rule in RULES if rule.fallback}
TRIED = tuple(release.version for release in SPECS.candle.releases)
COUNTS = Path(__file__).parent / "sites"
"""How many sites each tried release has, by state, crate and phase: a file per release; `make regen` writes them."""


@pytest.fixture(scope="module")
def real_scans() -> tuple[Scan, ...]:
    """Every release that the specs were tried on, the newest in both gatings."""
    trees = [open_tree(version) for version in TRIED]
    return (*(scan_tree(tree, SPECS) for tree in trees), scan_tree(trees[-1], SPECS, gating=Gating.CFG))


@pytest.fixture(scope="module")
def used(real_scans: tuple[Scan, ...]) -> Counter[str]:
    """How many sites each rule decides."""
    return Counter(decision.rule for scan in real_scans for decision in scan.decisions)


def test_scan_knows_every_site(release: str, update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    result = candle_rocm("scan", release, "--json")

    assert result.code == 0, result.stderr
    summary = result.document["summary"]
    print(f"{release}: {summary['states']}")
    assert summary["states"]["unknown"] == 0
    assert summary["states"]["handled"] > 0
    if not result.document["candle"]["tried"]:
        return
    assert [site for site in result.document["sites"] if site["fallback"]] == []
    counts = json.dumps({key: summary[key] for key in ("total", "states", "crates")}, indent=2) + "\n"
    golden = COUNTS / f"{release}.json"
    if update_goldens:
        golden.write_text(counts, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == counts, "run `make regen` and review the difference"


def test_counts_are_kept_of_the_tried_releases_and_of_no_other() -> None:
    assert sorted(path.name for path in COUNTS.iterdir()) == sorted(f"{version}.json" for version in TRIED)


def test_every_rule_decides_a_site_of_real_candle(used: Counter[str]) -> None:
    assert [rule.id for rule in RULES if not rule.fallback and not used[rule.id]] == []


def test_no_release_that_was_tried_needs_a_fallback(used: Counter[str]) -> None:
    assert {name for name in FALLBACKS if used[name]} == set()


def test_no_site_of_real_candle_is_unknown(real_scans: tuple[Scan, ...]) -> None:
    for scan in some(real_scans):
        assert scan.of_state(State.UNKNOWN) == (), scan.tree.release


def test_every_foreign_entry_names_files_of_real_candle(real_scans: tuple[Scan, ...]) -> None:
    reasons = {d.reason for scan in real_scans for d in scan.decisions if d.rule == "candle.foreign"}

    assert {entry.reason for entry in SPECS.candle.foreign} == reasons


PASSING_ENUMS = {
    "Error": "what went wrong; no kernel depends on it",
    "D": "how a caller names a dimension",
    "Op": "what autograd remembers",
}
"""Enums of Candle that the backend's sources name, and whose variants choose nothing that is computed."""


def test_every_enum_that_chooses_a_kernel_is_watched() -> None:
    """A variant of it that is new or renamed is an unknown site: specs/candle.yaml says which enums those are."""
    tree = open_tree(TRIED[-1])
    core = [path for path in tree.rust_files() if path.startswith("candle-core/src/")]
    own = [path for path in core if "_backend/" not in path or "/cpu_backend/" in path]
    declared = {name for path in own for name in re.findall(r"(?m)^\s*pub enum (\w+)", tree.read(path).decode())}
    everything = [path for path in templates_dir().rglob("*") if path.is_file() and "rocm_backend" in path.parts]
    # Collectives have a ReduceOp of their own, with the names that CUDA's users know.
    sources = [path for path in everything if "rccl" not in path.parts and path.name != "rccl.rs"]
    assert len(sources) > 50
    texts = [path.read_text(encoding="utf-8") for path in sources]
    ours = {name for text in texts for name in re.findall(r"\b(?:enum|struct|type) (\w+)", text)}
    used = {name for text in texts for name in re.findall(r"\b([A-Z]\w*)::[A-Z]", text)} - ours
    watched = {choice.enum for choice in SPECS.candle.choices} | {enum.name for enum in SPECS.candle.enums} | {"DType"}
    named = declared & used
    print(sorted(named))

    assert {"CmpOp", "ReduceOp", "CpuStorage", "Scalar", "DType", "Device"} <= named
    assert named - watched - PASSING_ENUMS.keys() == set()
