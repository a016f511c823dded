"""Whatever is applied, taken back, edited and interrupted, the tree is what the record says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from phased import (
    HEADER,
    MEMORY,
    Faulty,
    Killed,
    apply_phase,
    but_backups,
    changes_of,
    grow,
    no_space,
    phase,
    planted,
    revert_phase,
    snapshot,
    unsynced,
)

from codegen.errors import HandEdited, InputOutputError
from codegen.patch.changes import FileChange, PhaseChanges
from codegen.record.disk import DISK, Disk
from codegen.record.record import load_record
from codegen.record.texts import pristine_overlay
from codegen.record.transaction import apply_phases, recover, revert_phases
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with unsynced():
        yield


NAMES = st.sampled_from(["a.rs", "b.rs", "x/a.rs", "x/y/b.rs", "z/é ü.rs"])
CONTENTS = st.binary(max_size=12)
MODES = st.sampled_from([0o644, 0o600, 0o755])
TREES = st.dictionaries(NAMES, st.tuples(CONTENTS, MODES), max_size=5)
PHASES = st.dictionaries(NAMES, CONTENTS, max_size=5)


@settings(max_examples=30, deadline=None)
@given(TREES, PHASES)
def test_apply_then_revert_is_identity(files: dict[str, tuple[bytes, int]], phase: dict[str, bytes]) -> None:
    with planted(files) as root:
        before = snapshot(root, with_record=True)
        record = apply_phase(root, 0, changes_of(root, phase), HEADER)

        assert {name: (root / name).read_bytes() for name in phase} == phase
        assert record.hand_edited(root) == ()
        assert revert_phase(root) is None
        assert snapshot(root, with_record=True) == before


@settings(max_examples=30, deadline=None)
@given(TREES, PHASES, PHASES)
def test_reverting_the_second_phase_leaves_the_first(
    files: dict[str, tuple[bytes, int]], first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    with planted(files) as root:
        apply_phase(root, 0, changes_of(root, first), HEADER)
        after_first = snapshot(root, with_record=True)
        record = apply_phase(root, 3, changes_of(root, second), HEADER)
        pristine = pristine_overlay(root, record)

        assert pristine == {name: files[name][0] if name in files else None for name in first.keys() | second.keys()}
        revert_phase(root)
        assert snapshot(root, with_record=True) == after_first


@settings(max_examples=30, deadline=None)
@given(TREES, PHASES, PHASES, PHASES)
def test_phases_at_once_are_phases_one_by_one(
    files: dict[str, tuple[bytes, int]], first: dict[str, bytes], second: dict[str, bytes], third: dict[str, bytes]
) -> None:
    with planted(files) as root:
        states = [snapshot(root, with_record=True)]
        twin = shutil.copytree(root, root.parent / "twin")
        phases = []
        for number, contents in enumerate((first, second, third)):
            phases.append(phase(number, changes_of(root, contents)))
            one_by_one = apply_phases(root, phases[-1:], HEADER)
            states.append(snapshot(root, with_record=True))

        at_once = apply_phases(twin, phases, HEADER)

        assert at_once == one_by_one
        assert snapshot(twin, with_record=True) == states[3]
        revert_phases(root, down_to=2)
        assert snapshot(root, with_record=True) == states[2]
        assert revert_phases(root) is None
        assert snapshot(root, with_record=True) == states[0]
        revert_phases(twin, down_to=1)
        assert snapshot(twin, with_record=True) == states[1]


@settings(max_examples=30, deadline=None)
@given(
    TREES,
    PHASES,
    PHASES,
    st.sampled_from(["apply", "revert"]),
    st.integers(0, 200),
    st.sampled_from([Killed, no_space]),
)
def test_two_phases_interrupted_at_any_step_are_before_or_after(
    files: dict[str, tuple[bytes, int]],
    first: dict[str, bytes],
    second: dict[str, bytes],
    verb: str,
    at: int,
    fault: Callable[[], BaseException],
) -> None:
    with planted(files) as root:
        pristine = snapshot(root, with_record=True)
        done = shutil.copytree(root, root.parent / "done")
        phases = [phase(0, changes_of(done, first))]
        apply_phases(done, phases, HEADER)
        phases.append(phase(1, changes_of(done, second)))
        apply_phases(done, phases[1:], HEADER)
        applied = snapshot(done, with_record=True)
        disk = Faulty(at, fault, forever=fault is Killed)
        if verb == "revert":
            shutil.rmtree(root)
            done.rename(root)

        try:
            if verb == "revert":
                revert_phases(root, disk=disk)
            else:
                apply_phases(root, phases, HEADER, disk=disk)
        except (Killed, InputOutputError):
            recover(root)
        else:
            recover(root)  # what is left of an empty record may not have been removed

        found = snapshot(root, with_record=True)
        assert found in (pristine, applied)
        if not disk.struck:
            assert found == (pristine if verb == "revert" else applied)


@settings(max_examples=30, deadline=None)
@given(TREES, PHASES, PHASES, st.sampled_from(["apply", "revert"]), st.integers(0, 120))
def test_interrupted_at_any_step_it_is_before_or_after(
    files: dict[str, tuple[bytes, int]], first: dict[str, bytes], second: dict[str, bytes], verb: str, at: int
) -> None:
    with planted(files) as root:
        apply_phase(root, 0, changes_of(root, first), HEADER)
        if verb == "revert":
            apply_phase(root, 1, changes_of(root, second), HEADER)
        changes = changes_of(root, second)

        def operate(where: Path, disk: Disk) -> object:
            if verb == "revert":
                return revert_phase(where, disk=disk)
            return apply_phase(where, 1, changes, HEADER, disk=disk)

        before = snapshot(root, with_record=True)
        done = shutil.copytree(root, root.parent / "done")
        operate(done, DISK)
        after = snapshot(done, with_record=True)

        try:
            operate(root, Faulty(at, Killed, forever=True))
        except Killed:
            recover(root)
        assert snapshot(root, with_record=True) in (before, after)
        record = load_record(root)
        assert record is not None
        assert record.hand_edited(root) == ()


class Maintainer(RuleBasedStateMachine):
    """Somebody applies, reverts, edits and is interrupted in any order; a model says what the tree must hold.

    `levels[0]` is the tree without any phase, `levels[n]` the tree after the nth applied phase.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY)
        self.root = Path(self.folder.name) / "tree"
        grow(self.root, {"a.rs": b"a", "x/a.rs": b"b", "kept.rs": b"k"})
        (self.root / "x/a.rs").chmod(0o700)
        self.levels = [snapshot(self.root)]
        self.next_phase = 0

    @property
    def applied(self) -> int:
        return len(self.levels) - 1

    def ours(self) -> set[str]:
        record = load_record(self.root)
        return set(record.left()) if record is not None else set()

    @rule(phase=PHASES, skipped=st.integers(0, 1))
    def apply(self, phase: dict[str, bytes], skipped: int) -> None:
        changes = changes_of(self.root, phase)
        apply_phase(self.root, self.next_phase + skipped, changes, HEADER)
        self.next_phase += skipped + 1
        self.levels.append(snapshot(self.root))
        assert {name: (self.root / name).read_bytes() for name in phase} == phase

    @precondition(lambda self: self.applied > 0)
    @rule()
    def revert(self) -> None:
        left = revert_phase(self.root)
        self.levels.pop()
        assert (left is None) == (self.applied == 0)
        assert snapshot(self.root) == self.levels[-1]

    @precondition(lambda self: self.applied > 0)
    @rule(at=st.integers(0, 90))
    def revert_killed(self, at: int) -> None:
        before = snapshot(self.root)
        try:
            revert_phase(self.root, disk=Faulty(at, Killed, forever=True))
        except Killed:
            recover(self.root)
        record = load_record(self.root)
        if (len(record.phases) if record is not None else 0) == self.applied:
            assert snapshot(self.root) == before
        else:
            self.levels.pop()
            assert snapshot(self.root) == self.levels[-1]

    @rule(phase=PHASES, at=st.integers(0, 90))
    def apply_killed(self, phase: dict[str, bytes], at: int) -> None:
        before = snapshot(self.root)
        try:
            apply_phase(
                self.root, self.next_phase, changes_of(self.root, phase), HEADER, disk=Faulty(at, Killed, forever=True)
            )
        except Killed:
            recover(self.root)
        record = load_record(self.root)
        if (len(record.phases) if record is not None else 0) == self.applied:
            assert snapshot(self.root) == before
        else:
            self.next_phase += 1
            self.levels.append(snapshot(self.root))
            assert {name: (self.root / name).read_bytes() for name in phase} == phase

    @rule(phase=PHASES, at=st.integers(0, 90))
    def apply_on_a_full_disk(self, phase: dict[str, bytes], at: int) -> None:
        before = snapshot(self.root, with_record=True)
        disk = Faulty(at, no_space)
        try:
            apply_phase(self.root, self.next_phase, changes_of(self.root, phase), HEADER, disk=disk)
        except InputOutputError as error:
            if "not yet the record of it" not in str(error):
                assert snapshot(self.root, with_record=True) == before
                return
            recover(self.root)
        self.next_phase += 1
        self.levels.append(snapshot(self.root))

    def two(self, first: dict[str, bytes], second: dict[str, bytes]) -> list[PhaseChanges]:
        """Two phases, the second one made for what the first one leaves."""
        texts = {name: (self.root / name).read_bytes() for name in second if (self.root / name).exists()} | first
        changes = [FileChange(name, texts.get(name), content) for name, content in second.items()]
        return [phase(self.next_phase, changes_of(self.root, first)), phase(self.next_phase + 1, changes)]

    @rule(first=PHASES, second=PHASES, at=st.integers(0, 200))
    def apply_two_killed(self, first: dict[str, bytes], second: dict[str, bytes], at: int) -> None:
        before = snapshot(self.root)
        phases = self.two(first, second)
        try:
            apply_phases(self.root, phases, HEADER, disk=Faulty(at, Killed, forever=True))
        except Killed:
            recover(self.root)
        record = load_record(self.root)
        if (len(record.phases) if record is not None else 0) == self.applied:
            assert snapshot(self.root) == before
            return
        assert record is not None
        assert len(record.phases) == self.applied + 2
        after = snapshot(self.root)
        assert {name: after[name][2] for name in first | second} == first | second
        # What is between the two phases has never been on disk; taking one back shows it.
        revert_phase(self.root)
        self.levels.append(snapshot(self.root))
        assert {name: (self.root / name).read_bytes() for name in first} == first
        apply_phases(self.root, phases[1:], HEADER)
        assert snapshot(self.root) == after
        self.levels.append(after)
        self.next_phase += 2

    @rule(first=PHASES, second=PHASES, at=st.integers(0, 200))
    def apply_two_on_a_full_disk(self, first: dict[str, bytes], second: dict[str, bytes], at: int) -> None:
        before = snapshot(self.root, with_record=True)
        phases = self.two(first, second)
        try:
            apply_phases(self.root, phases, HEADER, disk=Faulty(at, no_space))
        except InputOutputError as error:
            if "not yet the record of it" not in str(error):
                assert snapshot(self.root, with_record=True) == before
                return
            recover(self.root)
        after = snapshot(self.root, with_record=True)
        revert_phases(self.root, down_to=self.next_phase)
        assert snapshot(self.root, with_record=True) == before
        for single in phases:
            apply_phases(self.root, [single], HEADER)
            self.levels.append(snapshot(self.root))
        assert snapshot(self.root, with_record=True) == after
        self.next_phase += 2

    @precondition(lambda self: self.applied > 1)
    @rule(data=st.data(), at=st.integers(0, 200))
    def revert_several_killed(self, data: st.DataObject, at: int) -> None:
        record = load_record(self.root)
        assert record is not None
        left = data.draw(st.integers(0, self.applied - 2))
        try:
            revert_phases(self.root, down_to=record.phases[left].phase, disk=Faulty(at, Killed, forever=True))
        except Killed:
            recover(self.root)
        record = load_record(self.root)
        if (len(record.phases) if record is not None else 0) == left:
            del self.levels[left + 1 :]

    @precondition(lambda self: self.applied > 0)
    @rule(data=st.data(), at=st.integers(0, 200))
    def apply_again_killed(self, data: st.DataObject, at: int) -> None:
        """Phases from one on are written anew, with one file that somebody edited."""
        record = load_record(self.root)
        assert record is not None
        from_level = data.draw(st.integers(0, self.applied - 1))
        phases = []
        for level, applied in enumerate(record.phases[from_level:], from_level):
            old, new = self.levels[level], self.levels[level + 1]
            changes = [
                FileChange(file.path, old[file.path][2] if file.path in old else None, new[file.path][2])
                for file in applied.files
            ]
            phases.append(phase(applied.phase, changes))
        names = sorted({file.path for applied in record.phases[from_level:] for file in applied.files})
        if names:
            (self.root / data.draw(st.sampled_from(names))).write_bytes(b"mine")
        before = snapshot(self.root)
        try:
            apply_phases(self.root, phases, HEADER, again=True, force=True, disk=Faulty(at, Killed, forever=True))
        except Killed:
            recover(self.root)
        if snapshot(self.root) != self.levels[-1]:
            assert snapshot(self.root) == before
            apply_phases(self.root, phases, HEADER, again=True, force=True)

    @precondition(lambda self: self.applied > 0)
    @rule(data=st.data())
    def edit_and_take_back(self, data: st.DataObject) -> None:
        record = load_record(self.root)
        assert record is not None
        names = [file.path for file in record.last.files]
        if not names:
            return
        name = data.draw(st.sampled_from(names))
        content = (self.root / name).read_bytes()
        (self.root / name).write_bytes(content + b"!")
        before = snapshot(self.root, with_record=True)

        assert record.hand_edited(self.root) == (name,)
        with pytest.raises(HandEdited, match="was changed since phase"):
            revert_phase(self.root)
        assert snapshot(self.root, with_record=True) == before
        (self.root / name).write_bytes(content)

    @invariant()
    def tree_and_record_agree(self) -> None:
        record = load_record(self.root)
        assert snapshot(self.root) == self.levels[-1]
        assert (len(record.phases) if record is not None else 0) == self.applied
        kept = (self.root / FOLDER / "local/backups").exists()  # of what `force` overwrote, for good
        assert (self.root / FOLDER).exists() == (record is not None or kept)
        assert recover(self.root) is False
        if record is not None:
            assert record.hand_edited(self.root) == ()
            pristine = {name: entry[2] for name, entry in self.levels[0].items()}
            assert pristine_overlay(self.root, record) == {name: pristine.get(name) for name in self.ours()}

    def teardown(self) -> None:
        for _ in range(self.applied):
            revert_phase(self.root)
        assert but_backups(snapshot(self.root, with_record=True)) == self.levels[0]
        self.folder.cleanup()


TestMaintainer = Maintainer.TestCase
TestMaintainer.settings = settings(max_examples=30, stateful_step_count=8, deadline=None)
