"""The record: what is applied to a tree, phase by phase, and the bytes that every file had before.

It lives in the tree, in a folder that git never sees:

    .candle-rocm/.gitignore              `*`
    .candle-rocm/record.json             the `Record`
    .candle-rocm/before/<phase>/<path>   a file as it was before that phase
    .candle-rocm/transaction/            only while phases are written or taken back (see journal.py)

Everything is read with suspicion: somebody may have edited, truncated or copied it, and a path from it is written to.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn

from codegen.errors import Conflict, InputOutputError, Location, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = 1
FOLDER = ".candle-rocm"
"""Name of the folder of the record, in the root of the tree."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where the record of the tree `root` and its parts lie."""

    root: Path

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
        if not self.folder.is_symlink() and self.folder.is_dir():
            return True
        if self.folder.is_symlink() or self.folder.exists():
            raise Conflict(
                f"{self.folder} is not a folder of candle-rocm's own (it is a link or a file)",
                remedy="move it away: candle-rocm keeps its record of the tree under that name",
            )
        return False

    def has_originals(self) -> bool:
        """Whether the bytes of at least one phase are kept."""
        return self.originals.is_dir() and any(self.originals.iterdir())


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

        Raises `Conflict` when kept bytes are missing or are not those that the record speaks of.
        """
        overlay: dict[str, bytes | None] = {}
        for phase in self.phases:
            for file in phase.files:
                if file.path not in overlay:
                    overlay[file.path] = original_bytes(root, phase.phase, file)
        return overlay

    def hand_edited(self, root: Path) -> tuple[str, ...]:
        """Paths, sorted, whose bytes are not those that the last phase left; missing files are among them."""
        return tuple(sorted(path for path, left in self.left().items() if digest_of(root / path) != left))


def sha256(content: bytes) -> str:
    """SHA-256 of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file, None where there is no such file (nothing there, or a folder)."""
    try:
        return sha256(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def original_bytes(root: Path, phase: int, file: AppliedFile) -> bytes | None:
    """The bytes that `file` had before `phase`, None when it did not exist.

    Raises `Conflict` when they are missing or damaged.
    """
    if file.before is None:
        return None
    kept = Home(root).original(phase, file.path)
    try:
        content = kept.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        content = None
    except OSError as error:
        raise _unreadable(kept, error) from error
    if content is None or sha256(content) != file.before:
        state = "missing" if content is None else "damaged"
        raise Conflict(
            f"{kept} is {state}: it holds what {file.path} was before phase {phase}",
            remedy=f"put pristine Candle's {file.path} back by hand (git checkout, or a fresh "
            f"candle-rocm fetch), then delete {FOLDER} and apply again",
        )
    return content


def load_record(root: Path) -> Record | None:
    """What is applied to the tree, None when nothing is.

    Raises `Conflict` with the location when the record is corrupt, comes from a newer candle-rocm, or was deleted
    while the bytes that it speaks of are still there.
    """
    home = Home(root)
    if not home.exists():
        return None
    try:
        content = home.record.read_bytes()
    except FileNotFoundError:
        if home.has_originals() and not home.transaction.exists():
            raise Conflict(
                f"{home.record} is missing, but {home.originals} still holds what files were before",
                remedy=f"restore the record, or put the files back by hand and delete {home.folder}",
            ) from None
        return None
    except OSError as error:
        raise _unreadable(home.record, error) from error
    return decode_record(content, home.record)


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
        version = take(document, "schema_version", int)
        if version != SCHEMA_VERSION:
            raise Conflict(
                Problem(f"the record has schema {version}, this candle-rocm knows {SCHEMA_VERSION}", _start(source)),
                remedy="use the candle-rocm that applied the phases, or revert with it first",
            )
        header = RecordHeader(*(take(document, name, str) for name in ("tool_version", "release", "gating", "runtime")))
        phases = tuple(_phase(item) for item in take(document, "phases", list))
        numbers = [phase.phase for phase in phases]
        if not numbers or numbers[0] < 0 or numbers != sorted(set(numbers)):
            raise ValueError(f"'phases' are {numbers}, not one or more numbers in ascending order")
    except ValueError as error:
        corrupt(Problem(str(error), _start(source)), source)
    return Record(header, phases)


def decode_json(content: bytes, source: Path) -> dict[str, Any]:
    """The JSON object that `content` spells. Raises `Conflict`, located in `source`."""
    text = content.decode("utf-8", errors="replace")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        corrupt(Problem(error.msg, Location.in_text(str(source), text, error.lineno, error.colno)), source)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets nested as deep
        corrupt(Problem(str(error), _start(source)), source)
    if not isinstance(document, dict):
        corrupt(Problem("not a JSON object", _start(source)), source)
    return document


def corrupt(problem: Problem, source: Path) -> NoReturn:
    """Raises the `Conflict` of a file of the record that is not as candle-rocm wrote it."""
    raise Conflict(
        Problem(f"corrupt: {problem.message}", problem.location),
        remedy=f"restore {source.name} from a backup; without one, put pristine Candle's files back by hand "
        f"(those that were changed are under {FOLDER}/before), then delete {FOLDER}",
    )


def take(document: object, key: str, kind: type) -> Any:
    """`document[key]`, which must be of `kind`. Raises `ValueError` naming the key."""
    if not isinstance(document, dict) or key not in document:
        raise ValueError(f"'{key}' is missing")
    value = document[key]
    if type(value) is not kind:
        raise ValueError(f"'{key}' is {json.dumps(value)}, not of type {kind.__name__}")
    return value


def take_optional(document: object, key: str, kind: type) -> Any:
    """As `take`, and None where the value is null."""
    if isinstance(document, dict) and key in document and document[key] is None:
        return None
    return take(document, key, kind)


def checked_path(path: object) -> str:
    """`path` when it names something below a tree and outside of the record. Raises `ValueError` otherwise."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"{json.dumps(path)} is not a path in the tree")
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "/".join(parts) != path or parts[0] in (FOLDER, ".git"):
        raise ValueError(f"'{path}' is not a path in the tree")
    return path


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
    if inside is None or inside.parts[:1] in ((), (FOLDER,), (".git",)):
        raise Conflict(
            f"{root / path} leads out of the tree through a symbolic link",
            remedy="replace the link by what it leads to; nothing outside of a tree is ever written",
        )
    return target


def _phase(item: object) -> AppliedPhase:
    files = tuple(
        AppliedFile(
            checked_path(take(file, "path", str)),
            take_optional(file, "before", str),
            take(file, "after", str),
            _mode(take_optional(file, "mode", int)),
        )
        for file in take(item, "files", list)
    )
    folders = tuple(checked_path(folder) for folder in take(item, "folders", list))
    return AppliedPhase(take(item, "phase", int), files, folders)


def _mode(mode: int | None) -> int | None:
    if mode is not None and not 0 <= mode <= 0o7777:
        raise ValueError(f"'mode' is {mode}, not permission bits")
    return mode


def _start(source: Path) -> Location:
    return Location(str(source), 1)


def _unreadable(path: Path, error: OSError) -> InputOutputError:
    return InputOutputError(
        f"cannot read {path}: {error.strerror}", remedy="make it readable for you, then run the command again"
    )
