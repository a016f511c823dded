"""What is written, what is refused, and what `check` finds: the plan against the tree and its record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from made_up import CORE_MANIFEST, DEVICE, LIB, READY, STORAGE, replace_in, tree_hash

from codegen.errors import (
    CandleRocmError,
    Conflict,
    ExitCode,
    ForeignBackend,
    HandEdited,
    InputOutputError,
    PhaseOrder,
    UsageError,
)
from codegen.record.disk import Disk
from codegen.spec.kinds import Gating, Runtime
from codegen.workspace.apply import Deviation, apply_phases, deviations, revert_phases
from codegen.workspace.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from in_process import CommandLine

ALL = list(READY)
AFTER_SETUP = ALL[1:]
NEW = "candle-core/src/rocm_backend/mod.rs"


@pytest.fixture
def tree(candle: Path, candle_rocm: CommandLine) -> Path:
    """The made-up tree, with the command line's settings in force."""
    return candle


def apply(
    root: Path, *phases: int, gating: Gating = Gating.DUMMY, runtime: Runtime = Runtime.ROCM_RS, force: bool = False
) -> list[int]:
    done = apply_phases(open_workspace(root), phases=phases, gating=gating, runtime=runtime, force=force)
    return [phase.phase for phase in done.plan.phases]


def check(root: Path, *phases: int, gating: Gating = Gating.DUMMY) -> tuple[Deviation, ...]:
    return deviations(open_workspace(root), phases=phases, gating=gating, runtime=Runtime.ROCM_RS)


# --- apply -------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_applied(tree: Path) -> None:
    assert apply(tree, 0) == [0]
    assert apply(tree) == AFTER_SETUP
    assert apply(tree) == []
    assert apply(tree, 0) == []
    assert apply(tree, 1, 0) == []


def test_both_phases_named(tree: Path) -> None:
    assert apply(tree, 1, 0) == [0, 1]


@pytest.mark.parametrize(
    ("phases", "kind", "code"),
    [((1,), PhaseOrder, ExitCode.CONFLICT), ((8,), UsageError, ExitCode.USAGE), ((0, 8), UsageError, ExitCode.USAGE)],
)
def test_phases_that_cannot_be_applied(
    tree: Path, phases: tuple[int, ...], kind: type[CandleRocmError], code: ExitCode
) -> None:
    pristine = tree_hash(tree)

    with pytest.raises(kind) as caught:
        apply(tree, *phases)

    assert caught.value.exit_code is code
    assert tree_hash(tree) == pristine


@pytest.mark.parametrize("path", [STORAGE, LIB, "candle-pyo3/src/lib.rs"])
def test_a_file_that_was_patched_without_a_record_is_not_patched_again(tree: Path, path: str) -> None:
    """As after `git apply` of one file: its branches would be there twice."""
    apply(tree)
    after = (tree / path).read_bytes()
    revert_phases(open_workspace(tree))
    (tree / path).write_bytes(after)

    with pytest.raises(ForeignBackend) as caught:
        apply(tree)
    (problem,) = caught.value.problems
    assert str(problem) == f"the tree has a ROCm backend that candle-rocm has no record of: {path}"
    assert (tree / path).read_bytes() == after


def test_a_comment_about_rocm_is_no_backend(tree: Path) -> None:
    replace_in(tree / STORAGE, "impl Storage", "// No Rocm yet.\n    /// Rocm\nimpl Storage")

    assert apply(tree) == ALL


def test_hand_edits_are_named(tree: Path) -> None:
    apply(tree)
    replace_in(tree / STORAGE, "impl Storage", "// mine\nimpl Storage")
    (tree / DEVICE).unlink()
    edited = tree_hash(tree)

    with pytest.raises(HandEdited) as caught:
        apply(tree)

    assert str(caught.value) == (
        f"hand-edited files: edited since candle-rocm wrote them: {DEVICE}, {STORAGE}\n"
        "  = help: declare the edits with `candle-rocm declare` to keep them, or apply with --force to overwrite them, "
        "which keeps a backup"
    )
    assert tree_hash(tree) == edited


@pytest.mark.parametrize(
    ("edited", "again"),
    [
        (["Cargo.toml"], ALL),
        ([CORE_MANIFEST], ALL[ALL.index(4) :]),
        ([STORAGE], AFTER_SETUP),
        ([LIB], ALL[ALL.index(3) :]),
        ([STORAGE, "Cargo.toml"], ALL),
        ([], []),
    ],
)
def test_force_writes_again_from_the_first_phase_that_was_edited(
    tree: Path, edited: list[str], again: list[int]
) -> None:
    """A file that several phases write, as candle-core's manifest, has to be as the last of them left it."""
    apply(tree)
    patched = tree_hash(tree)
    for path in edited:
        with (tree / path).open("a") as file:
            file.write("# mine\n")

    assert apply(tree, force=True) == again
    assert tree_hash(tree) == patched


def test_force_applies_what_is_missing_too(tree: Path) -> None:
    apply(tree)
    patched = tree_hash(tree)
    revert_phases(open_workspace(tree), down_to=1)
    (tree / CORE_MANIFEST).write_text("# mine\n")

    assert apply(tree, force=True) == ALL
    assert tree_hash(tree) == patched


def test_force_overwrites_local_edits_of_pristine_files(tree: Path) -> None:
    """Such edits are part of the tree that is planned on, so nothing of them is lost."""
    replace_in(tree / STORAGE, "impl Storage", "// mine\nimpl Storage")

    assert apply(tree) == ALL
    assert "// mine\nimpl Storage" in (tree / STORAGE).read_text()


def test_another_gating(tree: Path) -> None:
    apply(tree, 0)
    before = tree_hash(tree)

    with pytest.raises(Conflict, match="applied with gating dummy: phase 0; it cannot be mixed with cfg"):
        apply(tree, 1, gating=Gating.CFG)
    assert tree_hash(tree) == before


def test_another_runtime(tree: Path) -> None:
    apply(tree, 0)
    before = tree_hash(tree)

    with pytest.raises(Conflict, match="applied with runtime rocm-rs: phase 0; it cannot be mixed with dynamic"):
        apply(tree, 1, runtime=Runtime.DYNAMIC)
    assert tree_hash(tree) == before


def test_another_plan(tree: Path, home: Path) -> None:
    apply(tree)
    template = home / "templates/rust/edits/new_rocm.rs.j2"
    template.write_text(template.read_text().replace("default stream", "stream"))

    with pytest.raises(Conflict, match="phase 1 was applied by other specs, or by another version of candle-rocm"):
        apply(tree)
    assert [each.path for each in check(tree)] == [DEVICE]


@pytest.mark.parametrize("share", [0.05, 0.4, 0.75])
def test_an_error_on_the_way_undoes_all_phases(tree: Path, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    pristine = tree_hash(tree)
    steps = 0

    def count(self: Disk, verb: str, path: Path) -> None:
        nonlocal steps
        steps += 1

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "step", count)
        apply(tree)
        revert_phases(open_workspace(tree), force=True)
    left = int(steps / 2 * share)

    def fail(self: Disk, verb: str, path: Path) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(Disk, "step", fail)
    with pytest.raises(InputOutputError, match="Input/output error"):
        apply(tree)
    assert tree_hash(tree) == pristine


# --- revert ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("down_to", "reverted"), [(None, ALL[::-1]), (0, ALL[::-1]), (1, AFTER_SETUP[::-1])])
def test_phases_go_in_reverse(tree: Path, down_to: int | None, reverted: list[int]) -> None:
    apply(tree)

    assert list(revert_phases(open_workspace(tree), down_to=down_to)) == reverted


def test_nothing_to_revert(tree: Path) -> None:
    with pytest.raises(PhaseOrder, match="no phase is applied: there is nothing to revert"):
        revert_phases(open_workspace(tree))
    apply(tree, 0)
    with pytest.raises(PhaseOrder, match="phase 1 is not applied: there is nothing to revert"):
        revert_phases(open_workspace(tree), down_to=1)


def test_only_edits_of_what_is_taken_back_are_in_the_way(tree: Path) -> None:
    apply(tree)
    with (tree / "Cargo.toml").open("a") as file:
        file.write("# mine\n")

    assert list(revert_phases(open_workspace(tree), down_to=1)) == AFTER_SETUP[::-1]
    with pytest.raises(HandEdited, match=r"Cargo\.toml was changed since phase 0 was applied"):
        revert_phases(open_workspace(tree))
    assert (tree / "Cargo.toml").read_text().endswith("# mine\n")


# --- check -------------------------------------------------------------------------------------------------------


def test_check_of_a_pristine_tree_names_every_file(tree: Path) -> None:
    found = {each.path: each.problem for each in check(tree)}

    assert found[STORAGE] == "is not applied"
    assert found[NEW] == "is missing"
    assert set(found.values()) == {"is not applied", "is missing"}
    assert list(found) == sorted(found)


def test_check_looks_at_the_applied_phases(tree: Path) -> None:
    apply(tree, 0)

    assert check(tree) == ()
    assert {each.problem for each in check(tree, 1)} == {"is not applied", "is missing", "differs"}


def test_check_of_a_phase_takes_those_it_needs(tree: Path) -> None:
    """phase 1 alone is no state of a tree."""
    assert check(tree, 1) == check(tree, 0, 1)
    assert check(tree, 5) == check(tree, 0, 1, 2, 3, 4, 5)
    assert check(tree, 6) == check(tree, 0, 1, 2, 3, 6)


def test_check_sees_each_kind_of_edit(tree: Path) -> None:
    apply(tree)
    pristine: Workspace = open_workspace(tree)
    (tree / STORAGE).write_bytes(pristine.tree.read(STORAGE))
    (tree / DEVICE).write_text("// mine\n")
    (tree / NEW).unlink()

    assert [(each.path, each.problem) for each in check(tree)] == [
        (DEVICE, "differs"),
        (NEW, "is missing"),
        (STORAGE, "is not applied"),
    ]


def test_check_does_not_mind_files_that_are_not_ours(tree: Path) -> None:
    apply(tree)
    (tree / "candle-core" / "notes.txt").write_text("mine\n")

    assert check(tree) == ()


@pytest.mark.parametrize("name", ["mine.rs", "ops/old.rs", "notes.txt", "deeper/still/x.hip"])
def test_check_names_a_file_too_many_in_the_backends_own_folder(tree: Path, name: str) -> None:
    apply(tree)
    path = Path(NEW).parent / name
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text("fn extra() {}\n")

    folder = "candle-core/src/rocm_backend"
    assert check(tree) == (Deviation(f"{folder}/{name}", f"is not of candle-rocm, and {folder} is its own"),)


def test_check_names_links_in_the_backends_own_folder(tree: Path, tmp_path: Path) -> None:
    apply(tree)
    (tree / NEW).with_name("there").symlink_to(tree / "candle-nn", target_is_directory=True)
    (tree / NEW).with_name("nowhere").symlink_to(tmp_path / "gone")

    assert [Path(found.path).name for found in check(tree)] == ["nowhere", "there"]

    (tree / NEW).with_name("out").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(InputOutputError, match="rocm_backend/out is a symbolic link"):
        check(tree)


def test_check_names_a_generated_file_that_is_of_no_plan(tree: Path) -> None:
    """As a test that an older candle-rocm wrote, in a folder where users have tests of their own too."""
    apply(tree)
    tests = "candle-core/tests"
    header = (tree / tests / "rocm_basic.rs").read_text().splitlines()[0]
    (tree / tests / "rocm_old.rs").write_text(f"{header}\n#[test] fn old() {{}}\n")
    (tree / tests / "my_rocm.rs").write_text("#[test] fn mine() {}\n")

    problem = "says that candle-rocm generated it, which it does not"
    assert check(tree) == (Deviation(f"{tests}/rocm_old.rs", problem),)


def test_a_file_too_many_is_an_exit_code(tree: Path, candle_rocm: CommandLine) -> None:
    apply(tree)
    (tree / NEW).with_name("mine.rs").write_text("")
    result = candle_rocm("check", tree)

    assert result.code == ExitCode.CHANGES_NEEDED
    assert result.stdout.startswith("candle-core/src/rocm_backend/mine.rs: ")
