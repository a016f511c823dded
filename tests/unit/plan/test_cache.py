"""The plan cache: every byte counts, damage is no harm, and what comes back is what was planned."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import copy_of_home
from made_up import CORE_MANIFEST, DEVICE, UNTRIED, candle_tree

from codegen.candle.tree import open_tree
from codegen.plan import cache
from codegen.plan.build import plan_tree
from codegen.plan.decide import scan_tree
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating
from codegen.spec.loader import load_specs
from codegen.workspace.analysis import Analysis, analyse
from codegen.workspace.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from in_process import CommandLine

KEY = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Planned:
    """A tree, the specs in a folder of the test's own, and what was planned."""

    root: Path
    home: Path
    analysis: Analysis

    def key(self, *, phases: tuple[int, ...] = (0, 1), gating: str = "dummy", runtime: str = "rocm-rs") -> str:
        return cache.fingerprint(open_tree(self.root), phases=phases, gating=gating, runtime=runtime)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    folder = tmp_path_factory.mktemp("planned")
    root = candle_tree(folder / "candle")
    tree, specs = open_tree(root), load_specs()
    scan = scan_tree(tree, specs)
    with pytest.MonkeyPatch.context() as patch:
        home = copy_of_home(folder / "home", patch)
        yield Planned(root, home, Analysis(plan_tree(tree, specs, scan=scan), scan.decisions))


def remember(folder: Path, planned: Planned) -> Path:
    cache.remember(folder, KEY, planned.analysis.plan, planned.analysis.decisions, tried=True)
    return folder / f"{KEY}.json"


# --- the key -----------------------------------------------------------------------------------------------------


def everything(planned: Planned) -> list[Path]:
    """Every file that a plan depends on."""
    rust = planned.root.rglob("*.rs")
    manifests = planned.root.rglob("Cargo.toml")
    kernels = (path for path in (planned.home / "generated").rglob("*") if path.is_file())
    return sorted([*rust, *manifests, *planned.home.rglob("*.yaml"), *planned.home.rglob("*.j2"), *kernels])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_law_any_byte_of_any_file_changes_the_key(planned: Planned, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(everything(planned)))
    content = path.read_bytes()
    at = data.draw(st.integers(0, max(0, len(content) - 1)))
    before = planned.key()

    try:
        if path.name == "Cargo.toml":
            path.write_bytes(content + b"# more\n")
        else:
            path.write_bytes(content[:at] + bytes([(content[at : at + 1] or b"x")[0] ^ 1]) + content[at + 1 :])
        assert planned.key() != before
    finally:
        path.write_bytes(content)
    assert planned.key() == before


def test_choices_change_the_key(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {planned.key(), planned.key(phases=(0,)), planned.key(phases=(0, 1, 2))}
    keys |= {planned.key(gating="cfg"), planned.key(runtime="dynamic")}
    assert len(keys) == 5

    before = planned.key()
    monkeypatch.setenv("RUSTUP_TOOLCHAIN", "nightly")
    assert planned.key() != before


@pytest.mark.parametrize("name", [".cargo/config.toml", "rustfmt.toml", ".rustfmt.toml", "candle-nn/src/new.rs"])
def test_a_file_that_appears_changes_the_key(planned: Planned, name: str) -> None:
    before = planned.key()
    path = planned.root / name
    path.parent.mkdir(exist_ok=True)

    path.write_text("")
    try:
        assert planned.key() != before
    finally:
        path.unlink()
    assert planned.key() == before


def test_a_file_that_moves_changes_the_key(planned: Planned) -> None:
    before = planned.key()
    here, there = planned.root / "candle-nn/src/ops.rs", planned.root / "candle-nn/src/moved.rs"

    here.rename(there)
    try:
        assert planned.key() != before
    finally:
        there.rename(here)


def test_what_a_plan_does_not_depend_on_does_not_count(planned: Planned, tmp_path: Path) -> None:
    before = planned.key()

    (planned.root / "README.md").write_text("Another text.\n")
    os.utime(planned.root / DEVICE)
    elsewhere = shutil.copytree(planned.root, tmp_path / "elsewhere")

    assert planned.key() == before
    assert cache.fingerprint(open_tree(elsewhere), phases=(0, 1), gating="dummy", runtime="rocm-rs") == before


def test_without_rustfmt_there_is_a_key_too(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    before = planned.key()
    monkeypatch.setenv("PATH", "")

    assert planned.key() != before


# --- the entry ---------------------------------------------------------------------------------------------------


def test_what_comes_back_is_what_was_planned(planned: Planned, tmp_path: Path) -> None:
    for tried in (True, False):
        cache.remember(tmp_path, KEY, planned.analysis.plan, planned.analysis.decisions, tried=tried)

        recalled = cache.recall(tmp_path, KEY, open_tree(planned.root))

        assert recalled == (planned.analysis.plan, planned.analysis.decisions, tried)


def test_nothing_is_there_at_first(planned: Planned, tmp_path: Path) -> None:
    assert cache.recall(tmp_path / "nowhere", KEY, open_tree(planned.root)) is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_law_a_damaged_entry_counts_as_none(
    planned: Planned, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    entry = remember(folder, planned)
    content = entry.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    harm = data.draw(st.sampled_from(["cut", "flip", "insert", "drop"]))

    entry.write_bytes(
        {
            "cut": content[:at],
            "flip": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
            "insert": content[:at] + b" " + content[at:],
            "drop": content[:at] + content[at + 1 :],
        }[harm]
    )

    assert cache.recall(folder, KEY, open_tree(planned.root)) is None


def test_a_folder_that_cannot_be_written_to_is_no_error(planned: Planned, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    remember(tmp_path / "file", planned)
    remember(tmp_path / "file" / "below", planned)

    assert (tmp_path / "file").read_text() == "in the way"


def test_the_oldest_entries_go_first(planned: Planned, tmp_path: Path) -> None:
    for number in range(cache.KEPT + 3):
        cache.remember(tmp_path, f"{number:04}", planned.analysis.plan, (), tried=True)
        os.utime(tmp_path / f"{number:04}.json", (number, number))
    cache.remember(tmp_path, "last", planned.analysis.plan, (), tried=True)

    left = sorted(path.stem for path in tmp_path.iterdir())
    assert len(left) == cache.KEPT
    assert left[0] == "0004"
    assert left[-1] == "last"


def test_a_failing_write_leaves_nothing_behind(
    planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("codegen.own_folder.os.rename", full)
    remember(tmp_path, planned)

    assert list(tmp_path.iterdir()) == []


# --- analysis ----------------------------------------------------------------------------------------------------


def fresh(workspace: Workspace, gating: Gating) -> Analysis:
    scan = scan_tree(workspace.tree, workspace.specs, gating=gating)
    return Analysis(plan_tree(workspace.tree, workspace.specs, gating=gating, scan=scan), scan.decisions)


@pytest.mark.parametrize("gating", Gating)
def test_a_recalled_analysis_equals_a_fresh_one(
    candle: Path, candle_rocm: CommandLine, own_cache: Path, monkeypatch: pytest.MonkeyPatch, gating: Gating
) -> None:
    first = analyse(open_workspace(candle), gating=gating, runtime=DEFAULT_RUNTIME)
    monkeypatch.setattr("codegen.plan.build.plan_tree", None)  # it would be an error to plan again

    second = analyse(open_workspace(candle), gating=gating, runtime=DEFAULT_RUNTIME)

    assert first == second == fresh(open_workspace(candle), gating)


def test_an_applied_tree_has_the_analysis_of_the_pristine_one(
    candle: Path, candle_rocm: CommandLine, own_cache: Path
) -> None:
    before = analyse(open_workspace(candle), gating=Gating.DUMMY, runtime=DEFAULT_RUNTIME)
    candle_rocm.ok("apply", candle)
    assert open_workspace(candle).record is not None
    assert (candle / CORE_MANIFEST).read_bytes() != before.plan.changes[0].before

    assert analyse(open_workspace(candle), gating=Gating.DUMMY, runtime=DEFAULT_RUNTIME) == before
    assert fresh(open_workspace(candle), Gating.DUMMY) == before


def test_an_untried_release_is_said_to_be_so_every_time(
    tmp_path: Path, candle_rocm: CommandLine, own_cache: Path
) -> None:
    workspace = open_workspace(candle_tree(tmp_path / "candle", UNTRIED))
    said: list[str] = []

    for _ in range(2):
        analyse(workspace, gating=Gating.DUMMY, runtime=DEFAULT_RUNTIME, on_untried=lambda: said.append("untried"))

    assert said == ["untried", "untried"]


def test_one_phase_of_an_analysis(candle: Path, candle_rocm: CommandLine) -> None:
    whole = analyse(open_workspace(candle), gating=Gating.DUMMY, runtime=DEFAULT_RUNTIME)

    assert whole.only(()) == whole
    assert [phase.phase for phase in whole.only((1,)).plan.phases] == [1]
    assert whole.only((1,)).decisions == whole.decisions
