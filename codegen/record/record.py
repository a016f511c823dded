"""The record: what is applied to a tree, phase by phase, which edits of the user's own were declared, and hashes.

It is a small file that is committed with the tree, so clones, branches and worktrees have it (see home.py). The bytes
that files had before are not in it: they are derived again (see texts.py), from the edits that undo a phase, from what
is kept locally, or from git's objects.

The record is read with suspicion: somebody may have edited, truncated, merged, copied or made it up. It may not be a
link or lie behind one (see beneath.py), every value of it has to be one that candle-rocm writes (see fields.py), and
bytes count only when they have the hash that the record gives.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import stat
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, InputOutputError, Location, Problem
from codegen.record.fields import (
    LARGEST_DOCUMENT,
    checked_digest,
    checked_path,
    checked_phase,
    checked_undo,
    corrupt,
    decode_json,
    distinct,
    matching,
    one_of,
    only,
    shown,
    start_of,
    take,
    take_optional,
)
from codegen.record.home import Home, reading, unreadable
from codegen.release import VERSION
from codegen.spec.kinds import Gating, Runtime
from codegen.tree_path import RECORD, is_guarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from codegen.patch.undo import Undo

__all__ = ["Home", "reading"]

SCHEMA_VERSION = 2
OLD_SCHEMA = 1
"""Without `undo`, blobs and declared edits; bytes of before lay below `before/`."""
LARGEST_IN_ALL = 256 << 20
"""Bytes of all files that a record names: a hundred times what the phases of a release change."""
_WORD = re.compile(r"[0-9A-Za-z.+_-]+")
_BLOB = re.compile(r"[0-9a-f]{40}")
_MERGE_MARK = re.compile(rb"^(<{7}|>{7}|={7})( |\r?$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """What all applied phases have in common: the choices that a plan depends on. Each field is a key of the record."""

    tool_version: str
    """Of the candle-rocm that applied the last phase."""
    release: str
    gating: str
    runtime: str


@dataclass(frozen=True, slots=True)
class AppliedFile:
    """One file of an applied phase, with the SHA-256 of its bytes in hexadecimal."""

    path: str
    before: str | None
    """None when the file did not exist."""
    after: str
    mode: int | None
    """Permission bits before the phase, None when the file did not exist."""
    before_blob: str | None = None
    """Under which name git has the bytes of before, if it has; None when there were none, or in an old record."""
    after_blob: str | None = None
    undo: Undo | None = None
    """The edits that turn the bytes of after into those of before; None where they are not known."""


@dataclass(frozen=True, slots=True)
class AppliedPhase:
    """What one phase wrote."""

    phase: int
    files: tuple[AppliedFile, ...]
    folders: tuple[str, ...] = ()
    """Folders that it made, parents first."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A file with edits of the user's own, which are to stay."""

    path: str
    base: str
    """SHA-256 of what the phases left, on which the edits were made."""
    own: str
    """SHA-256 of the file with the edits."""
    undo: Undo | None
    """The edits that turn the own file into the base again."""


class State(Enum):
    """What a file that the record names is now."""

    LEFT = "as the last phase left it"
    DECLARED = "with the edits that were declared"
    TAKEN_BACK = "as it was before a phase"
    EDITED = "something else"


@dataclass(frozen=True, slots=True)
class Condition:
    """What the files that a record names are now; paths are sorted."""

    edited: tuple[str, ...]
    """Neither as a phase left them, nor as they were before one, nor as declared; missing ones are among them."""
    taken_back: tuple[str, ...]
    """As they were before one of the phases: git checkout, stash and partial commits do that."""
    undeclared: tuple[str, ...]
    """As the phases left them, without the declared edits."""
    left: int
    """How many are as they should be."""


@dataclass(frozen=True, slots=True)
class Record:
    """All applied phases, in the order in which they were applied (ascending, never empty on disk)."""

    header: RecordHeader
    phases: tuple[AppliedPhase, ...]
    declared: tuple[Declared, ...] = ()
    is_old: bool = False
    """Whether it was read from a record of schema 1."""

    @property
    def last(self) -> AppliedPhase:
        """The phase that `revert` takes back next."""
        return self.phases[-1]

    @property
    def own(self) -> dict[str, Declared]:
        """The declared edits by path."""
        return {declared.path: declared for declared in self.declared}

    def left(self) -> dict[str, str]:
        """SHA-256 per path, as the last phase that wrote the path left it."""
        return {file.path: file.after for phase in self.phases for file in phase.files}

    def history(self) -> dict[str, list[AppliedFile]]:
        """What the phases did to each path, in their order."""
        found: dict[str, list[AppliedFile]] = {}
        for phase in self.phases:
            for file in phase.files:
                found.setdefault(file.path, []).append(file)
        return found

    def states(self, root: Path) -> Iterator[tuple[str, State]]:
        """What each file of the record is now, links inside the tree followed.

        A link that points outside the tree is EDITED: nothing is read there. Raises `InputOutputError`.
        """
        size, own = 0, self.own
        for path, files in self.history().items():
            found = text_of(root, path)
            size = within_all(size + len(found or b""), root)
            digest = None if found is None else sha256(found)
            if path in own and digest == own[path].own:
                yield path, State.DECLARED
            elif digest == files[-1].after:
                yield path, State.LEFT
            elif digest is None:
                is_absent = files[0].before is None and _is_absent(root, path)
                yield path, State.TAKEN_BACK if is_absent else State.EDITED
            else:
                known = {digest_ for file in files for digest_ in (file.before, file.after)}
                yield path, State.TAKEN_BACK if digest in known else State.EDITED

    def condition(self, root: Path) -> Condition:
        """Those states, summed up. Raises `InputOutputError`."""
        states = sorted(self.states(root), key=lambda entry: entry[0])

        def paths(*wanted: State) -> tuple[str, ...]:
            return tuple(path for path, state in states if state in wanted)

        bare = tuple(path for path in paths(State.LEFT) if path in self.own)
        good = len(paths(State.LEFT, State.DECLARED)) - len(bare)
        return Condition(paths(State.EDITED), paths(State.TAKEN_BACK), bare, good)

    def hand_edited(self, root: Path) -> tuple[str, ...]:
        """Paths, sorted, of files that are nothing that the record knows. Raises `InputOutputError`."""
        return self.condition(root).edited

    def with_header(self, header: RecordHeader) -> Record:
        """The same phases under another header."""
        return replace(self, header=header)


def sha256(content: bytes) -> str:
    """SHA-256 of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def blob_name(content: bytes) -> str:
    """The name that git gives these bytes (in repositories with SHA-1, which nearly all are)."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def digest_of(root: Path, path: str) -> str | None:
    """SHA-256 of the tree's file `path`, links inside the tree followed.

    None where there is no such file: nothing there, something else than a file, a link that points outside the tree, or
    more than candle-rocm would write. Raises `InputOutputError` when it cannot be read.
    """
    found = text_of(root, path)
    return None if found is None else sha256(found)


def text_of(root: Path, path: str) -> bytes | None:
    """The bytes of the tree's file `path`, links inside the tree followed; None as `digest_of`."""
    try:
        target = target_of(root, path)
    except Conflict:
        return None
    try:
        found = beneath.read(target)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise unreadable(target, error) from error
    return None if found is None else found.data


_NO_FILE = (errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG)


def within_all(size: int, where: Path) -> int:
    if size > LARGEST_IN_ALL:
        raise InputOutputError(
            f"the record of {where} names files of more than {LARGEST_IN_ALL >> 20} MiB",
            remedy="candle-rocm did not write that record: find out who did, and start from a fresh tree",
        )
    return size


def load_record(root: Path) -> Record | None:
    """What the record says is applied to the tree, None where there is none.

    Raises `Conflict` with the location when the record is corrupt, comes from a newer candle-rocm, or, as schema 1 has
    it, was deleted while the bytes that it speaks of are still there, and `InputOutputError` when it cannot be read.
    """
    home = Home.of(root)
    if not home.exists():
        return None
    content = read_document(home.record)
    if content is None:
        if home.has_old_originals() and not home.is_interrupted():
            raise Conflict(
                f"{home.record} is missing, but {home.old_originals} still holds what files were before",
                remedy=f"restore the record, or put the files back by hand and delete {home.folder}",
            )
        return None
    return decode_record(content, home.record)


def read_document(source: Path) -> bytes | None:
    """The bytes of a file of the record's own, None where it is not there. Raises `InputOutputError`."""
    with reading(source):
        found = beneath.read(source, limit=LARGEST_DOCUMENT)
    return None if found is None else found.data


def encode_record(record: Record) -> bytes:
    """The record as the text of `record.json`: one line for each file, so that git shows and merges it well."""
    header = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in asdict(record.header).items())
    declared = _listed((asdict(each) for each in record.declared), "    ", "  ")
    phases = ",\n".join(
        f'    {{\n      "phase": {phase.phase},\n      "folders": {_listed(phase.folders, " " * 8, " " * 6)},\n'
        f'      "files": {_listed(map(asdict, phase.files), " " * 8, " " * 6)}\n    }}'
        for phase in record.phases
    )
    start = f'{{\n  "schema_version": {SCHEMA_VERSION},\n{header}'
    return f'{start}  "declared": {declared},\n  "phases": [\n{phases}\n  ]\n}}\n'.encode()


def _listed(items: Iterable[object], indent: str, outdent: str) -> str:
    lines = [f"{indent}{json.dumps(item)}" for item in items]
    return "[\n" + ",\n".join(lines) + f"\n{outdent}]" if lines else "[]"


def decode_record(content: bytes, source: Path) -> Record:
    """The record that `content` spells. Raises `Conflict`, located in `source`."""
    _refuse_merge_marks(content, source)
    document = decode_json(content, source)
    try:
        is_old = require_schema(document, source, SCHEMA_VERSION, OLD_SCHEMA) == OLD_SCHEMA
        keys = [field.name for field in fields(RecordHeader)]
        only(document, "schema_version", *keys, "phases", *(() if is_old else ("declared",)))
        header = _header(document)
        phases = tuple(_phase(item, is_old=is_old) for item in take(document, "phases", list))
        numbers = [phase.phase for phase in phases]
        if not numbers or numbers != sorted(set(numbers)):
            raise ValueError(f"'phases' are {shown(numbers)}, not one or more numbers in ascending order")
        declared = () if is_old else tuple(_declared(item) for item in take(document, "declared", list))
        record = Record(header, phases, declared, is_old)
        _require_consistent(record)
    except ValueError as error:
        corrupt(Problem(str(error), start_of(source)), source)
    return record


def _header(document: object) -> RecordHeader:
    return RecordHeader(
        matching(document, "tool_version", _WORD, "a version"),
        matching(document, "release", VERSION, "a version such as 0.11.1"),
        one_of(document, "gating", [each.value for each in Gating]),
        one_of(document, "runtime", [each.value for each in Runtime]),
    )


def _refuse_merge_marks(content: bytes, source: Path) -> None:
    mark = _MERGE_MARK.search(content)
    if mark is None:
        return
    text = content.decode("utf-8", "replace")
    line = content.count(b"\n", 0, mark.start()) + 1
    raise Conflict(
        Problem("the record has a merge conflict that is not resolved", Location.in_text(str(source), text, line)),
        remedy=f"take the side whose patched files you keep: git checkout --ours {RECORD} (or --theirs), then run "
        "`candle-rocm status`",
    )


def _require_consistent(record: Record) -> None:
    distinct([declared.path for declared in record.declared], "the paths of 'declared'")
    if foreign := record.own.keys() - record.left().keys():
        raise ValueError(f"'declared' has {shown(min(foreign))}, which no phase wrote")


def require_schema(document: object, source: Path, *known: int) -> int:
    """The schema of a document, one of `known`.

    Raises `Conflict` for a document of another version of candle-rocm, and `ValueError` for one of none.
    """
    version = take(document, "schema_version", int)
    if version not in known:
        raise Conflict(
            Problem(f"the record has schema {shown(version)}, this candle-rocm knows {known[0]}", start_of(source)),
            remedy="use the candle-rocm that applied the phases, or revert with it first",
        )
    return int(version)


def target_of(root: Path, path: str) -> Path:
    """Where `path` leads, links inside the tree followed.

    Raises `Conflict` when that is outside of the tree, or in a folder of git or of the record.
    """
    real_root = root.resolve()
    try:
        target = (root / path).resolve()
        inside = target.relative_to(real_root)
    except (OSError, RuntimeError, ValueError):
        inside = None
    if inside is None or not inside.parts or is_guarded(inside.parts):
        raise Conflict(
            f"{root / path} points outside the tree through a symbolic link",
            remedy="replace the link by the file or folder it points to; candle-rocm writes nothing outside a tree",
        )
    return target


def _is_absent(root: Path, path: str) -> bool:
    """Whether nothing at all is there, and a file could be."""
    try:
        target = target_of(root, path)
        found = [beneath.status(each) for each in (target, *target.parents)]
    except (Conflict, OSError):
        return False
    return found[0] is None and all(each is None or stat.S_ISDIR(each.st_mode) for each in found)


def _phase(item: object, *, is_old: bool) -> AppliedPhase:
    only(item, "phase", "files", "folders")
    number = checked_phase(take(item, "phase", int))
    files = tuple(_file(file, is_old=is_old) for file in take(item, "files", list))
    folders = tuple(checked_path(folder) for folder in take(item, "folders", list))
    distinct([file.path for file in files], "the paths of 'files'")
    distinct(folders, "'folders'")
    return AppliedPhase(number, files, folders)


def _file(item: object, *, is_old: bool) -> AppliedFile:
    only(item, "path", "before", "after", "mode", *(() if is_old else ("before_blob", "after_blob", "undo")))
    path = checked_path(take(item, "path", str))
    before, mode = take_optional(item, "before", str), _mode(take_optional(item, "mode", int))
    if (before is None) != (mode is None):
        raise ValueError(f"'mode' is {shown(mode)}, which does not go with 'before'")
    digest, after = None if before is None else checked_digest(before), checked_digest(take(item, "after", str))
    if is_old:
        return AppliedFile(path, digest, after, mode)
    before_blob, after_blob, undo = _blob(item, "before_blob"), _blob(item, "after_blob"), _undo(item)
    if before is None and (undo is not None or before_blob is not None):
        raise ValueError("'undo' or 'before_blob' is there, which does not go with 'before'")
    return AppliedFile(path, digest, after, mode, before_blob, after_blob, undo)


def _declared(item: object) -> Declared:
    only(item, "path", "base", "own", "undo")
    path = checked_path(take(item, "path", str))
    base, own = checked_digest(take(item, "base", str)), checked_digest(take(item, "own", str))
    if base == own:
        raise ValueError(f"'declared' has {shown(path)} without an edit")
    return Declared(path, base, own, _undo(item))


def _blob(item: object, key: str) -> str | None:
    value = take_optional(item, key, str)
    if value is not None and _BLOB.fullmatch(value) is None:
        raise ValueError(f"{key!r} is {shown(value)}, not the name of a blob")
    return None if value is None else str(value)


def _undo(item: object) -> Undo | None:
    return checked_undo(take_optional(item, "undo", list))


def _mode(mode: int | None) -> int | None:
    if mode is not None and not 0 <= mode <= 0o7777:
        raise ValueError(f"'mode' is {shown(mode)}, not permission bits")
    return mode
