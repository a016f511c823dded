"""A tree and phases for tests, disks that fail and kill, and what to compare afterwards."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.patch.changes import FileChange, PhaseChanges
from codegen.record.disk import DISK, Disk
from codegen.record.record import Home, Record, RecordHeader, load_record
from codegen.record.transaction import apply_phases, revert_phases
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codegen.errors import CandleRocmError, ExitCode

REPOSITORY = Path(__file__).parents[3]
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where trees are planted: a rename onto an existing file makes some file systems write to the medium."""


def phase(number: int, changes: Iterable[FileChange]) -> PhaseChanges:
    """A phase of which only the changes matter."""
    return PhaseChanges(number, f"phase {number}", "", tuple(changes))


def apply_phase(
    root: Path,
    number: int,
    changes: Iterable[FileChange],
    header: RecordHeader,
    *,
    force: bool = False,
    disk: Disk = DISK,
) -> Record:
    """Applies a single phase."""
    return apply_phases(root, [phase(number, changes)], header, force=force, disk=disk)


def revert_phase(root: Path, *, force: bool = False, disk: Disk = DISK) -> Record | None:
    """Takes the last phase back."""
    record = load_record(root)
    return revert_phases(root, down_to=record.last.phase if record is not None else 0, force=force, disk=disk)


HEADER = RecordHeader("0.1.0", "0.11.1", "dummy", "rocm-rs")

Snapshot = dict[str, tuple[str, int, bytes]]


def snapshot(root: Path, *, with_record: bool = False) -> Snapshot:
    """Kind, permission bits and content of everything below `root`.

    Of kept originals the bits do not count: files with the same bytes share one, and the record has the bits of each.
    """
    seen: Snapshot = {}
    folders = [(str(root), "")]
    while folders:
        folder, prefix = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = prefix + entry.name
                if name == FOLDER and not with_record:
                    continue
                mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                mode = 0 if prefix == f"{FOLDER}/local/originals/" else mode
                if entry.is_symlink():
                    seen[name] = ("link", mode, os.fsencode(Path(entry.path).readlink()))
                elif entry.is_dir():
                    seen[name] = ("folder", mode, b"")
                    folders.append((entry.path, f"{name}/"))
                else:
                    seen[name] = ("file", mode, Path(entry.path).read_bytes())
    return seen


def but_backups(seen: Snapshot) -> Snapshot:
    """The snapshot without what `--force` keeps, and without the folder of it where there is nothing else."""
    local = f"{FOLDER}/local"
    seen = {name: entry for name, entry in seen.items() if not f"{name}/".startswith(f"{local}/backups/")}
    rest = {name for name in seen if f"{name}/".startswith(f"{FOLDER}/")}
    if rest <= {FOLDER, local, f"{local}/.gitignore", f"{local}/lock"}:
        return {name: entry for name, entry in seen.items() if name not in rest}
    return seen


def backups(root: Path) -> dict[str, bytes]:
    """What `--force` kept, by number and path."""
    folder = Home(root).backups
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def linked(start: Path, root: Path) -> Path:
    """A copy of the tree `start`, without the times of its files: quick to make."""
    return shutil.copytree(start, root, copy_function=shutil.copy)


def grow(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


DEVICE = "candle-core/src/device.rs"
LIB = "candle-core/src/lib.rs"
SCRIPT = "tools/run.sh"
NEW = "candle-core/src/rocm/backend/mod.rs"
PRISTINE = {DEVICE: b"pub enum Device { Cpu }\n", LIB: b"mod device;\r\n", SCRIPT: b"#!/bin/sh", "README.md": b""}
PHASE_0 = (
    FileChange(LIB, PRISTINE[LIB], b"mod device;\r\nmod rocm;\r\n"),
    FileChange(NEW, None, b"//! ROCm.\n"),
    FileChange(SCRIPT, PRISTINE[SCRIPT], b"#!/bin/sh\necho \xff\n"),
)
PHASE_1 = (
    FileChange(DEVICE, PRISTINE[DEVICE], b"pub enum Device { Cpu, Rocm }\n"),
    FileChange(NEW, PHASE_0[1].after, b"//! ROCm.\npub struct RocmDevice;\n"),
    FileChange("candle-core/tests/rocm.rs", None, b""),
    FileChange(SCRIPT, PHASE_0[2].after, b"#!/bin/sh\nexit\n"),
)
BOTH = (phase(0, PHASE_0), phase(1, PHASE_1))


class Killed(BaseException):
    """Stands for SIGKILL within the process: nothing that happens afterwards reaches the disk."""


class Faulty(Disk):
    """Fails at step `at` (counted from 0), once, or from then on."""

    def __init__(self, at: int, fault: Callable[[], BaseException], *, forever: bool = False) -> None:
        self.at = at
        self.fault = fault
        self.forever = forever
        self.steps: list[str] = []

    def step(self, verb: str, path: Path) -> None:
        number = len(self.steps)
        self.steps.append(f"{verb} {path.name}")
        if number == self.at or (self.forever and number > self.at):
            raise self.fault()

    @property
    def struck(self) -> bool:
        return len(self.steps) > self.at


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def refused(tree: Path, kind: type[CandleRocmError], code: ExitCode, *texts: str) -> Iterator[None]:
    """The block raises `kind`, its message holds all of `texts`, and not a byte below `tree` differs."""
    before = snapshot(tree, with_record=True)
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    assert caught.value.exit_code == code
    for text in texts:
        assert text in str(caught.value)
    assert snapshot(tree, with_record=True) == before


def steps_of(operation: Callable[[Path, Disk], object], start: Path, scratch: Path) -> list[str]:
    root = shutil.copytree(start, scratch / "count", symlinks=True)
    disk = Faulty(10_000, no_space)
    operation(root, disk)
    shutil.rmtree(root)
    return disk.steps


def apply_1(root: Path, disk: Disk) -> object:
    return apply_phase(root, 1, PHASE_1, HEADER, disk=disk)


def apply_0(root: Path, disk: Disk) -> object:
    return apply_phase(root, 0, PHASE_0, HEADER, disk=disk)


def apply_01(root: Path, disk: Disk) -> object:
    return apply_phases(root, BOTH, HEADER, disk=disk)


def apply_again(root: Path, disk: Disk) -> object:
    return apply_phases(root, BOTH, HEADER, again=True, force=True, disk=disk)


def revert(root: Path, disk: Disk) -> object:
    return revert_phase(root, disk=disk)


def revert_all(root: Path, disk: Disk) -> object:
    return revert_phases(root, disk=disk)


def no_start(root: Path) -> None:
    """Nothing applied."""


def start_0(root: Path) -> None:
    apply_phase(root, 0, PHASE_0, HEADER)


def start_01(root: Path) -> None:
    start_0(root)
    apply_phase(root, 1, PHASE_1, HEADER)


def start_edited(root: Path) -> None:
    start_01(root)
    (root / LIB).write_bytes(b"mod mine;\n")
    (root / NEW).unlink()


OPERATIONS = pytest.mark.parametrize(
    ("prepare", "operation"),
    [
        pytest.param(no_start, apply_0, id="apply-first"),
        pytest.param(start_0, apply_1, id="apply-second"),
        pytest.param(start_01, revert, id="revert-second"),
        pytest.param(start_0, revert, id="revert-last"),
        pytest.param(no_start, apply_01, id="apply-both"),
        pytest.param(start_01, revert_all, id="revert-both"),
        pytest.param(start_edited, apply_again, id="apply-both-again"),
    ],
)


def files_of(seen: Snapshot) -> Snapshot:
    return {name: entry for name, entry in seen.items() if entry[0] != "folder"}


@contextmanager
def planted(files: dict[str, tuple[bytes, int]]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder) / "tree"
        root.mkdir()
        for name, (content, mode) in files.items():
            grow(root, {name: content})
            (root / name).chmod(mode)
        yield root


def changes_of(root: Path, contents: dict[str, bytes]) -> list[FileChange]:
    return [
        FileChange(name, (root / name).read_bytes() if (root / name).exists() else None, content)
        for name, content in contents.items()
    ]


@contextmanager
def locked(root: Path) -> Iterator[None]:
    Home(root).local.mkdir(parents=True, exist_ok=True)
    with Home(root).lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def candle(folder: Path) -> Path:
    """The pristine tree, with some permission bits."""
    root = grow(folder / "candle", PRISTINE)
    (root / SCRIPT).chmod(0o755)
    (root / DEVICE).chmod(0o640)
    return root


@contextmanager
def unsynced() -> Iterator[None]:
    """Tests need not wait until every file is on the medium."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "flush", lambda disk, descriptor: None)
        yield
