"""Trees with a record, a journal or kept files that somebody made up, damaged or led elsewhere by links."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from arena import CORE, LIB
from canary import SECRET

from codegen.patch.changes import FileChange, PhaseChanges
from codegen.patch.undo import undo_edits
from codegen.record.disk import Disk
from codegen.record.home import Home
from codegen.record.record import Declared, RecordHeader
from codegen.record.transaction import apply_phases, declare_edits, revert_phases

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from arena import Arena

HEADER = RecordHeader("0.1.0", "0.11.1", "dummy", "rocm-rs")
NEW = f"{CORE}/src/rocm/mod.rs"
# Sources that are links to files outside are read, until all of a tree is read by codegen/candle/reading.py.
SOURCES = (LIB, NEW, f"{CORE}/src/device.rs") if find_spec("codegen.candle.reading") is not None else ()
DOCUMENTS = (
    "record.json",
    *(f"local/transaction/{name}.json" for name in ("journal", "committed", "record")),
)


class _Killed(BaseException):
    """Nothing that comes after it reaches the disk."""


class _Fatal(Disk):
    def __init__(self, left: int) -> None:
        self.left = left

    def step(self, verb: str, path: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Killed

    def flush(self, descriptor: int) -> None:
        """Nobody waits for the medium here."""


def _phases(tree: Path) -> list[PhaseChanges]:
    lib, device = (tree / LIB).read_bytes(), f"{CORE}/src/device.rs"
    first = (FileChange(LIB, lib, lib + b"pub mod rocm;\n"), FileChange(NEW, None, b"//! ROCm.\n"))
    second = (
        FileChange(device, (tree / device).read_bytes(), b"pub enum Device { Cpu, Rocm }\n"),
        FileChange(NEW, b"//! ROCm.\n", b"//! ROCm, too.\n"),
    )
    return [PhaseChanges(0, "setup", "", first), PhaseChanges(7, "more", "", second)]


def applied(dice: Random, arena: Arena) -> None:
    """A record as we make it."""
    record = apply_phases(arena.tree, _phases(arena.tree)[: dice.choice((1, 2))], HEADER, disk=_Fatal(10_000))
    if dice.random() < 0.3:
        left = (arena.tree / LIB).read_bytes()
        own = left + b"// mine\n"
        (arena.tree / LIB).write_bytes(own)
        declared = Declared(LIB, record.left()[LIB], hashlib.sha256(own).hexdigest(), undo_edits(left, own))
        declare_edits(arena.tree, [declared], disk=_Fatal(10_000))
    if dice.random() < 0.3:  # as a clone has it
        shutil.rmtree(Home(arena.tree).local)


def interrupted(dice: Random, arena: Arena) -> None:
    """A transaction as a kill leaves it, of applying or of taking back."""
    phases = _phases(arena.tree)
    back = dice.random() < 0.5
    if back:
        apply_phases(arena.tree, phases, HEADER, disk=_Fatal(10_000))
    try:
        if back:
            revert_phases(arena.tree, down_to=dice.choice((0, 7)), disk=_Fatal(dice.randrange(60)))
        else:
            apply_phases(arena.tree, phases, HEADER, disk=_Fatal(dice.randrange(60)))
    except BaseException:
        pass


def made_up(dice: Random, arena: Arena) -> None:
    """A record and a journal out of thin air, valid for the most part, about files that are there."""
    home = Home(arena.tree)
    work = home.transaction
    (work / "new").mkdir(parents=True)
    (work / "old").mkdir()
    phases = sorted(dice.sample(range(8), dice.randrange(4)))
    files = []
    for index in range(dice.randrange(4)):
        path = dice.choice((LIB, NEW, "lnk/id_rsa", "lnk", "Cargo.toml", "lnk/new/0", ".cargo/config.toml"))
        old, new = (dice.choice((None, _digest_of(arena, path), *_digests(arena))) for _ in range(2))
        kept = None if old is None else dice.choice((f"old/{index}", f"originals/{old}"))
        files.append({"path": path, "old": old, "new": new, "kept": kept})
        (work / dice.choice(("old", "new")) / str(index)).write_bytes(
            dice.choice((b"", (arena.tree / LIB).read_bytes()))
        )
    folders = ("lnk/e1", "lnk/empty", f"{CORE}/src/rocm", "lnk", "empty")
    journal: dict[str, Any] = {"schema_version": 2, "files": files, "backup": dice.choice((None, None, 1, 999_999))}
    for key in ("made", "dropped"):
        journal[key] = sorted(dice.sample(folders, dice.randrange(3)))
    for key in ("taken_back", "applied"):
        journal[key] = sorted(dice.sample((0, 7), dice.randrange(3)))
    journal["recorded"] = dice.random() < 0.5
    (work / dice.choice(("journal.json", "committed.json"))).write_text(json.dumps(journal))
    (arena.tree / "empty" / "e1").mkdir(parents=True)
    (arena.tree / "lnk").symlink_to(dice.choice((arena.outside, arena.outside / "empty", arena.outside / "id_rsa")))
    recorded: list[dict[str, Any]] = [
        {
            "phase": phase,
            "files": [
                {
                    "path": path,
                    "before": before,
                    "after": dice.choice(_digests(arena)),
                    "mode": before and 0o644,
                    "before_blob": before and dice.choice((None, "0" * 40)),
                    "after_blob": dice.choice((None, "f" * 40)),
                    "undo": before and dice.choice((None, [], [[0, 3, "x"]], [[0, 1 << 20, ""]], [[9, 0, "evil"]])),
                }
                for path in sorted(dice.sample((LIB, NEW, "lnk", "lnk/id_rsa"), dice.randrange(3)))
                for before in [dice.choice((None, *_digests(arena)))]
            ],
            "folders": sorted(dice.sample(folders, dice.randrange(3))),
        }
        for phase in phases
    ]
    paths = sorted({file["path"] for phase in recorded for file in phase["files"]})
    own = [
        {
            "path": path,
            "base": "1" * 64,
            "own": dice.choice(_digests(arena)),
            "undo": dice.choice((None, [[0, 0, "x"]])),
        }
        for path in sorted(dice.sample(paths, dice.randrange(len(paths) + 1)))
    ]
    header = {
        "schema_version": 2,
        "declared": own,
        "tool_version": "0.1.0",
        "release": "0.11.1",
        "gating": "cfg",
        "runtime": "dynamic",
    }
    for place in dice.sample((home.record, work / "record.json"), dice.randrange(3)):
        place.write_text(json.dumps({**header, "phases": recorded}))


STARTS = (applied, interrupted, made_up)


def _digests(arena: Arena) -> tuple[str, ...]:
    secrets = [SECRET + name for name in (b"id_rsa", b"0", b"new/0", b"old/0")]
    return tuple(hashlib.sha256(each).hexdigest() for each in (b"", (arena.tree / LIB).read_bytes(), *secrets))


def _digest_of(arena: Arena, path: str) -> str | None:
    file = arena.tree / path
    return hashlib.sha256(file.read_bytes()).hexdigest() if path in (LIB, "Cargo.toml") else None


# What is done to it


def _parts(root: Path) -> list[Path]:
    """Everything below, links not followed."""
    found = []
    for parent, folders, names in os.walk(root):
        found += [root.__class__(parent) / name for name in (*folders, *names)]
    return sorted(found)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _targets(arena: Arena) -> list[Path]:
    return [*(arena.outside / name for name in sorted(arena.canary.before)), arena.root / "nowhere"]


def _somewhere(dice: Random, arena: Arena) -> Path:
    """A place of the record, there or not."""
    home = Home(arena.tree)
    known = [
        *(
            home.folder,
            home.record,
            home.originals,
            home.transaction,
            home.ignore,
            home.lock,
            home.local,
            home.backups,
            home.backups / "1",
            home.old_originals,
            home.old_ignore,
            home.folder / "transaction",
            home.original("0" * 64),
        ),
        *(home.transaction / name for name in ("old", "new", "originals", "backup", "old/0", "new/0", "new/1")),
        *(home.folder / name for name in DOCUMENTS),
    ]
    return dice.choice([*known, *_parts(home.folder), *_parts(home.folder)])


def link_in_the_record(dice: Random, arena: Arena) -> None:
    """A part of the record is a link to what is outside, to itself or to nowhere; perhaps to a copy of what it was."""
    path = _somewhere(dice, arena)
    target = dice.choice([*_targets(arena), path])
    if not os.path.lexists(path.parent) or any(parent.is_symlink() for parent in path.parents):
        return
    _remove(path)
    path.symlink_to(os.path.relpath(target, path.parent) if dice.random() < 0.3 else target)


def link_in_the_tree(dice: Random, arena: Arena) -> None:
    """A file or folder that a record names is a link to what is outside."""
    path = arena.tree / dice.choice((f"{CORE}/src/rocm", "lnk", "empty", *SOURCES))
    if not os.path.lexists(path.parent) or any(parent.is_symlink() for parent in path.parents):
        return
    _remove(path)
    path.symlink_to(dice.choice(_targets(arena)))


def special_file(dice: Random, arena: Arena) -> None:
    """A part of the record is a pipe, a socket, a folder, a file without end, or very deep."""
    path = _somewhere(dice, arena)
    if any(parent.is_symlink() for parent in path.parents) or path == Home(arena.tree).folder:
        return
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    match dice.randrange(6):
        case 0:
            os.mkfifo(path)
        case 1:
            with socket.socket(socket.AF_UNIX) as bound:
                here = os.getcwd()  # noqa: PTH109 - a socket's path is short
                os.chdir(path.parent)
                try:
                    bound.bind(path.name)
                finally:
                    os.chdir(here)
        case 2:
            path.mkdir()
        case 3:
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case 4:
            (path / "/".join("d" * 90)).mkdir(parents=True)
        case _:
            path.write_bytes(b"")


HOSTILE_VALUES: tuple[Any, ...] = (
    *("..", "../x", "../../outside/id_rsa", "/etc/passwd", "a/../../x", "lnk/id_rsa", "lnk", ".", "", "a//b", "~/x"),
    *("\0", "a\0b", "\ud800", "\udcff", "\x1b]0;x\x07", "\u202e", "x" * 300, "y/" * 2000, "new/../../x", "CON", "\\"),
    *(".git/hooks/pre-commit", ".candle-rocm/record.json", ".GIT/config", "sub/.git/config", "target", "empty"),
    *(-1, 0, 1, 7, 99, 100, 2**63, 10**400, 1.5, float("nan"), float("inf"), True, False, None, 0o4755, 0o777777),
    *([[0, 1, "x"]], [[0, -1, ""]], [[2**40, 1, ""]], [[0, 2**40, ""]], [[5, 1, "x"], [2, 1, "y"]], [[0, 1, "\ud800"]]),
    *("0" * 40, "x" * 70_000, [[0, 0, "x" * 70_000]]),
    *([], {}, [[]], [None], [{}], {"path": "x"}, ["../x"], "0" * 64, "g" * 64, "F" * 64, "old/0", "new/0"),
)


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every container with each of its keys."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    found = [(node, key) for key in keys]
    for key in keys:
        found += _places(node[key])
    return found


def _document(dice: Random, arena: Arena) -> Path | None:
    found = [Home(arena.tree).folder / name for name in DOCUMENTS]
    there = [path for path in found if path.is_file() and not any(p.is_symlink() for p in (path, *path.parents))]
    return dice.choice(there) if there else None


def hostile_values(dice: Random, arena: Arena) -> None:
    """Some values of a record or journal are others, missing, more or twice."""
    path = _document(dice, arena)
    if path is None or path.stat().st_size > 1 << 20:
        return
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    for _ in range(dice.randrange(1, 4)):
        places = _places(document)
        if not places:
            break
        node, key = dice.choice(places)
        match dice.randrange(6):
            case 0:
                del node[key]
            case 1 if isinstance(node, list):
                node.insert(key, dice.choice((node[key], *HOSTILE_VALUES)))
            case 1:
                node[dice.choice(("x", "path", "phase", "\ud800"))] = node[key]
            case 2:
                node[key] = dice.choice(_digests(arena))
            case _:
                node[key] = dice.choice(HOSTILE_VALUES)
    path.write_text(json.dumps(document))


def damaged_bytes(dice: Random, arena: Arena) -> None:
    """A file of the record is cut off, or has other bytes somewhere."""
    path = _document(dice, arena)
    if path is None or path.stat().st_size > 1 << 20:
        return
    content = bytearray(path.read_bytes())
    at = dice.randrange(len(content) + 1)
    match dice.randrange(4):
        case 0:
            del content[at:]
        case 1:
            content[at : at + dice.randrange(9)] = dice.randbytes(dice.randrange(9))
        case 2:
            content[at:at] = dice.choice(
                (b"[" * 100_000, b'"\\ud800"', b"\xff\xfe", b"9" * 5000, b"\0", b'{"a":' * 3000)
            )
        case _:
            content = content.replace(b'"files"', b'"files": [], "files"', 1)
    path.write_bytes(bytes(content))


def swapped_bytes(dice: Random, arena: Arena) -> None:
    """Something that is kept for later has other bytes, or those of another file."""
    home = Home(arena.tree)
    files = [path for path in _parts(home.folder) if path.is_file() and not path.is_symlink()]
    files = [path for path in files if not any(parent.is_symlink() for parent in path.parents)]
    if files:
        small = [path for path in files if path.stat().st_size < 1 << 20]
        dice.choice(files).write_bytes(dice.choice((b"evil", *(path.read_bytes() for path in small))))


def other_name(dice: Random, arena: Arena) -> None:
    """A file of the record or of the tree is the same as one outside (hard links)."""
    path = dice.choice((_somewhere(dice, arena), arena.tree / LIB, arena.tree / NEW))
    if any(parent.is_symlink() for parent in path.parents) or not path.parent.is_dir() or path.is_dir():
        return
    path.unlink(missing_ok=True)
    os.link(arena.tree / CORE / "Cargo.toml", path)


CHANGES: tuple[Callable[[Random, Arena], None], ...] = (
    link_in_the_record,
    link_in_the_record,
    link_in_the_tree,
    special_file,
    hostile_values,
    hostile_values,
    damaged_bytes,
    swapped_bytes,
    other_name,
)


def hostile_record(dice: Random, arena: Arena) -> None:
    """A start, and up to three changes of it."""
    dice.choice(STARTS)(dice, arena)
    for _ in range(dice.randrange(4)):
        with suppress(OSError):  # an earlier change may have put a file in the place of a folder
            dice.choice(CHANGES)(dice, arena)


ATTACKS: tuple[Callable[[Random, Arena], None], ...] = (hostile_record,)
