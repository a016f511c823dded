"""The record says what is applied; a damaged one is an error with a place and a remedy, never a wrong answer."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phased import MEMORY, apply_phase, unsynced

from codegen import beneath
from codegen.errors import Conflict, ExitCode, InputOutputError
from codegen.patch.changes import FileChange
from codegen.record.fields import checked_path
from codegen.record.home import Home
from codegen.record.record import (
    AppliedFile,
    AppliedPhase,
    Condition,
    Declared,
    Record,
    RecordHeader,
    blob_name,
    decode_record,
    digest_of,
    encode_record,
    load_record,
    sha256,
    target_of,
)
from codegen.record.texts import pristine_overlay
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = RecordHeader("0.1.0", "0.11.1", "dummy", "rocm-rs")
LIB = "candle-core/src/lib.rs"
NEW = "candle-core/src/rocm/mod.rs"
OWN = {"path": LIB, "base": "0" * 64, "own": "1" * 64, "undo": None}


@pytest.fixture(autouse=True, scope="module")
def _unsynced() -> Iterator[None]:
    with unsynced():
        yield


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Phases 0 and 1 applied: one file changed twice, one new in phase 0, one changed in phase 1 only."""
    root = tmp_path / "candle"
    (root / LIB).parent.mkdir(parents=True)
    (root / LIB).write_bytes(b"pristine\n")
    (root / "README.md").write_bytes(b"")
    apply_phase(root, 0, [FileChange(LIB, b"pristine\n", b"phase 0\n"), FileChange(NEW, None, b"new\n")], HEADER)
    apply_phase(root, 1, [FileChange(LIB, b"phase 0\n", b"phase 1\n"), FileChange("README.md", b"", b"x")], HEADER)
    return root


def loaded(root: Path) -> Record:
    record = load_record(root)
    assert record is not None
    return record


def refusal(root: Path) -> str:
    """The message with which the record of the tree is refused."""
    with pytest.raises(Conflict) as caught:
        load_record(root)
    assert type(caught.value) is Conflict
    assert caught.value.exit_code == ExitCode.CONFLICT
    return str(caught.value)


# What it says


def test_where_everything_lies(tmp_path: Path) -> None:
    home = Home(tmp_path)

    assert home.record == tmp_path / ".candle-rocm/record.json"
    assert home.original("0" * 64) == tmp_path / ".candle-rocm/local/originals" / ("0" * 64)
    assert home.transaction == tmp_path / ".candle-rocm/local/transaction"
    assert not home.exists()
    assert not home.has_local_content()


def test_a_tree_without_record(tmp_path: Path) -> None:
    assert load_record(tmp_path) is None
    (tmp_path / FOLDER).mkdir()
    assert load_record(tmp_path) is None
    assert load_record(tmp_path / "nowhere") is None


def test_what_is_on_disk(tree: Path) -> None:
    document = json.loads(Home(tree).record.read_text())

    assert {key: value for key, value in document.items() if key != "phases"} == {
        "schema_version": 2,
        "declared": [],
        "tool_version": "0.1.0",
        "release": "0.11.1",
        "gating": "dummy",
        "runtime": "rocm-rs",
    }
    assert [phase["phase"] for phase in document["phases"]] == [0, 1]
    assert document["phases"][0]["folders"] == ["candle-core/src/rocm"]
    assert document["phases"][0]["files"][0] == {
        "path": LIB,
        "before": sha256(b"pristine\n"),
        "after": sha256(b"phase 0\n"),
        "mode": (tree / LIB).stat().st_mode & 0o7777,
        "before_blob": "b95a83c0408d015e213a3f2412a27419f35a22ee",
        "after_blob": blob_name(b"phase 0\n"),
        "undo": [[0, 8, "pristine\n"]],
    }
    assert document["phases"][0]["files"][1]["before"] is None
    assert document["phases"][0]["files"][1]["mode"] is None
    kept = {path.name: path.read_bytes() for path in (tree / FOLDER / "local/originals").iterdir()}
    assert kept == {sha256(content): content for content in (b"pristine\n", b"phase 0\n", b"")}
    assert len(Home(tree).record.read_text().splitlines()) == 28, "a line for each file"


def test_phases_in_order(tree: Path) -> None:
    record = loaded(tree)

    assert record.header == HEADER
    assert [phase.phase for phase in record.phases] == [0, 1]
    assert record.last.phase == 1


def test_files_of_a_phase_are_sorted(tree: Path) -> None:
    assert [file.path for file in loaded(tree).last.files] == ["README.md", LIB]


def test_what_the_last_phase_left(tree: Path) -> None:
    assert loaded(tree).left() == {LIB: sha256(b"phase 1\n"), NEW: sha256(b"new\n"), "README.md": sha256(b"x")}


def test_pristine_contents_of_all_touched_files(tree: Path) -> None:
    assert pristine_overlay(tree, loaded(tree)) == {LIB: b"pristine\n", NEW: None, "README.md": b""}


def test_pristine_contents_do_not_depend_on_the_tree(tree: Path) -> None:
    (tree / LIB).unlink()
    (tree / NEW).write_bytes(b"edited")

    assert pristine_overlay(tree, loaded(tree))[LIB] == b"pristine\n"


def test_nothing_is_hand_edited_at_first(tree: Path) -> None:
    assert loaded(tree).hand_edited(tree) == ()


def test_edited_missing_and_replaced_files_are_hand_edited(tree: Path) -> None:
    (tree / LIB).write_bytes(b"phase 0\n")
    (tree / LIB).write_bytes(b"mine\n")
    (tree / "README.md").unlink()
    (tree / NEW).unlink()
    (tree / NEW).mkdir()

    assert loaded(tree).hand_edited(tree) == ("README.md", LIB, NEW)
    assert loaded(tree).condition(tree).taken_back == ()


def test_files_as_before_a_phase_are_not_edited_but_taken_back(tree: Path) -> None:
    (tree / LIB).write_bytes(b"phase 0\n")
    (tree / "README.md").write_bytes(b"")
    (tree / NEW).unlink()

    assert loaded(tree).condition(tree) == Condition((), ("README.md", LIB, NEW), (), 0)
    (tree / LIB).write_bytes(b"pristine\n")
    assert loaded(tree).condition(tree).taken_back == ("README.md", LIB, NEW)


def test_files_in_a_folder_that_is_a_file_now_are_hand_edited(tree: Path) -> None:
    (tree / NEW).unlink()
    (tree / NEW).parent.rmdir()
    (tree / NEW).parent.write_bytes(b"")

    assert loaded(tree).hand_edited(tree) == (NEW,)


def test_other_files_are_not_looked_at(tree: Path) -> None:
    (tree / "mine.rs").write_bytes(b"")

    assert loaded(tree).hand_edited(tree) == ()


# A record that is not as we wrote it


def test_broken_json_is_shown_with_a_caret(tree: Path) -> None:
    text = Home(tree).record.read_text()
    Home(tree).record.write_text(text.replace('"gating": "dummy",', '"gating": dummy,'))

    message = refusal(tree)

    assert message.startswith(f"conflict: {Home(tree).record}:5:13: corrupt: Expecting value\n")
    assert '  5 |   "gating": dummy,\n    |             ^\n' in message
    assert "= help: restore record.json from git or a backup (git log .candle-rocm/record.json); without one" in message


def test_every_truncation_is_an_error_with_a_place(tree: Path) -> None:
    content = Home(tree).record.read_bytes()
    for length in range(0, len(content) - 2, 7):
        Home(tree).record.write_bytes(content[:length])
        assert f"{Home(tree).record}:" in refusal(tree)


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"schema_version": ' + b"9" * 5000 + b"}"]
)
def test_anything_else_in_its_place(tree: Path, content: bytes) -> None:
    Home(tree).record.write_bytes(content)

    message = refusal(tree)

    assert f"{Home(tree).record}:1:1: corrupt: " in message
    assert "restore record.json from git or a backup" in message


def altered(root: Path, *keys: str | int, value: Any) -> None:
    document = json.loads(Home(root).record.read_text())
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    Home(root).record.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("keys", "value", "text"),
    [
        (("release",), ..., "'release' is missing"),
        (("gating",), 1, "'gating' is 1, not of type str"),
        (("declared",), ..., "'declared' is missing"),
        (("schema_version",), True, "'schema_version' is true, not of type int"),
        (("schema_version",), "1", "'schema_version' is \"1\", not of type int"),
        (("phases",), {}, "'phases' is {}, not of type list"),
        (("phases",), [], "'phases' are [], not one or more numbers in ascending order"),
        (("phases", 0, "phase"), 1, "'phases' are [1, 1], not one or more numbers in ascending order"),
        (("phases", 0, "phase"), 2, "'phases' are [2, 1], not one or more numbers in ascending order"),
        (("phases", 0, "phase"), -1, "-1 is not the number of a phase"),
        (("phases", 0, "phase"), 100, "100 is not the number of a phase"),
        (("phases", 0, "phase"), 10**200, "1000"),
        (("phases", 0), "x", '"x" is not an object'),
        (("phases", 0), {}, "'phase' is missing"),
        (("phases", 0, "files"), ..., "'files' is missing"),
        (("comment",), "later", '"comment" is not a key that candle-rocm writes'),
        (("phases", 0, "comment"), 1, '"comment" is not a key that candle-rocm writes'),
        (("phases", 0, "files", 0, "comment"), 1, '"comment" is not a key that candle-rocm writes'),
        (("release",), "\ud800", "'release' is \"\\ud800\", not a version such as 0.11.1"),
        (("release",), "0.11", "'release' is \"0.11\", not a version such as 0.11.1"),
        (("release",), "0.11.1-" + "a" * 300, "not a version such as 0.11.1"),
        (("tool_version",), "\x1b[2J", "'tool_version' is \"\\u001b[2J\", not a version"),
        (("gating",), "none", "'gating' is \"none\", not one of dummy, cfg"),
        (("runtime",), "", "'runtime' is \"\", not one of rocm-rs, dynamic"),
        (("phases", 0, "files", 0, "path"), "a\0b", "'a\\u0000b' is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), "\ud800", "'\\ud800' is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), "a/" * 600 + "b", "is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), "a" * 256, "is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), "sub/.git/hooks/post-checkout", "is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), ".GIT/config", "'.GIT/config' is not a path in the tree"),
        (("phases", 0, "files", 0, "after"), "0" * 63, "is not a SHA-256 in hexadecimal"),
        (("phases", 0, "files", 0, "before"), "../x", '"../x" is not a SHA-256 in hexadecimal'),
        (("phases", 0, "files", 0, "before"), None, "which does not go with 'before'"),
        (("phases", 0, "files", 0, "mode"), None, "'mode' is null, which does not go with 'before'"),
        (("phases", 0, "files", 0, "path"), "z.rs", "the paths of 'files' are not in ascending order"),
        (("phases", 0, "folders"), ["a", "a"], "'folders' are not in ascending order"),
        (("phases", 0, "files", 0, "path"), "../../etc/passwd", "'../../etc/passwd' is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), "/etc/passwd", "'/etc/passwd' is not a path in the tree"),
        (("phases", 0, "files", 0, "path"), None, "'path' is null, not of type str"),
        (("phases", 0, "files", 0, "after"), None, "'after' is null, not of type str"),
        (("phases", 0, "files", 0, "before"), ..., "'before' is missing"),
        (("phases", 0, "files", 0, "mode"), 0o10000, "'mode' is 4096, not permission bits"),
        (("phases", 0, "files", 0, "mode"), -1, "'mode' is -1, not permission bits"),
        (("phases", 0, "folders"), ["a/.."], "'a/..' is not a path in the tree"),
        (("phases", 0, "files", 0, "undo"), "x", "'undo' is \"x\", not of type list"),
        (("phases", 0, "files", 0, "undo"), [[0, 1]], "'undo' has [0, 1], not an offset, a length and a text"),
        (("phases", 0, "files", 0, "undo"), [[0, True, ""]], "not an offset, a length and a text"),
        (("phases", 0, "files", 0, "undo"), [[-1, 1, ""]], "'undo' has [-1, 1, \"\"], which is no edit"),
        (("phases", 0, "files", 0, "undo"), [[0, 0, ""]], "which is no edit"),
        (("phases", 0, "files", 0, "undo"), [[0, 1, "\ud800"]], "which is no text"),
        (("phases", 0, "files", 0, "undo"), [[2, 1, ""], [2, 1, ""]], "not in ascending order: 2 comes before 3"),
        (("phases", 0, "files", 0, "undo"), [[0, 10**9, ""]], "larger than candle-rocm makes them"),
        (("phases", 0, "files", 0, "undo"), [[0, 1, "x" * 70_000]], "larger than candle-rocm makes them"),
        (("phases", 0, "files", 1, "undo"), [], "'undo' or 'before_blob' is there, which does not go with 'before'"),
        (("phases", 0, "files", 0, "before_blob"), "../x", "'before_blob' is \"../x\", not the name of a blob"),
        (("declared",), [{}], "'path' is missing"),
        (("declared",), [OWN, OWN], "the paths of 'declared' are not in ascending order"),
        (("declared",), [{**OWN, "path": "z.rs"}], "'declared' has \"z.rs\", which no phase wrote"),
        (("declared",), [{**OWN, "path": "../x"}], "'../x' is not a path in the tree"),
        (("declared",), [{**OWN, "own": "0" * 64}], "without an edit"),
        (("phases", 0, "folders"), [3], "3 is not a path in the tree"),
    ],
)
def test_values_that_we_never_write(tree: Path, keys: tuple[str | int, ...], value: object, text: str) -> None:
    altered(tree, *keys, value=value)

    message = refusal(tree)

    assert f"{Home(tree).record}:1:1: corrupt: " in message
    assert text in message
    assert "restore record.json from git or a backup" in message


def test_a_record_of_a_newer_tool(tree: Path) -> None:
    altered(tree, "schema_version", value=3)

    message = refusal(tree)

    assert f"{Home(tree).record}:1:1: the record has schema 3, this candle-rocm knows 2" in message
    assert "use the candle-rocm that applied the phases" in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"release": "0.11.1", "release": "0.10.2"}', '"release" is there twice'),
        ('{"schema_version": NaN}', "NaN is not a number"),
        ('{"schema_version": -Infinity}', "-Infinity is not a number"),
        ('{"phases": ' + "[" * 5000 + "]" * 5000 + "}", "recursion"),
    ],
)
def test_json_that_python_would_take(tree: Path, text: str, problem: str) -> None:
    Home(tree).record.write_text(text)

    assert f"{Home(tree).record}:1:1: corrupt: " in refusal(tree)
    assert problem in refusal(tree)


def test_a_record_as_large_as_nobody_writes_it(tree: Path) -> None:
    with Home(tree).record.open("ab") as file:
        file.truncate(1 << 40)

    with pytest.raises(
        InputOutputError, match=r"cannot read .*record\.json: larger than 4096 KiB\n.*did not write that"
    ):
        load_record(tree)


def test_kept_bytes_of_more_than_a_gigabyte_are_not_read(tree: Path) -> None:
    with Home(tree).original(sha256(b"pristine\n")).open("ab") as file:
        file.truncate(1 << 40)
    (tree / LIB).write_bytes(b"mine")

    with pytest.raises(InputOutputError, match=r"originals/\w+: larger than 32768 KiB"):
        pristine_overlay(tree, loaded(tree))


def test_many_kept_files_are_not_read_either(tree: Path) -> None:
    names = [f"x{number:02}.rs" for number in range(10)]
    files = []
    for number, name in enumerate(names):
        content = bytes(30 << 20) + bytes([number])
        Home(tree).original(sha256(content)).write_bytes(content)
        files.append(AppliedFile(name, sha256(content), sha256(b""), 0o644))

    with pytest.raises(InputOutputError, match="names files of more than 256 MiB"):
        pristine_overlay(tree, Record(HEADER, (AppliedPhase(5, tuple(files)),)))


def test_many_files_of_the_tree_are_not_read_either(tree: Path) -> None:
    names = [f"x{number:02}.rs" for number in range(10)]
    for name in names:
        with (tree / name).open("wb") as file:
            file.truncate(30 << 20)
    files = tuple(AppliedFile(name, None, sha256(b""), None) for name in names)

    with pytest.raises(InputOutputError, match="names files of more than 256 MiB"):
        Record(HEADER, (AppliedPhase(5, files),)).hand_edited(tree)


@pytest.mark.parametrize("kind", ["pipe", "link out", "link to itself", "huge"])
def test_something_else_than_our_file_is_hand_edited(tree: Path, kind: str) -> None:
    (tree / NEW).unlink()
    match kind:
        case "pipe":
            os.mkfifo(tree / NEW)
        case "link out":
            (tree.parent / "out").write_bytes(b"new\n")
            (tree / NEW).symlink_to(tree.parent / "out")
        case "link to itself":
            (tree / NEW).symlink_to(tree / NEW)
        case _:
            with (tree / NEW).open("wb") as file:
                file.truncate(1 << 40)

    assert loaded(tree).hand_edited(tree) == (NEW,)


def test_a_deleted_record_is_not_taken_for_a_pristine_tree(tree: Path) -> None:
    """As schema 1 has it; what schema 2 keeps locally is no more than a help."""
    Home(tree).record.unlink()
    assert load_record(tree) is None
    (Home(tree).old_originals / "0").mkdir(parents=True)

    message = refusal(tree)

    assert f"{Home(tree).record} is missing, but {Home(tree).old_originals} still holds what files were" in message
    assert f"restore the record, or put the files back by hand and delete {Home(tree).folder}" in message


def test_a_record_not_yet_written_is_no_damage(tree: Path) -> None:
    # Between committing the first phase and writing its record; `recover` completes it.
    Home(tree).record.unlink()
    Home(tree).transaction.mkdir()

    assert load_record(tree) is None


def test_a_merge_conflict_in_the_record(tree: Path) -> None:
    lines = Home(tree).record.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "release" in line)
    lines[at] = f"<<<<<<< HEAD\n{lines[at]}=======\n{lines[at]}>>>>>>> other\n"
    Home(tree).record.write_text("".join(lines))

    message = refusal(tree)

    assert message.startswith(f"conflict: {Home(tree).record}:{at + 1}:1: the record has a merge conflict that is not")
    assert "git checkout --ours .candle-rocm/record.json (or --theirs), then run `candle-rocm status`" in message


def test_a_record_that_is_a_folder(tree: Path) -> None:
    Home(tree).record.unlink()
    Home(tree).record.mkdir()

    with pytest.raises(InputOutputError) as caught:
        load_record(tree)

    assert caught.value.exit_code == ExitCode.IO
    assert f"cannot read {Home(tree).record}: Is a directory" in str(caught.value)
    assert "make it readable, then" in str(caught.value)


@pytest.mark.parametrize("kind", ["link", "dangling", "file"])
def test_a_folder_that_is_none(tmp_path: Path, kind: str) -> None:
    home = tmp_path / FOLDER
    if kind == "file":
        home.write_bytes(b"")
    else:
        home.symlink_to(tmp_path if kind == "link" else tmp_path / "nowhere")

    message = refusal(tmp_path)

    assert f"{home} is not a folder of candle-rocm's own (it is a link or a file)" in message
    assert "move it away" in message


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_kept_bytes_that_are_gone_or_wrong(tree: Path, damage: str) -> None:
    kept = Home(tree).original(sha256(b"pristine\n"))
    Home(tree).original(sha256(b"phase 0\n")).unlink()
    if damage == "missing":
        kept.unlink()
    else:
        kept.write_bytes(b"pristine?\n")

    assert pristine_overlay(tree, loaded(tree))[LIB] == b"pristine\n", "derived from the file itself"
    (tree / LIB).write_bytes(b"mine\n")
    with pytest.raises(Conflict) as caught:
        pristine_overlay(tree, loaded(tree))

    assert caught.value.exit_code == ExitCode.CONFLICT
    gone = f"{LIB} is not as candle-rocm wrote it, and its text from before phase 0 cannot be found"
    assert [problem.message for problem in caught.value.problems] == [gone]
    assert "git fetch --unshallow" in str(caught.value)


def test_a_file_that_cannot_be_read_is_not_called_edited(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied")

    record = loaded(tree)
    monkeypatch.setattr(beneath, "read", refuse)

    for call in (record.hand_edited, lambda root: pristine_overlay(root, record), load_record):
        with pytest.raises(InputOutputError, match=r"cannot read .*: Permission denied\n.*give yourself"):
            call(tree)


# Paths


@pytest.mark.parametrize("path", ["a", "a/b.rs", ".cargo/config.toml", "a b", "é", "a\\b", "...", "..a", ".gitignore"])
def test_paths_in_the_tree(path: str) -> None:
    assert checked_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/./b", "a/../b", "../a", "a\0b", ".git/hooks/x", f"{FOLDER}/x"],
)
def test_paths_that_are_not(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path in the tree"):
        checked_path(path)


def test_digest_of_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert digest_of(tmp_path, "folder") is None
    assert digest_of(tmp_path, "nothing") is None
    (tmp_path / "empty").write_bytes(b"")
    assert digest_of(tmp_path, "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("place", [".git", ".git/hooks/pre-commit", f"{FOLDER}/record.json", "sub/.git/config", "."])
def test_a_link_into_a_folder_of_git_or_of_the_record_is_refused(tree: Path, place: str) -> None:
    (tree / ".git/hooks").mkdir(parents=True)
    (tree / "sub/.git").mkdir(parents=True)
    (tree / "link").symlink_to(place)

    with pytest.raises(Conflict, match="points outside the tree through a symbolic link"):
        target_of(tree, "link")


# Laws

NAMES = st.sampled_from(["a.rs", "a/b.rs", "é ü/日本.rs", "x/y/z"])
DIGESTS = st.binary(max_size=3).map(sha256)
BLOBS = st.none() | st.binary(max_size=3).map(blob_name)
UNDO = st.none() | st.just(()) | st.just(((0, 3, "é"), (3, 0, "\n"), (9, 1, ""))) | st.just(((7, 1, '"]'),))
CHANGED = st.builds(AppliedFile, NAMES, DIGESTS, DIGESTS, st.integers(0, 0o7777), BLOBS, BLOBS, UNDO)
MADE = st.builds(AppliedFile, NAMES, st.none(), DIGESTS, st.none(), st.none(), BLOBS, st.none())
HEADERS = st.builds(
    RecordHeader,
    st.sampled_from(["0.1.0", "1.2.3rc1"]),
    st.sampled_from(["0.11.1", "0.9.2-alpha.1"]),
    st.sampled_from(["dummy", "cfg"]),
    st.sampled_from(["rocm-rs", "dynamic"]),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    numbers = sorted(draw(st.sets(st.integers(0, 7), min_size=1)))
    files = st.lists(CHANGED | MADE, max_size=3, unique_by=lambda file: file.path).map(
        lambda found: tuple(sorted(found, key=lambda file: file.path))
    )
    folders = st.sets(NAMES, max_size=2).map(lambda found: tuple(sorted(found)))
    phases = tuple(AppliedPhase(number, draw(files), draw(folders)) for number in numbers)
    paths = sorted({file.path for phase in phases for file in phase.files})
    own = draw(st.sets(st.sampled_from(paths), max_size=2)) if paths else set()
    declared = tuple(Declared(path, sha256(b"base"), draw(DIGESTS), draw(UNDO)) for path in sorted(own))
    return Record(draw(HEADERS), phases, declared)


@settings(max_examples=50)
@given(records())
def test_what_is_written_is_read_back(record: Record) -> None:
    source = Path("record.json")

    assert decode_record(encode_record(record), source) == record
    assert encode_record(decode_record(encode_record(record), source)) == encode_record(record)


@settings(max_examples=60)
@given(records(), st.data())
def test_no_damage_is_a_traceback(record: Record, data: st.DataObject) -> None:
    content = bytearray(encode_record(record))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    with suppress(Conflict):  # some damage spells another record, and any other exception fails the test
        decode_record(bytes(content), Path("record.json"))


def test_a_record_is_frozen(tree: Path) -> None:
    record = loaded(tree)

    with pytest.raises(AttributeError):
        record.header = replace(HEADER, gating="cfg")  # type: ignore[misc]
