"""The record: what is applied to a tree, phase by phase, and the bytes that every file had before.

It lives in the tree, in a folder that git never sees:

    .candle-rocm/.gitignore              `*`
    .candle-rocm/record.json             the `Record`
    .candle-rocm/before/<phase>/<path>   a file as it was before that phase
    .candle-rocm/lock                    held by the one candle-rocm that writes the tree (see lock.py)
    .candle-rocm/transaction/            only while phases are written or taken back (see journal.py)

Everything is read with suspicion: somebody may have edited, truncated, copied or made it up. None of it may be a link
or lie behind one (see beneath.py), every value of the record has to be one that candle-rocm writes (see fields.py),
and bytes count only when they have the hash that the record gives.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import stat
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from codegen import beneath
from codegen.errors import Conflict, InputOutputError, Problem
from codegen.plan.disk import remedy_for
from codegen.plan.fields import (
    LARGEST_DOCUMENT,
    checked_digest,
    checked_path,
    checked_phase,
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
from codegen.release import VERSION
from codegen.spec.kinds import Gating, Runtime
from codegen.tree_path import FOLDER, is_guarded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SCHEMA_VERSION = 1
LARGEST_IN_ALL = 256 << 20
"""Bytes of all files that a record names: a hundred times what the phases of a release change."""
_WORD = re.compile(r"[0-9A-Za-z.+_-]+")


@dataclass(frozen=True, slots=True)
class Home:
    """Where the record of the tree `root` and its parts lie."""

    root: Path
    """Free of links and absolute, where anything is read or written through this: see `of`."""

    @classmethod
    def of(cls, root: Path) -> Home:
        """The home of the record of the tree that `root` leads to; the user may name it by a link."""
        return cls(root.resolve())

    @property
    def folder(self) -> Path:
        return self.root / FOLDER

    @property
    def record(self) -> Path:
        return self.folder / "record.json"

    @property
    def originals(self) -> Path:
        return self.folder / "before"

    @property
    def transaction(self) -> Path:
        return self.folder / "transaction"

    @property
    def ignore(self) -> Path:
        return self.folder / ".gitignore"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    def kept(self, phase: int) -> Path:
        """Where the bytes of all files of `phase` before it are kept."""
        return self.originals / str(phase)

    def original(self, phase: int, path: str) -> Path:
        """Where the bytes of `path` before `phase` are kept."""
        return self.kept(phase) / path

    def exists(self) -> bool:
        """Whether the tree has the folder at all. Raises `Conflict` where it is a link or a file."""
        return _is_own_folder(self.folder)

    def is_interrupted(self) -> bool:
        """Whether a transaction was begun and not brought to its end. Raises as `exists`."""
        return self.exists() and _is_own_folder(self.transaction)

    def has_originals(self) -> bool:
        """Whether the bytes of at least one phase are kept. Raises as `exists`."""
        with reading(self.originals):
            return _is_own_folder(self.originals) and bool(beneath.names(self.originals))


def _is_own_folder(path: Path) -> bool:
    with reading(path):
        found = beneath.status(path)
    if found is None or stat.S_ISDIR(found.st_mode):
        return found is not None
    raise Conflict(
        f"{path} is not a folder of candle-rocm's own (it is a link or a file)",
        remedy="move it away: candle-rocm keeps its record of the tree under that name",
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns an OSError inside the block into an `InputOutputError` that names the path."""
    try:
        yield
    except OSError as error:
        raise InputOutputError(
            f"cannot read {path}: {error.strerror}",
            remedy=remedy_for(error.errno, "make it readable for you, then run the command again"),
        ) from error


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """What all applied phases have in common: the choices that a plan depends on."""

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


@dataclass(frozen=True, slots=True)
class AppliedPhase:
    """What one phase wrote."""

    phase: int
    files: tuple[AppliedFile, ...]
    folders: tuple[str, ...] = ()
    """Folders that it made, parents first."""


@dataclass(frozen=True, slots=True)
class Record:
    """All applied phases, in the order in which they were applied (ascending, never empty on disk)."""

    header: RecordHeader
    phases: tuple[AppliedPhase, ...]

    @property
    def last(self) -> AppliedPhase:
        """The phase that `revert` takes back next."""
        return self.phases[-1]

    def left(self) -> dict[str, str]:
        """SHA-256 per path, as the last phase that wrote the path left it."""
        return {file.path: file.after for phase in self.phases for file in phase.files}

    def pristine_overlay(self, root: Path) -> Mapping[str, bytes | None]:
        """What every touched file was before all phases, None where it did not exist.

        Raises `Conflict` when kept bytes are missing or are not those that the record speaks of, and
        `InputOutputError` when they cannot be read.
        """
        overlay: dict[str, bytes | None] = {}
        size = 0
        for phase in self.phases:
            for file in phase.files:
                if file.path not in overlay:
                    content = overlay[file.path] = original_bytes(root, phase.phase, file)
                    size = _within_all(size + len(content or b""), Home.of(root).originals)
        return overlay

    def hand_edited(self, root: Path) -> tuple[str, ...]:
        """Paths, sorted, whose bytes are not those that the last phase left; missing files are among them.

        So are links that lead out of the tree: nothing is read there. Raises `InputOutputError`.
        """
        edited, size = [], 0
        for path, left in self.left().items():
            found = _in_tree(root, path)
            size = _within_all(size + len(found or b""), root)
            if found is None or sha256(found) != left:
                edited.append(path)
        return tuple(sorted(edited))


def sha256(content: bytes) -> str:
    """SHA-256 of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of(root: Path, path: str) -> str | None:
    """SHA-256 of the tree's file `path`, links inside the tree followed.

    None where there is no such file: nothing there, something else than a file, a link that leads out of the tree, or
    more than candle-rocm would write. Raises `InputOutputError` when it cannot be read.
    """
    found = _in_tree(root, path)
    return None if found is None else sha256(found)


def _in_tree(root: Path, path: str) -> bytes | None:
    try:
        target = target_of(root, path)
    except Conflict:
        return None
    try:
        found = beneath.read(target)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise _unreadable(target, error) from error
    return None if found is None else found.data


_NO_FILE = (errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.EFBIG)


def _within_all(size: int, where: Path) -> int:
    if size > LARGEST_IN_ALL:
        raise InputOutputError(
            f"the record of {where} names files of more than {LARGEST_IN_ALL >> 20} MiB",
            remedy="candle-rocm did not write that record: see who did, and start from a fresh tree",
        )
    return size


def original(root: Path, phase: int, file: AppliedFile) -> beneath.Found | None:
    """What is kept of `file` as it was before `phase`, None when it did not exist.

    Raises `Conflict` when that is missing or damaged, and `InputOutputError` when it cannot be read.
    """
    if file.before is None:
        return None
    kept = Home.of(root).original(phase, file.path)
    try:
        found = beneath.read(kept, attributes=True)
    except IsADirectoryError:
        found = None
    except OSError as error:
        raise _unreadable(kept, error) from error
    if found is None or sha256(found.data) != file.before:
        state = "missing" if found is None else "damaged"
        raise Conflict(
            f"{kept} is {state}: it holds what {file.path} was before phase {phase}",
            remedy=f"put pristine Candle's {file.path} back by hand (git checkout, or a fresh "
            f"candle-rocm fetch), then delete {FOLDER} and apply again",
        )
    return found


def original_bytes(root: Path, phase: int, file: AppliedFile) -> bytes | None:
    """The bytes that `file` had before `phase`, None when it did not exist. Raises as `original`."""
    found = original(root, phase, file)
    return None if found is None else found.data


def load_record(root: Path) -> Record | None:
    """What is applied to the tree, None when nothing is.

    Raises `Conflict` with the location when the record is corrupt, comes from a newer candle-rocm, or was deleted
    while the bytes that it speaks of are still there, and `InputOutputError` when it cannot be read.
    """
    home = Home.of(root)
    if not home.exists():
        return None
    content = read_document(home.record)
    if content is None:
        if home.has_originals() and not home.is_interrupted():
            raise Conflict(
                f"{home.record} is missing, but {home.originals} still holds what files were before",
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
    """The record as the text of `record.json`."""
    document = {
        "schema_version": SCHEMA_VERSION,
        **asdict(record.header),
        "phases": [asdict(phase) for phase in record.phases],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def decode_record(content: bytes, source: Path) -> Record:
    """The record that `content` spells. Raises `Conflict`, located in `source`."""
    document = decode_json(content, source)
    try:
        require_schema(document, source)
        only(document, "schema_version", "tool_version", "release", "gating", "runtime", "phases")
        header = RecordHeader(
            matching(document, "tool_version", _WORD, "a version"),
            matching(document, "release", VERSION, "a version such as 0.11.1"),
            one_of(document, "gating", [each.value for each in Gating]),
            one_of(document, "runtime", [each.value for each in Runtime]),
        )
        phases = tuple(_phase(item) for item in take(document, "phases", list))
        numbers = [phase.phase for phase in phases]
        if not numbers or numbers != sorted(set(numbers)):
            raise ValueError(f"'phases' are {shown(numbers)}, not one or more numbers in ascending order")
    except ValueError as error:
        corrupt(Problem(str(error), start_of(source)), source)
    return Record(header, phases)


def require_schema(document: object, source: Path) -> None:
    """Raises `Conflict` for a document of another version of candle-rocm, and `ValueError` for one of none."""
    version = take(document, "schema_version", int)
    if version != SCHEMA_VERSION:
        raise Conflict(
            Problem(
                f"the record has schema {shown(version)}, this candle-rocm knows {SCHEMA_VERSION}", start_of(source)
            ),
            remedy="use the candle-rocm that applied the phases, or revert with it first",
        )


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
            f"{root / path} leads out of the tree through a symbolic link",
            remedy="replace the link by what it leads to; nothing outside of a tree is ever written",
        )
    return target


def _phase(item: object) -> AppliedPhase:
    only(item, "phase", "files", "folders")
    number = checked_phase(take(item, "phase", int))
    files = tuple(_file(file) for file in take(item, "files", list))
    folders = tuple(checked_path(folder) for folder in take(item, "folders", list))
    distinct([file.path for file in files], "the paths of 'files'")
    distinct(folders, "'folders'")
    return AppliedPhase(number, files, folders)


def _file(item: object) -> AppliedFile:
    only(item, "path", "before", "after", "mode")
    path = checked_path(take(item, "path", str))
    before, mode = take_optional(item, "before", str), _mode(take_optional(item, "mode", int))
    if (before is None) != (mode is None):
        raise ValueError(f"'mode' is {shown(mode)}, which does not go with 'before'")
    return AppliedFile(
        path,
        None if before is None else checked_digest(before),
        checked_digest(take(item, "after", str)),
        mode,
    )


def _mode(mode: int | None) -> int | None:
    if mode is not None and not 0 <= mode <= 0o7777:
        raise ValueError(f"'mode' is {shown(mode)}, not permission bits")
    return mode


def _unreadable(path: Path, error: OSError) -> InputOutputError:
    return InputOutputError(
        f"cannot read {path}: {error.strerror}",
        remedy=remedy_for(error.errno, "make it readable for you, then run the command again"),
    )
