"""A tree with a record that somebody else made: nothing outside of the tree is read, written, moved or deleted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest
from canary import SECRET, Canary
from made_up import tree_hash

from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from in_process import CommandLine

READING = ("scan", "status", "check", "explain", "report", "verify", "diff", "generate")
WRITING = ("declare", "apply", "revert")
LIB = "candle-core/src/lib.rs"
HEADER = {
    "schema_version": 2,
    "declared": [],
    "tool_version": "0.1.0",
    "release": "0.11.1",
    "gating": "dummy",
    "runtime": "rocm-rs",
}


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary.plant(tmp_path / "outside")


def arguments(command: str, candle: Path) -> list[str | Path]:
    """The command on the tree, told to write nowhere in it and to build nothing."""
    extra: dict[str, list[str | Path]] = {
        "explain": [f"{LIB}:1"],
        "report": ["--html", candle.parent / "report.html"],
        "generate": ["--out", candle.parent / "out"],
        "verify": ["--only", "no-such-step", "--work", candle.parent / "work"],
    }
    return [command, candle, *extra.get(command, [])]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def journal(**changes: object) -> str:
    empty: dict[str, object] = {"files": [], "made": [], "dropped": [], "taken_back": [], "applied": []}
    return json.dumps({"schema_version": 2, **empty, "recorded": False, "backup": None, **changes})


def write(candle: Path, name: str, content: str | bytes) -> None:
    path = candle / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def link(candle: Path, name: str, to: Path | str) -> None:
    path = candle / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to)


def transaction_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "local/transaction", outside)


def transaction_is_a_relative_link(candle: Path, outside: Path) -> None:
    link(candle, "local/transaction", os.path.relpath(outside, candle / FOLDER))


def home_is_a_link(candle: Path, outside: Path) -> None:
    (candle / FOLDER).symlink_to(outside)


def before_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "before", outside)
    write(candle, "local/transaction/committed.json", journal(taken_back=[7]))


def before_of_a_phase_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "before/7", outside / "7")
    write(candle, "local/transaction/committed.json", journal(taken_back=[7]))


def staged_before_goes_out(candle: Path, outside: Path) -> None:
    write(candle, "local/transaction/before/7/x", "x")
    link(candle, "before", outside)
    write(candle, "local/transaction/committed.json", journal(applied=[7]))


def key_is_moved_into_the_tree(candle: Path, outside: Path) -> None:
    secret = sha256(SECRET + b"0")
    link(candle, "local/transaction/old", outside)
    now = sha256((candle / LIB).read_bytes())
    files = [{"path": LIB, "old": secret, "new": now, "kept": "old/0"}]
    write(candle, "local/transaction/journal.json", journal(files=files))


def key_is_moved_by_a_link_to_it(candle: Path, outside: Path) -> None:
    now = sha256((candle / LIB).read_bytes())
    link(candle, "local/transaction/old/0", outside / "id_rsa")
    files = [{"path": LIB, "old": sha256(SECRET + b"id_rsa"), "new": now, "kept": "old/0"}]
    write(candle, "local/transaction/journal.json", journal(files=files))


def folders_outside_are_dropped(candle: Path, outside: Path) -> None:
    (candle / "lnk").symlink_to(outside / "empty")
    write(candle, "local/transaction/committed.json", journal(dropped=["lnk/e1"]))


def folders_outside_were_made(candle: Path, outside: Path) -> None:
    (candle / "lnk").symlink_to(outside / "empty")
    write(candle, "local/transaction/journal.json", journal(made=["lnk/e1"]))


def files_outside_were_made(candle: Path, outside: Path) -> None:
    (candle / "lnk").symlink_to(outside)
    files = [{"path": "lnk/id_rsa", "old": None, "new": sha256(SECRET + b"id_rsa"), "kept": None}]
    write(candle, "local/transaction/journal.json", journal(files=files))


def journal_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "local/transaction/journal.json", outside / "id_rsa")


def record_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "record.json", outside / "id_rsa")


def lock_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "local/lock", outside / "id_rsa")
    link(candle, "local/transaction", outside)


def ignore_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "local/.gitignore", outside / "id_rsa")
    write(candle, "local/transaction/x", "x")


def record(candle: Path, *files: dict[str, object], **header: object) -> None:
    more = {} if header.get("schema_version") == 1 else {"before_blob": None, "after_blob": None, "undo": None}
    phase = {"phase": 0, "files": [{**more, **file} for file in files], "folders": []}
    document = {**HEADER, "phases": [phase], **header}
    if document["schema_version"] == 1:
        del document["declared"]
    write(candle, "record.json", json.dumps(document))


def kept_bytes_are_a_link(candle: Path, outside: Path) -> None:
    record(
        candle, {"path": LIB, "before": sha256(SECRET + b"id_rsa"), "after": "0" * 64, "mode": 0o644}, schema_version=1
    )
    link(candle, f"before/0/{LIB}", outside / "id_rsa")


def kept_bytes_lie_behind_a_link(candle: Path, outside: Path) -> None:
    record(
        candle,
        {"path": "x.rs", "before": sha256(SECRET + b"deep/er/still/x.rs"), "after": "0" * 64, "mode": 0o644},
        schema_version=1,
    )
    link(candle, "before/0", outside / "deep/er/still")


def local_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "local", outside)


def old_transaction_is_a_link(candle: Path, outside: Path) -> None:
    link(candle, "transaction", outside)


def originals_are_a_link(candle: Path, outside: Path) -> None:
    record(candle, {"path": LIB, "before": sha256(SECRET + b"id_rsa"), "after": "0" * 64, "mode": 0o644})
    link(candle, "local/originals", outside)


def an_original_is_a_link(candle: Path, outside: Path) -> None:
    digest = sha256(SECRET + b"id_rsa")
    record(candle, {"path": LIB, "before": digest, "after": "0" * 64, "mode": 0o644})
    link(candle, f"local/originals/{digest}", outside / "id_rsa")


def backups_are_a_link(candle: Path, outside: Path) -> None:
    record(candle, {"path": LIB, "before": None, "after": sha256(b"x"), "mode": None})
    link(candle, "local/backups", outside)


def backup_goes_out(candle: Path, outside: Path) -> None:
    record(candle, {"path": LIB, "before": None, "after": sha256(b"x"), "mode": None})
    link(candle, "local/backups", outside)
    write(candle, "local/transaction/backup/x", "x")
    write(candle, "local/transaction/committed.json", journal(taken_back=[0], backup=1))


def staged_originals_go_out(candle: Path, outside: Path) -> None:
    digest = sha256(SECRET + b"id_rsa")
    record(candle, {"path": LIB, "before": digest, "after": "0" * 64, "mode": 0o644})
    shutil.copy(candle / FOLDER / "record.json", candle / "record")
    write(candle, "local/transaction/record.json", (candle / "record").read_bytes())
    link(candle, "local/transaction/originals", outside)
    link(candle, "local/originals", outside)
    write(candle, "local/transaction/committed.json", journal(recorded=True))


def undo_edits_go_out_of_the_file(candle: Path, outside: Path) -> None:
    after = sha256((candle / LIB).read_bytes())
    undo = [[1 << 24, 1 << 24, "x"]]
    record(candle, {"path": LIB, "before": "0" * 64, "after": after, "mode": 0o644, "undo": undo})


def undo_edits_make_something_else(candle: Path, outside: Path) -> None:
    after = sha256((candle / LIB).read_bytes())
    file = {"path": LIB, "before": "0" * 64, "after": after, "mode": 0o4755, "undo": [[0, 0, "evil"]]}
    record(candle, file)


def declared_edits_of_something_else(candle: Path, outside: Path) -> None:
    now = sha256((candle / LIB).read_bytes())
    own = {"path": LIB, "base": "1" * 64, "own": now, "undo": [[0, 0, "evil"]]}
    record(candle, {"path": LIB, "before": "0" * 64, "after": "1" * 64, "mode": 0o644}, declared=[own])


def recorded_file_is_outside(candle: Path, outside: Path) -> None:
    (candle / "lnk").symlink_to(outside)
    record(candle, {"path": "lnk/id_rsa", "before": None, "after": sha256(SECRET + b"id_rsa"), "mode": None})


def recorded_file_is_a_link(candle: Path, outside: Path) -> None:
    (candle / "lnk").symlink_to(outside / "id_rsa")
    record(candle, {"path": "lnk", "before": None, "after": sha256(SECRET + b"id_rsa"), "mode": None})


ATTACKS: tuple[Callable[[Path, Path], None], ...] = (
    local_is_a_link,
    old_transaction_is_a_link,
    originals_are_a_link,
    an_original_is_a_link,
    backups_are_a_link,
    backup_goes_out,
    staged_originals_go_out,
    undo_edits_go_out_of_the_file,
    undo_edits_make_something_else,
    declared_edits_of_something_else,
    transaction_is_a_link,
    transaction_is_a_relative_link,
    home_is_a_link,
    before_is_a_link,
    before_of_a_phase_is_a_link,
    staged_before_goes_out,
    key_is_moved_into_the_tree,
    key_is_moved_by_a_link_to_it,
    folders_outside_are_dropped,
    folders_outside_were_made,
    files_outside_were_made,
    journal_is_a_link,
    record_is_a_link,
    lock_is_a_link,
    ignore_is_a_link,
    kept_bytes_are_a_link,
    kept_bytes_lie_behind_a_link,
    recorded_file_is_outside,
    recorded_file_is_a_link,
)


def without_links(candle: Path) -> str:
    return tree_hash(candle)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_nothing_outside_of_the_tree_is_touched(
    candle: Path, canary: Canary, candle_rocm: CommandLine, tmp_path: Path, attack: Callable[[Path, Path], None]
) -> None:
    candle_rocm.ok("scan", candle)
    attack(candle, canary.root)
    before = names_and_times(candle)
    for command in (*READING, *WRITING):
        result = candle_rocm(*arguments(command, candle))

        assert canary.touched() == [], command
        assert result.code != 70, result.stderr
        if command in READING:
            assert names_and_times(candle) == before, command
        assert SECRET.decode().strip() not in result.stdout + result.stderr


def names_and_times(candle: Path) -> dict[str, tuple[int, int]]:
    """Everything in the tree with its inode and the time of its last change."""
    statuses = {path.relative_to(candle).as_posix(): path.lstat() for path in (candle, *candle.rglob("*"))}
    return {name: (status.st_ino, status.st_mtime_ns) for name, status in statuses.items()}
