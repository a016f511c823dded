"""From one release of Candle to another, or from one candle-rocm to the next, with the owner's edits kept.

Two merges, both by git (tree_merge.py). The first is of Candle alone: what its owner changed in the old release goes
into the new one, without anything of ours. That tree is planned as any other. The second merge puts the edits that were
made in patched files into what the plan makes of them. So each side of a conflict is a text that somebody wrote, and
what candle-rocm generates is generated anew.

Where the new release was merged into the patched tree by git, the first merge is that one, and the old patch is taken
out of its result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codegen import __version__, beneath
from codegen.candle.reading import plain_files, read_below
from codegen.candle.tree import SKIPPED_FOLDERS, CandleTree, open_tree
from codegen.errors import CandleRocmError, Conflict, PhaseOrder, Problem, UsageError
from codegen.patch.tree_merge import BASE, THEIRS, MergedTree, merged_trees
from codegen.record import transaction
from codegen.record.git import mark_unmerged, require_clean
from codegen.record.record import RecordHeader, sha256, text_of
from codegen.record.swaps import Renewal, names_rocm
from codegen.record.texts import Texts
from codegen.terminal import shown_name
from codegen.workspace.analysis import analyse
from codegen.workspace.declare import planned_texts
from codegen.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from codegen.patch.tree_merge import Files, TreeConflict
    from codegen.record.record import Record
    from codegen.workspace.analysis import Analysis

Text = bytes | None
"""Of a file; None where there is none."""
_PROGRAM = 0o100
_MARK = re.compile(rb"^<{7} ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade makes of a tree."""

    old: str
    """The release that the phases are for, and the one that they will be for."""
    new: str
    changed: Mapping[str, Text]
    """Every file that becomes another, as it becomes."""
    before: frozenset[str]
    """Those of them that there are already."""
    generated: frozenset[str]
    """Files that the phases write or wrote."""
    kept: tuple[str, ...]
    """Patched files with edits of the owner's, which are in what they become."""
    conflicts: tuple[TreeConflict, ...]
    analysis: Analysis
    renewal: Renewal = field(repr=False)


def plan_upgrade(
    workspace: Workspace,
    *,
    to: CandleTree | None = None,
    base: CandleTree | None = None,
    release: Callable[[str], CandleTree],
    leave_unknown: bool = False,
    allow_dirty: bool = False,
) -> Upgrade:
    """What becomes of the patched tree of a workspace that was opened as it is. Nothing is written.

    `to` is the new release, by default the one that the tree says it is; `base` is the one that the tree was made from,
    by default the one that its record names; `release` gives a published one.

    Raises `PhaseOrder` where nothing is applied, `DirtyTree`, `UsageError` for a release that does not go with what was
    merged, `Conflict` where a text of an edited file cannot be found or marks of a conflict are left, and as `analyse`
    and `merged_trees`.
    """
    record = workspace.record
    if record is None:
        raise PhaseOrder("no phase is applied: there is nothing to upgrade", remedy="candle-rocm apply")
    if not allow_dirty:
        require_clean(workspace.root, record)
    if to is not None and workspace.merged and to.release != workspace.tree.release:
        raise UsageError(
            f"Candle {workspace.tree.release} was merged into the tree, which cannot go to {to.release} with it",
            remedy="leave out --to, or undo the merge",
        )
    old = _Old(workspace, record)
    new = old.without_the_patch(release) if workspace.merged else old.with_candle_of(to, base, release)
    tree = CandleTree(workspace.root, "", ()).with_overlay({**old.pristine, **new.texts})
    analysis = analyse(
        Workspace(workspace.root, tree, None),
        phases=workspace.applied,
        gating=workspace.gating(None),
        runtime=workspace.runtime(None),
        leave_unknown=leave_unknown,
    )
    return old.upgraded(tree, new, analysis)


def upgrade(workspace: Workspace, planned: Upgrade) -> None:
    """Write it: all files or none. Then git, where it has the tree, is told of the conflicts.

    Raises as `transaction.upgrade_phases`, and `InputOutputError` where git does not listen; then all is written.
    """
    plan = planned.analysis.plan
    transaction.upgrade_phases(
        workspace.root, planned.renewal, RecordHeader(__version__, planned.new, plan.gating, plan.runtime)
    )
    mark_unmerged(workspace.root, {each.path: each.stages for each in planned.conflicts})


@dataclass(frozen=True, slots=True)
class _New:
    """Candle's own side of the tree after the first merge."""

    texts: Mapping[str, Text]
    """Files that become others than those of the pristine tree."""
    bases: Mapping[str, Text]
    """What both sides made their changes from, of the files that were in conflict: the old release's."""
    executable: frozenset[str] = frozenset()


class _Old:
    """The tree as it stands, and what the record knows of it."""

    def __init__(self, workspace: Workspace, record: Record) -> None:
        self._workspace = workspace
        self._root = workspace.root
        self._record = record
        self._files = plain_files(workspace.root, SKIPPED_FOLDERS)
        self._read: dict[str, Text] = {}
        texts = Texts(workspace.root, record, planned_texts(workspace) if _is_edited(workspace, record) else None)
        self.pristine: Mapping[str, Text] = texts.pristine()
        """Of each patched file, without all phases."""
        self.patched = {path: self._as_written(texts, path, digest) for path, digest in record.left().items()}
        """Of each, as the phases left it."""
        _require_no_marks({path: self._now(path) for path in self.patched})

    def with_candle_of(
        self, to: CandleTree | None, base: CandleTree | None, release: Callable[[str], CandleTree]
    ) -> _New:
        """What the owner changed in the old release, put into the new one."""
        here = self._workspace.tree.release
        if to is None or (base is None and to.release == here and not _is_elsewhere(to)):
            return _New({}, {})
        old, new = _all_texts(base or release(self._record.header.release)), _all_texts(to)
        differing = {path for path in {*old, *new} if old.get(path) != new.get(path)}
        ours = {path: self._pristine(path) for path in {*old, *new}}
        # Where the owner renamed a file, it is one that is gone, and one that is new.
        lost = {path for path in old if ours[path] is None}
        made = {path for path in self._files if path not in old and path not in self.patched} if lost else set()
        wanted = {*differing, *lost, *made}
        mine = {path: ours[path] if path in ours else self._pristine(path) for path in wanted}
        merged = merged_trees(
            _only(old, wanted), _there(mine), _only(new, wanted), names=("this tree", f"Candle {to.release}")
        )
        texts: dict[str, Text] = {path: merged.files.get(path) for path in {*wanted, *merged.files}}
        bases: dict[str, Text] = {}
        for each in merged.conflicts:
            # What is in conflict is planned as the new release has it; the second merge sees both sides.
            texts[each.path], bases[each.path] = each.stages.get(THEIRS), each.stages.get(BASE)
        changed = {path: text for path, text in texts.items() if text != self._pristine(path)}
        return _New(changed, bases, _programs(to.root, changed))

    def without_the_patch(self, release: Callable[[str], CandleTree]) -> _New:
        """The tree into which git merged the new release, without what the old phases wrote."""
        now = {path: self._now(path) for path in self.patched}
        merged = merged_trees(
            self.patched, _there(now), _there(self.pristine), names=("this tree", "without the patch")
        )
        texts: dict[str, Text] = {path: merged.files.get(path) for path in {*self.patched, *merged.files}}
        bases: dict[str, Text] = {}
        if merged.conflicts:
            version = self._workspace.tree.release
            new, old = release(version), release(self._record.header.release)
            for path in (each.path for each in merged.conflicts):
                if (mine := now.get(path)) is not None and not names_rocm(mine):
                    texts[path] = mine  # git was told to take upstream's side
                elif self.pristine.get(path) is not None and old.exists(path):
                    texts[path], bases[path] = _text(new, path), old.read(path)
                else:  # a file that Candle does not have
                    texts[path], bases[path] = self.pristine.get(path), self.patched.get(path)
        return _New({path: text for path, text in texts.items() if text != self.pristine.get(path, b"")}, bases)

    def upgraded(self, tree: CandleTree, new: _New, analysis: Analysis) -> Upgrade:
        """The second merge: the owner's edits of patched files, into what the plan makes of them."""
        planned = {change.path: change.after for change in analysis.plan.changes}
        paths = {*new.texts, *self.patched, *planned}

        theirs = {path: planned[path] if path in planned else _text(tree, path) for path in paths}
        ours = {path: self._now(path) for path in paths}
        # Of a merged tree, whose edits are in Candle's own side by now, only what is in conflict is looked at again.
        base = {path: ours[path] if self._workspace.merged else self.patched.get(path, ours[path]) for path in paths}
        base |= new.bases
        merged = self._merged(base, ours, theirs, tree.release)
        final: dict[str, Text] = {path: merged.files.get(path) for path in {*paths, *merged.files}}
        conflicting = {each.path for each in merged.conflicts}
        edited = {path for path in planned if final[path] not in (None, planned[path]) and path not in conflicting}
        declared = frozenset(edited & self._record.own.keys())
        before = dict(new.texts)
        for phase in reversed(analysis.plan.phases):
            before |= {change.path: change.before for change in phase.changes}
        now = {path: self._now(path) for path in {*final, *before}}
        found = {path: None if text is None else sha256(text) for path, text in now.items()}
        changed = {path: text for path, text in final.items() if text != now[path]}
        renewal = Renewal(analysis.plan.phases, before, final, found, declared, new.executable)
        return Upgrade(
            old=self._record.header.release,
            new=tree.release,
            changed=changed,
            before=frozenset(path for path in changed if found[path] is not None),
            generated=frozenset({*self.patched, *planned}),
            kept=tuple(sorted(edited)),
            conflicts=merged.conflicts,
            analysis=analysis,
            renewal=renewal,
        )

    def _merged(
        self, base: Mapping[str, Text], ours: Mapping[str, Text], theirs: Mapping[str, Text], release: str
    ) -> MergedTree:
        if base == ours:
            return MergedTree(_there(theirs), ())
        return merged_trees(
            _there(base), _there(ours), _there(theirs), names=("this tree", f"Candle {release} with ROCm")
        )

    def _pristine(self, path: str) -> Text:
        """What the file is without all phases."""
        if path in self.pristine:
            return self.pristine[path]
        return self._now(path) if path in self._files else None

    def _now(self, path: str) -> Text:
        """What the file is. It is read once: what is merged is what the transaction then has to find there."""
        if path not in self._read:
            self._read[path] = text_of(self._root, path)
        return self._read[path]

    def _as_written(self, texts: Texts, path: str, digest: str) -> bytes:
        text = texts.get(path, digest)
        if text is None:
            raise Conflict(
                f"{shown_name(path)} was edited, and what candle-rocm {self._record.header.tool_version} wrote there "
                "cannot be found",
                remedy="commit patched trees before you edit them; here, upgrade with that version of candle-rocm "
                "first, or declare the edits with it",
            )
        return text


def _require_no_marks(texts: Mapping[str, Text]) -> None:
    left = [path for path, text in texts.items() if _MARK.search(text or b"")]
    if left:
        raise Conflict(
            [Problem(f"{shown_name(path)} has a conflict that is not resolved") for path in sorted(left)],
            remedy="resolve it first",
        )


def _is_edited(workspace: Workspace, record: Record) -> bool:
    return workspace.merged or bool(record.condition(workspace.root).edited)


def _is_elsewhere(tree: CandleTree) -> bool:
    """Whether it is somebody's folder, and not a published release, of which the version says what it is."""
    try:
        return tree.root.resolve() != open_tree(tree.release, offline=True).root.resolve()
    except CandleRocmError:
        return True


def _all_texts(tree: CandleTree) -> Files:
    paths = plain_files(tree.root, SKIPPED_FOLDERS) - tree.overlay.keys()
    on_disk = {path: read_below(tree.root, path, largest=beneath.LARGEST) for path in sorted(paths)}
    return {**on_disk, **_there(tree.overlay)}


def _text(tree: CandleTree, path: str) -> Text:
    return tree.read(path) if tree.exists(path) else None


def _programs(root: Path, paths: Iterable[str]) -> frozenset[str]:
    files = ((path, root / path) for path in paths)
    return frozenset(path for path, file in files if file.is_file() and file.stat().st_mode & _PROGRAM)


def _only(files: Files, paths: Iterable[str]) -> Files:
    return {path: files[path] for path in paths if path in files}


def _there(files: Mapping[str, Text]) -> Files:
    return {path: text for path, text in files.items() if text is not None}
