"""What the files of a patched tree were: derived from whatever still has it, and checked against the record's hashes.

Tried in this order, and believed only where the hash fits:

    the file itself, with the edits that undo phases taken from the record
    what is kept in `.candle-rocm/local/originals`
    texts that the caller has at hand, such as those of a plan
    git's objects
    the published release, where it is in the cache

So a clone needs nothing but its files and the record, and nothing that lies about can be stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.candle.reading import read_below
from codegen.errors import CandleRocmError, Conflict, Problem
from codegen.patch.undo import undone
from codegen.record import git
from codegen.record.home import Home, unreadable
from codegen.record.record import AppliedFile, Record, sha256, target_of, within_all
from codegen.terminal import shown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codegen.patch.undo import Undo

LISTED = 10


@dataclass(frozen=True, slots=True)
class _Step:
    """One text of a file in the order in which it came about."""

    digest: str | None
    blob: str | None
    undo: Undo | None
    """To the text before."""
    phase: int | None
    """The phase before which the file had this text."""


class Texts:
    """The texts of the files that a record names."""

    def __init__(self, root: Path, record: Record, given: Mapping[str, bytes] | None = None) -> None:
        self._root = root
        self._home = Home.of(root)
        self._record = record
        self._given = given or {}
        """Texts by hash."""
        self._steps = dict(_steps(record))
        self._found: dict[str, bytes | None] = {}

    def pristine(self) -> Mapping[str, bytes | None]:
        """What every touched file was before all phases, None where it did not exist. Raises `Conflict`."""
        overlay: dict[str, bytes | None] = {}
        missing: list[tuple[int, AppliedFile]] = []
        size = 0
        for phase in self._record.phases:
            for file in phase.files:
                if file.path in overlay:
                    continue
                content = overlay[file.path] = self._of(file.path, file.before)
                if content is None and file.before is not None:
                    missing.append((phase.phase, file))
                size = within_all(size + len(content or b""), self._home.folder)
        if missing:
            raise self._lost(missing)
        return overlay

    def before(self, phase: int, file: AppliedFile) -> bytes | None:
        """The bytes that `file` had before `phase`, None when it did not exist. Raises `Conflict`."""
        found = self._of(file.path, file.before)
        if found is None and file.before is not None:
            raise self._lost([(phase, file)])
        return found

    def get(self, path: str, digest: str) -> bytes | None:
        """The text of `path` with that hash, None where nothing has it."""
        return self._of(path, digest)

    def attributes(self, digest: str | None) -> beneath.Attributes:
        """The extended attributes of the file when it was kept, none where it is not."""
        found = None if digest is None else self._read(self._home.original(digest))
        return () if found is None else found.attributes

    def _of(self, path: str, digest: str | None) -> bytes | None:
        if digest is None:
            return None
        if digest not in self._found:
            self._found[digest] = next(self._candidates(path, digest), None)
        return self._found[digest]

    def _candidates(self, path: str, digest: str) -> Iterator[bytes]:
        steps = self._steps.get(path, ())
        wanted = next((index for index, step in enumerate(steps) if step.digest == digest), None)
        if wanted is None:
            yield from self._near(path, _Step(digest, None, None, None))
            return
        for is_near in (True, False):
            for index in range(wanted, len(steps)):
                for text in self._near(path, steps[index]) if is_near else self._committed(steps[index]):
                    if (back := _taken_back(text, steps[wanted : index + 1])) is not None:
                        yield back
        if wanted == 0:
            yield from self._published(path, digest)

    def _near(self, path: str, step: _Step) -> Iterator[bytes]:
        """On this disk: the file, what is kept, what the caller has."""
        if step.digest is None:
            return
        for text in (self._now(path), self._kept(path, step), self._given.get(step.digest)):
            if text is not None and sha256(text) == step.digest:
                yield text

    def _now(self, path: str) -> bytes | None:
        try:
            found = self._read(target_of(self._root, path), plain=True)
        except CandleRocmError:
            return None
        return None if found is None else found.data

    def _kept(self, path: str, step: _Step) -> bytes | None:
        assert step.digest is not None
        found = self._read(self._home.original(step.digest))
        if found is None and self._record.is_old and step.phase is not None:
            found = self._read(self._home.old_originals / str(step.phase) / path)
        return None if found is None else found.data

    def _read(self, path: Path, *, plain: bool = False) -> beneath.Found | None:
        try:
            return beneath.read(path, attributes=not plain)
        except IsADirectoryError:
            return None
        except OSError as error:
            if plain and not isinstance(error, PermissionError):
                return None
            raise unreadable(path, error) from error

    def _committed(self, step: _Step) -> Iterator[bytes]:
        """In git's objects."""
        text = self._blobs.get(step.blob or "")
        if text is not None and sha256(text) == step.digest:
            yield text

    @cached_property
    def _blobs(self) -> Mapping[str, bytes]:
        names = {step.blob for steps in self._steps.values() for step in steps if step.blob is not None}
        return git.blobs(self._root, names)

    def _published(self, path: str, digest: str) -> Iterator[bytes]:
        """In the release that the record names, where the cache has it: nothing is fetched unasked."""
        if self._release is None:
            return
        try:
            text = read_below(self._release, path)
        except CandleRocmError:
            return
        if sha256(text) == digest:
            yield text

    @cached_property
    def _release(self) -> Path | None:
        from codegen.candle.fetch import fetch_release

        try:
            return fetch_release(self._record.header.release, offline=True)
        except CandleRocmError:
            return None

    def _lost(self, missing: Iterable[tuple[int, AppliedFile]]) -> Conflict:
        release = self._record.header.release
        problems = [
            Problem(
                f"{shown_name(file.path)} is not as candle-rocm wrote it, and its text from before phase {phase} "
                "cannot be found"
            )
            for phase, file in missing
        ]
        more = [Problem(f"and {len(problems) - LISTED} more files")] if len(problems) > LISTED else []
        return Conflict(
            [*problems[:LISTED], *more],
            remedy="restore the file from a commit (git checkout COMMIT FILE), fetch the rest of a shallow clone "
            f"(git fetch --unshallow), or, where the tree is the published release, candle-rocm fetch {release}; "
            "then run this again",
        )


def pristine_overlay(root: Path, record: Record) -> Mapping[str, bytes | None]:
    """What every touched file was before all phases, None where it did not exist.

    Raises `Conflict` where that cannot be derived, and `InputOutputError`.
    """
    return Texts(root, record).pristine()


def _steps(record: Record) -> Iterator[tuple[str, tuple[_Step, ...]]]:
    numbers: dict[str, list[int]] = {}
    for phase in record.phases:
        for each in phase.files:
            numbers.setdefault(each.path, []).append(phase.phase)
    own = record.own
    for path, files in record.history().items():
        steps = [_Step(files[0].before, files[0].before_blob, None, numbers[path][0])]
        for index, file in enumerate(files):
            later = numbers[path][index + 1] if index + 1 < len(files) else None
            if file.before != steps[-1].digest:  # a record that was put together by hand: nothing leads further back
                steps.append(_Step(file.before, file.before_blob, None, numbers[path][index]))
            steps.append(_Step(file.after, file.after_blob, file.undo, later))
        if path in own and own[path].base == files[-1].after:
            steps.append(_Step(own[path].own, None, own[path].undo, None))
        yield path, tuple(steps)


def _taken_back(text: bytes, steps: tuple[_Step, ...]) -> bytes | None:
    """The text of the first of `steps`, from that of the last one."""
    for later, earlier in zip(reversed(steps), reversed(steps[:-1]), strict=False):
        back = None if later.undo is None else undone(text, later.undo)
        if back is None or sha256(back) != earlier.digest:
            return None
        text = back
    return text
