"""The plan of the made-up tree: the laws of the design, and what stops it."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from made_up import DEVICE, LIB, OLDEST, READY, STORAGE, UNTRIED, candle_sources, candle_tree, grow, replace_in
from some import some

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode, TemplateInvalid, UsageError
from codegen.patch.changes import Edit, Origin
from codegen.plan.build import phase_specs, plan_tree
from codegen.plan.decide import scan_tree
from codegen.plan.edits import EditPlanner
from codegen.plan.rust_style import rust_edition
from codegen.spec.kinds import Gating, Runtime
from codegen.spec.loader import load_specs
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codegen.patch.changes import FileChange
    from codegen.plan.model import Plan
    from codegen.spec.loaded import LoadedSpecs

CASES = (
    *product((OLDEST, "0.11.1", UNTRIED), Gating, [Runtime.ROCM_RS]),
    ("0.11.1", Gating.DUMMY, Runtime.DYNAMIC),
)


@pytest.fixture(scope="module")
def specs() -> LoadedSpecs:
    return load_specs()


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, specs: LoadedSpecs) -> Plan:
    """The plan of a release with a gating and a runtime."""
    release, gating, runtime = request.param
    root = candle_tree(tmp_path_factory.mktemp("candle"), release)
    return plan_tree(open_tree(root), specs, gating=gating, runtime=runtime)


def check_regions(change: FileChange) -> None:
    """Every line outside of the regions is a line of the file as it was before, in its order."""
    after = change.after.decode().split("\n")
    assert after[-1] == "", f"{change.path} does not end with a newline"
    claimed: set[int] = set()
    for region in change.regions:
        assert 1 <= region.first <= region.last < len(after), change.path
        claimed |= set(range(region.first, region.last + 1))
    pristine = iter((change.before or b"").decode().split("\n"))
    for number, line in enumerate(after[:-1], 1):
        if number not in claimed:
            assert line in pristine, f"{change.path}:{number} is in no region: {line!r}"


# --- laws --------------------------------------------------------------------------------------------------------


def test_every_changed_line_has_an_origin(plan: Plan) -> None:
    for change in some(plan.changes):
        check_regions(change)


def test_a_new_file_is_ours_from_the_first_line_to_the_last(plan: Plan) -> None:
    for change in some(plan.changes):
        if change.before is None and change.path.endswith(".rs"):
            assert [(r.first, r.last) for r in change.regions] == [(1, change.after.count(b"\n"))], change.path


def test_origins_point_at_the_spec_line_of_their_rule(plan: Plan) -> None:
    for change in some(plan.changes):
        for region in change.regions:
            file, line = region.origin.spec.rsplit(":", 1)
            text = (REPOSITORY / file).read_text().splitlines()[int(line) - 1]
            entry = text.strip().removeprefix("- ")
            of_a_folder = entry == f"folder: {'/'.join((region.origin.template or '').split('/')[:2])}"
            assert of_a_folder or entry.startswith(f"id: {region.origin.rule}"), (change.path, region)


def test_no_edit_adds_an_error_node(plan: Plan) -> None:
    for change in some(plan.changes):
        if change.path.endswith(".rs"):
            before = Source.parse(change.path, change.before or b"").error_ranges()
            assert len(Source.parse(change.path, change.after).error_ranges()) <= len(before), change.path


def test_phases_build_on_one_another(plan: Plan) -> None:
    state: dict[str, bytes] = {}
    for phase in plan.phases:
        for change in phase.changes:
            if change.path in state:
                assert change.before == state[change.path]
            assert change.after != change.before
            state[change.path] = change.after
    assert {change.path: change.after for change in plan.changes} == state


def test_what_rustfmt_found_clean_stays_clean(plan: Plan) -> None:
    from codegen.render.rustfmt import format_rust

    rust = {change.path: change.after.decode() for change in plan.changes if change.path.endswith(".rs")}
    assert format_rust(rust) == rust


def test_planning_twice_gives_the_same(tmp_path: Path, specs: LoadedSpecs) -> None:
    tree = open_tree(candle_tree(tmp_path))

    assert plan_tree(tree, specs) == plan_tree(tree, load_specs())


def test_the_plan_does_not_depend_on_the_hash_seed_or_the_folder(pristine: Path, tmp_path: Path) -> None:
    program = (
        "import sys, hashlib\nfrom codegen.candle.tree import open_tree\nfrom codegen.plan.build import plan_tree\n"
        "from codegen.spec.loader import load_specs\n"
        "print(hashlib.sha256(repr(plan_tree(open_tree(sys.argv[1]), load_specs())).encode()).hexdigest())"
    )
    (tmp_path / "rustfmt.toml").write_text("tab_spaces = 2\n")

    def digest(seed: str, folder: Path) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "-c", program, str(pristine)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout

    assert digest("1", REPOSITORY) == digest("2", tmp_path)


def test_reading_is_all_that_planning_does(tmp_path: Path, specs: LoadedSpecs) -> None:
    root = candle_tree(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}

    plan_tree(open_tree(root), specs)

    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


# --- formatting --------------------------------------------------------------------------------------------------


def after(plan: Plan, path: str) -> str:
    return next(change.after.decode() for change in plan.changes if change.path == path)


def test_unformatted_lines_of_candles_own_stay(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / DEVICE, "    pub fn is_cpu(&self) -> bool {", "    pub fn  is_cpu( &self )->bool {")
    replace_in(candle / STORAGE, "use crate::backend::BackendStorage;", "use   crate::backend::BackendStorage ;")

    plan = plan_tree(open_tree(candle), specs)

    assert "    pub fn  is_cpu( &self )->bool {" in after(plan, DEVICE)
    assert after(plan, STORAGE).startswith("use   crate::backend::BackendStorage ;\n")
    for change in plan.changes:
        check_regions(change)


@pytest.mark.parametrize("gating", Gating)
def test_a_tree_with_windows_line_endings_keeps_them(tmp_path: Path, specs: LoadedSpecs, gating: Gating) -> None:
    texts = {path: text.replace("\n", "\r\n") for path, text in candle_sources().items()}
    root = grow(tmp_path / "windows", texts)

    plan = plan_tree(open_tree(root), specs, gating=gating)
    other = plan_tree(open_tree(candle_tree(tmp_path / "posix")), specs, gating=gating)

    for change in plan.changes:
        if change.before is not None:
            assert change.after.count(b"\n") == change.after.count(b"\r\n"), change.path
        check_regions(change)
    assert {c.path: c.after.replace(b"\r\n", b"\n") for c in plan.changes} == {c.path: c.after for c in other.changes}


def test_the_formatting_rules_of_the_tree_count(candle: Path, specs: LoadedSpecs) -> None:
    grow(candle, {".rustfmt.toml": "tab_spaces = 2\n"})

    plan = plan_tree(open_tree(candle), specs)
    text = after(plan, "candle-core/src/utils.rs")
    assert "pub fn rocm_is_available() -> bool {\n  #[cfg" in text
    assert 'pub fn cuda_is_available() -> bool {\n    cfg!(feature = "cuda")\n}' in text
    new = after(plan, "candle-core/src/rocm_backend/backend_storage.rs")
    assert "\nimpl BackendStorage for RocmStorage {\n    type Device" in new  # new files have the templates' form


def test_the_edition_of_the_tree_counts(candle: Path, specs: LoadedSpecs) -> None:
    """Chains of `let` are not Rust before edition 2024."""
    replace_in(
        candle / "candle-core/src/utils.rs",
        "pub fn metal_is",
        "fn f() {\n    if let A = b()\n        && c() {}\n}\n\npub fn metal_is",
    )
    with pytest.raises(TemplateInvalid, match="let chains are only allowed in Rust 2024"):
        plan_tree(open_tree(candle), specs)

    replace_in(candle / "Cargo.toml", 'edition = "2021"', 'edition = "2024"')
    assert rust_edition(open_tree(candle)) == "2024"
    assert "rocm_is_available" in after(plan_tree(open_tree(candle), specs), "candle-core/src/utils.rs")


def test_without_an_edition_it_is_2021(candle: Path) -> None:
    replace_in(candle / "Cargo.toml", 'edition = "2021"\n', "")

    assert rust_edition(open_tree(candle)) == "2021"


# --- phases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phases", [None, [], list(READY), [*reversed(READY), 0]])
def test_phases_are_ascending_and_all_that_are_ready_by_default(specs: LoadedSpecs, phases: list[int] | None) -> None:
    assert [spec.phase for spec in phase_specs(specs, phases)] == list(READY)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([8], f"phase 8 cannot be applied in this version\n  = help: ready phases: {', '.join(map(str, READY))}"),
        ([0, 9], f"phase 9 cannot be applied in this version\n  = help: ready phases: {', '.join(map(str, READY))}"),
        ([1], "phase 1 needs phase 0\n  = help: add --phase 0, or apply it first"),
    ],
)
def test_phases_that_cannot_be_planned(specs: LoadedSpecs, phases: list[int], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        phase_specs(specs, phases)

    assert str(caught.value) == f"usage error: {message}"
    assert caught.value.exit_code is ExitCode.USAGE


# --- edits that break the text -----------------------------------------------------------------------------------


def broken_edits(monkeypatch: pytest.MonkeyPatch, *made: Edit) -> None:
    def edits(*_: object, **__: object) -> Mapping[str, tuple[Edit, ...]]:
        return {made[0].path: made}

    monkeypatch.setattr(EditPlanner, "edits", edits)


def test_the_rule_that_breaks_the_text_is_named(
    pristine: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = (Origin(f"core.{name}", "specs/phases/1-core.yaml:1", 1) for name in ("good", "bad"))
    tree = open_tree(pristine)
    end = len(tree.read(LIB))
    broken_edits(monkeypatch, Edit(LIB, 0, 0, "//! More.\n", good), Edit(LIB, end, end, "pub fn a( {}\n", bad))

    with pytest.raises(TemplateInvalid) as caught:
        plan_tree(tree, specs, scan=scan_tree(tree, specs))

    line = tree.read(LIB).count(b"\n") + 2
    message = str(caught.value)
    assert message.startswith(f"invalid template: {LIB}:{line}:")
    assert f"the edits of core.bad would leave text that does not parse\n  {line} | pub fn a( {{}}\n" in message
    assert "correct the rule's template, or use override at the site if the text is mirrored" in message
    assert caught.value.exit_code is ExitCode.SPEC_INVALID


def test_text_that_was_broken_before_may_stay_broken(
    candle: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grammar does not know all of Rust; where it failed before, it may fail again, but not once more."""
    origin = Origin("core.good", "specs/phases/1-core.yaml:1", 1)
    with (candle / LIB).open("a") as file:
        file.write("type Odd = Box<dyn 'static + Fn()>;\n")
    tree = open_tree(candle)
    assert Source.parse(LIB, tree.read(LIB)).error_ranges(), "choose something else that the grammar does not know"
    broken_edits(monkeypatch, Edit(LIB, 0, 0, "//! More.\n", origin))

    plan_tree(tree, specs, scan=scan_tree(tree, specs))
