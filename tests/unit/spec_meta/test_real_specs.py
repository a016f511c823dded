"""Tests about the specs that ship: every rule, file and template earns its place.

The made-up tree has a site for every rule; tests/releases asks real Candle.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from in_process import REPOSITORY
from made_up import NEWEST, OLDEST, candle_tree
from some import some

from codegen.candle.tree import open_tree
from codegen.kernels.dtypes import DTYPES
from codegen.paths import templates_dir
from codegen.plan.decide import Scan, scan_tree
from codegen.plan.select import selects
from codegen.release import in_range
from codegen.render.new_file import HEADED
from codegen.spec.folders import is_plain
from codegen.spec.kinds import Gating, Runtime, Verb
from codegen.spec.loader import load_specs
from codegen.spec.usage import unused_templates

if TYPE_CHECKING:
    from in_process import CommandLine

    from codegen.plan.model import Decision
    from codegen.spec.model import Rule

SPECS = load_specs()
KERNEL_TABLES = ("rust/kernel_table.rs.j2", "rust/kernel_sources.rs.j2")
"""Rendered by codegen/kernels/outputs.py; a phase copies what they make."""
RULES = tuple(rule for phase in SPECS.phases for rule in phase.rules)
FILES = tuple(file for phase in SPECS.phases for file in phase.files)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scan, ...]:
    """The made-up tree, as an old and as a new release, in both gatings."""
    found = []
    for release in (OLDEST, NEWEST):
        tree = open_tree(candle_tree(tmp_path_factory.mktemp("candle"), release))
        found += [scan_tree(tree, SPECS, gating=gating) for gating in Gating]
    return tuple(found)


def decided_by(scans: tuple[Scan, ...]) -> Counter[str]:
    return Counter(decision.rule for scan in scans for decision in scan.decisions)


# --- the specs by themselves -------------------------------------------------------------------------------------


def test_lint_passes(candle_rocm: CommandLine) -> None:
    assert candle_rocm.ok("spec", "lint").stdout.startswith("specs are valid: ")


def test_every_template_is_used() -> None:
    """Those of kernels, documents and the emulator have tests of their own that render every one."""
    unused = unused_templates(SPECS.specs, REPOSITORY / "templates", also=[HEADED, *KERNEL_TABLES])
    assert [name for name in unused if not name.startswith(("hip/", "docs/", "emulator/"))] == []


def test_rust_is_a_template_only_where_a_release_or_a_phase_differs() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in templates_dir().rglob("*.rs.j2")}
    assert 1 <= len(lines) <= 30
    assert {path.name: count for path, count in lines.items() if count >= 150} == {}
    without_logic = [path.name for path in lines if not re.search("[«{]%|«", path.read_text(encoding="utf-8"))]
    assert without_logic == []


def test_every_id_is_unique_and_named_for_its_phase_theme() -> None:
    cargo = [phase.cargo for phase in SPECS.phases]
    entries = [
        entry
        for each in cargo
        for part in (each.dependencies, each.features, each.targets, each.config)
        for entry in part
    ]
    modules = [module for phase in SPECS.phases for module in phase.modules]
    statements = [statement for phase in SPECS.phases for statement in phase.statements]
    differences = [difference for phase in SPECS.phases for difference in phase.differences]
    ids = [entry.id for entry in (*RULES, *FILES, *entries, *modules, *statements, *differences)]

    assert [name for name, count in Counter(ids).items() if count > 1] == []


def test_a_phase_writes_a_new_file_once_and_a_later_one_if_it_has_another_text() -> None:
    """From the same template, which knows what comes with which phase, or from a plain source that is not the same."""
    for gating, runtime, release in product(Gating, Runtime, (OLDEST, NEWEST)):
        written: dict[str, str] = {}
        for phase in some(SPECS.phases):
            files = [
                file
                for file in phase.files
                if file.gating in (None, gating) and file.is_for(runtime) and in_range(release, file.since, file.until)
            ]
            assert len(files) == len({file.path for file in files}), phase.name
            for file in files:
                if file.template is None:
                    assert file.mirror is not None, file.id
                    assert file.path not in written, file.id
                    continue
                earlier = written.get(file.path)
                if earlier is not None and is_plain(file.template):
                    texts = [(templates_dir() / source).read_bytes() for source in (earlier, file.template)]
                    assert texts[0] != texts[1], f"{file.id} writes again what an earlier phase wrote"
                elif earlier is not None:
                    assert file.template == earlier, file.id
                written[file.path] = file.template


def test_every_difference_is_of_a_case_and_of_a_tried_release() -> None:
    """That it shows there is rocm_matrix's to find; of which release it speaks has to be one that it is run on."""
    differences = [each for phase in SPECS.phases for each in phase.differences]
    assert differences
    tried = [release.version for release in SPECS.candle.releases]
    matrix = REPOSITORY / "templates/candle/3-tensors/candle-core/tests/rocm_matrix"
    cases = "".join((matrix / name).read_text(encoding="utf-8") for name in ("operations.rs", "release.rs.j2"))
    for each in differences:
        assert any(in_range(release, each.since, each.until) for release in tried), each.id
        for operation in each.operations:
            method, _, case = operation.partition(".")
            by_macro = f'concat!("{method}.",' in cases and re.search(rf"\b{case}\b", cases) is not None
            spelt = f'"{operation}"' in cases or f'"{method}.{{' in cases or (method == "unary_impl" and case in cases)
            assert spelt or by_macro, f"{each.id}: there is no case {operation}"
        assert {variant.lower() for variant in each.types} <= {dtype.name for dtype in DTYPES}, each.id


def test_every_foreign_entry_and_crate_says_why() -> None:
    assert all(len(entry.reason) > 10 for entry in SPECS.candle.foreign)
    assert all(crate.rocm or crate.reason for crate in SPECS.candle.crates)


# --- every rule on the made-up tree ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_decides_a_site_of_the_made_up_tree(scans: tuple[Scan, ...], rule: Rule) -> None:
    assert decided_by(scans)[rule.id] > 0


def moved_away(decision: Decision, key: str) -> Decision:
    """The same decision about a site that differs in what one key of a selector asks for."""
    site = decision.site
    changes: dict[str, dict[str, Any]] = {
        "kind": {"kind": "text"},
        "path": {"path": "candle-core/elsewhere/other.txt"},
        "item": {"item": "Elsewhere::other"},
        "name": {"name": "other"},
        "enum": {"enums": ("Other",)},
        "gate": {"gate": 'feature = "other"'},
        "exhaustive": {"exhaustive": not site.exhaustive},
        "metal_only": {"metal_only": not site.metal_only},
    }
    crate = "candle-other" if key == "crate" else decision.crate
    return replace(decision, crate=crate, site=replace(site, **changes.get(key, {})))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_key_of_every_rule_keeps_other_sites_out(scans: tuple[Scan, ...], rule: Rule) -> None:
    """The negative case: a site of the made-up tree that the rule decides, moved away by one key, is not its own."""
    own = [(scan, decision) for scan in scans for decision in scan.decisions if decision.rule == rule.id]
    scan, decision = next((scan, decision) for scan, decision in own if not decision.inside)
    source = scan.text_of(decision.site.path)
    assert source is not None
    text = source.slice(decision.site.start, decision.site.end)
    assert selects(rule.sites, decision.site, decision.crate, text)

    for key in rule.sites.model_fields_set:
        other = moved_away(decision, key)
        assert not selects(rule.sites, other.site, other.crate, "" if key == "text" else text), key


def test_rules_for_one_gating_or_release_are_used_there_only(scans: tuple[Scan, ...]) -> None:
    for scan in scans:
        for rule in RULES:
            if not in_range(scan.tree.release, rule.since, rule.until):
                assert rule.id not in scan.rules
    dummy, cfg = scans[:2]
    gated = {rule.id: rule.gating for rule in RULES if rule.gating is not None}
    assert gated
    for name, gating in gated.items():
        assert (name in dummy.rules, name in cfg.rules) == (gating is Gating.DUMMY, gating is Gating.CFG)


def test_each_verb_is_used() -> None:
    assert {rule.verb for rule in RULES} == set(Verb)


def test_every_range_of_releases_has_an_inside_and_an_outside() -> None:
    """A range that holds for all releases, or for none of them, is a leftover."""
    tried = [release.version for release in SPECS.candle.releases]
    ranges = [(rule.id, rule.since, rule.until) for rule in RULES] + [(f.id, f.since, f.until) for f in FILES]

    for name, since, until in some(ranges):
        held = [in_range(version, since, until) for version in tried]
        assert any(held), name
        assert (since is None and until is None) or not all(held), name
