"""Real trees with edits of somebody's, taken from release to release: no edit is lost, and conflicts are small."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import pytest

from codegen.record.record import load_record
from releases.command_line import candle_rocm, verified
from releases.cover import FULL, NAMED, tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.cargo, pytest.mark.network]

EDITS = 40
PAIRS = [(NAMED[0], NAMED[-1])] if NAMED else [(tried()[0], tried()[-1]), *zip(tried(), tried()[1:], strict=False)]
"""The oldest to the newest, and each to its neighbour; CI's share is the first of them."""
CONFLICT = re.compile(r"^<{7} this tree\n(.*?)^\|{7} .*?\n(.*?)^={7}\n(.*?)^>{7} ", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Planted:
    """Somebody's edits."""

    lines: dict[str, str]
    """Comments, each with the file that it is in."""
    moved: dict[str, str]
    deleted: tuple[str, ...]


def plant(tree: Path, pristine: Path, other: Path, dice: Random) -> Planted:
    """Edits of each kind: in and beside patched lines, in Candle's lines of files that phases change and of others, in
    files that they made, files of one's own, deletions and renames."""
    record = load_record(tree)
    assert record is not None
    patched = sorted(path for path in record.left() if path.endswith(".rs") and (pristine / path).is_file())
    made = sorted(path for path in record.left() if path.endswith(".rs") and not (pristine / path).is_file())
    sources = sorted(path.relative_to(pristine).as_posix() for path in pristine.rglob("*.rs"))
    plain = [path for path in sources if path not in record.left() and "/src/" in path]
    both = [path for path in plain if (other / path).is_file()]
    lines: dict[str, str] = {}

    def comment(path: str, at: int, *, end: bool = False) -> None:
        text = (tree / path).read_text().split("\n")
        mine = f"// mine {len(lines)}"
        text[at : at + end] = [f"{text[at]} {mine}"] if end else [mine]
        (tree / path).write_text("\n".join(text))
        lines[mine] = path

    def rocm_line(path: str) -> int:
        text = (tree / path).read_text().split("\n")
        return next(number for number, line in enumerate(text) if "Rocm" in line or "rocm" in line)

    for path in dice.sample(patched, 6):
        comment(path, rocm_line(path), end=True)
    for path in dice.sample(patched, 6):
        comment(path, rocm_line(path) + 1)
    for path in dice.sample(patched, 6):
        comment(path, len((tree / path).read_text().split("\n")) - 1)
    for path in dice.sample(both, 8):
        comment(path, dice.randrange(len((tree / path).read_text().split("\n"))))
    for path in dice.sample(made, 6):
        comment(path, len((tree / path).read_text().split("\n")) - 1)
    for number in range(2):
        path = f"candle-core/src/mine_{number}.rs"
        (tree / path).write_text("")
        comment(path, 0)
    # What speaks of backends is looked for at its place: elsewhere, rules would have to be written for it.
    quiet = [path for path in both if not re.search("cuda|metal", (tree / path).read_text(), re.IGNORECASE)]
    free = [path for path in quiet if path not in lines.values() and len((tree / path).read_text()) > 2000]
    first, second, *gone = dice.sample(free, 6)
    moved = {path: path.replace(".rs", "_mine.rs") for path in (first, second)}
    for old, new in moved.items():
        (tree / old).rename(tree / new)
    for path in gone:
        (tree / path).unlink()
    assert len(lines) + len(moved) + len(gone) == EDITS
    return Planted(lines, moved, tuple(gone))


def commit(tree: Path, message: str) -> None:
    who = ("-c", "user.name=Maker", "-c", "user.email=maker@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "--message", message)):
        subprocess.run(["git", "-C", tree, *words], check=True)


def conflicts(tree: Path, paths: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """What each side has in each conflict: ours, the base's, theirs."""
    for path in paths:
        yield from ((ours, base, theirs) for ours, base, theirs in CONFLICT.findall((tree / path).read_text()))


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=[" to ".join(pair) for pair in PAIRS])
def test_no_edit_is_lost(old: str, new: str, tmp_path: Path) -> None:
    pristine, other = tmp_path / "old", tmp_path / "new"
    for release, folder in ((old, pristine), (new, other)):
        assert candle_rocm("fetch", release, "--to", folder).code == 0
    upgrade_with_edits(pristine, other, tmp_path / "tree", Random(f"{old} {new}"), to=new, release=new)


@FULL
def test_no_edit_is_lost_on_the_way_to_a_git_tree_ahead_of_the_newest_release(tmp_path: Path) -> None:
    """Development goes on after a release: the tree says what is to come, and is no release that specs list."""
    pristine, ahead = tmp_path / "old", tmp_path / "ahead"
    assert candle_rocm("fetch", PAIRS[-1][1], "--to", pristine).code == 0
    coming = go_ahead(ahead)

    tree = tmp_path / "tree"
    changed: set[str] = set()

    def change_lines_below_edits(planted: Planted) -> None:
        for mine, path in planted.lines.items():
            below = (tree / path).read_text().split(f"{mine}\n")[-1].split("\n")[0]
            there = (ahead / path).read_text() if (ahead / path).is_file() else ""
            if below.strip() and there.count(f"\n{below}\n") == 1 and len(changed) < 3:
                (ahead / path).write_text(there.replace(f"\n{below}\n", f"\n{below} // to come\n"))
                changed.add(path)
        commit(ahead, "more of it")

    in_conflict = upgrade_with_edits(
        pristine, ahead, tree, Random("ahead"), to=str(ahead), release=coming, meanwhile=change_lines_below_edits
    )

    assert changed == set(in_conflict), "where both sides changed neighbouring lines, and nowhere else"
    assert len(changed) == 3
    assert (tree / "candle-core/src/to_come.rs").is_file()
    assert "mod to_come;" in (tree / "candle-core/src/lib.rs").read_text()


def go_ahead(tree: Path) -> str:
    """A git tree with the newest release and what came after: a version, a module, lines in files that phases change.

    Returns the version.
    """
    newest = PAIRS[-1][1]
    dice = Random(newest)
    assert candle_rocm("fetch", newest, "--to", tree).code == 0
    commit(tree, newest)
    first, second, _ = newest.split(".")
    coming = f"{first}.{int(second) + 1}.0"
    for manifest in tree.rglob("Cargo.toml"):
        manifest.write_text(manifest.read_text().replace(f'"{newest}"', f'"{coming}"'))
    (tree / "candle-core/src/to_come.rs").write_text("/// What is to come.\npub const TO_COME: usize = 1;\n")
    lib = tree / "candle-core/src/lib.rs"
    lib.write_text(lib.read_text().replace("mod tensor;\n", "mod tensor;\npub mod to_come;\n", 1))
    sources = sorted(path for path in tree.rglob("src/**/*.rs") if path.stat().st_size > 2000)
    patched = [path for path in sources if "Device::Cuda" in path.read_text()]
    for path in {*dice.sample(patched, min(8, len(patched))), *dice.sample(sources, 40)}:
        lines = path.read_text().split("\n")
        starts = [number for number, line in enumerate(lines) if line.startswith(("fn ", "pub fn ", "impl"))]
        if starts:
            lines.insert(dice.choice(starts), "// What is to come changes this.")
            path.write_text("\n".join(lines))
    commit(tree, "what is to come")
    return coming


def upgrade_with_edits(
    pristine: Path,
    other: Path,
    tree: Path,
    dice: Random,
    *,
    to: str,
    release: str,
    meanwhile: Callable[[Planted], None] = lambda _planted: None,
) -> list[str]:
    """Patch a copy of a tree, plant edits, upgrade it to another tree `to`, and look for each edit.

    Returns the files with conflicts.
    """
    shutil.copytree(pristine, tree)
    assert candle_rocm("apply", tree).code == 0
    commit(tree, "ROCm")
    planted = plant(tree, pristine, other, dice)
    declared = candle_rocm("declare", tree)
    assert declared.code == 0, declared.stderr
    commit(tree, "mine")
    meanwhile(planted)

    done = candle_rocm("upgrade", tree, "--to", to, "--json")

    assert done.code in (0, 1), done.stderr
    document = done.document
    in_conflict = [each["path"] for each in document["conflicts"] if each["lines"]]
    dropped = [each["path"] for each in document["conflicts"] if not each["lines"]]
    print(
        f"{pristine.name} -> {release}: {len(document['changed'])} files, {len(document['kept'])} with edits, "
        f"{len(in_conflict)} in conflict, {len(dropped)} that a side deleted"
    )
    for mine, path in planted.lines.items():
        assert (tree / path).read_text().count(f"{mine}\n") + (tree / path).read_text().endswith(mine) == 1, (
            mine,
            path,
        )
    for before, after in planted.moved.items():
        assert (tree / after).is_file()
        assert not (tree / before).exists()
    assert [path for path in planted.deleted if (tree / path).exists() and path not in dropped] == []
    for ours, base, theirs in conflicts(tree, in_conflict):
        assert "// mine" in ours, "only where there is an edit of the owner's"
        assert base not in (ours, theirs), "and where both sides changed the same lines"
        assert ours.count("\n") <= 40, "and no more lines than those"
    record = load_record(tree)
    assert record is not None
    assert record.header.release == release
    edited = {path for path in planted.lines.values() if path in record.left()}
    assert set(record.own) | set(in_conflict) | set(dropped) >= edited, "what was declared stays declared"
    return in_conflict


@FULL
@pytest.mark.parametrize("to", ["release", "ahead"])
def test_what_has_no_conflict_compiles(to: str, work: Path, tmp_path: Path) -> None:
    """A fork's own function beside patched code and a line of its own in a generated file, through both releases."""
    old, new = PAIRS[0]
    if to == "ahead":
        old, new = PAIRS[-1][1], str(tmp_path / "ahead")
        go_ahead(tmp_path / "ahead")
    tree = tmp_path / "tree"
    assert candle_rocm("fetch", old, "--to", tree).code == 0
    lib = tree / "candle-core/src/lib.rs"
    lib.write_text(lib.read_text() + "\n/// A fork's own.\npub fn of_the_fork() -> usize {\n    42\n}\n")
    assert candle_rocm("apply", tree).code == 0
    backend = tree / "candle-core/src/rocm_backend/mod.rs"
    backend.write_text(
        backend.read_text() + "\n/// What a fork adds to the backend.\npub const OF_THE_FORK: usize = 7;\n"
    )
    assert candle_rocm("declare", tree).code == 0

    done = candle_rocm("upgrade", tree, "--to", new)

    assert done.code == 0, done.stdout + done.stderr
    assert "of_the_fork" in lib.read_text()
    assert "OF_THE_FORK" in backend.read_text()
    assert candle_rocm("check", tree).stdout == "up to date, with declared edits in 1 file\n"
    step = verified(str(tree), ("check-on",), work, "--package", "candle-core")["check-on"]
    assert step["verdict"] == "passed"
