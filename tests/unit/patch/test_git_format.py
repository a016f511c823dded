"""git takes our patches, and they give exactly the bytes that were planned."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.patch.changes import FileChange, Origin, Region
from codegen.patch.git_format import phase_patch, unified_diff

requires_git = pytest.mark.skipif(shutil.which("git") is None, reason="patches were not tested: git is not installed")

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.org",
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.org",
    "LC_ALL": "C",
    # A repository that lives for one test needs neither example hooks nor to reach the medium.
    "GIT_TEMPLATE_DIR": "",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsync",
    "GIT_CONFIG_VALUE_0": "none",
    "GIT_CONFIG_KEY_1": "gc.auto",
    "GIT_CONFIG_VALUE_1": "0",
}


def git(folder: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        input=stdin.encode(),
        env=ENVIRONMENT | {"GIT_CEILING_DIRECTORIES": str(folder.parent)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"git {arguments}: {done.stderr.decode()}\n{stdin}"
    return done.stdout.decode()


def planted(folder: Path, changes: list[FileChange]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "README").write_bytes(b"a commit needs a file\n")
    for change in changes:
        if change.before is not None:
            (folder / change.path).parent.mkdir(parents=True, exist_ok=True)
            (folder / change.path).write_bytes(change.before)
    return folder


def repository(folder: Path, changes: list[FileChange]) -> Path:
    planted(folder, changes)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=pristine")
    return folder


def require_state(folder: Path, changes: list[FileChange], *, after: bool) -> None:
    for change in changes:
        wanted = change.after if after else change.before
        found = (folder / change.path).read_bytes() if (folder / change.path).exists() else None
        assert found == wanted, change.path


def region(first: int, last: int, rule: str = "core.dispatch") -> Region:
    return Region(first, last, Origin(rule, "specs/phases/1-core.yaml:7", 1))


def mail(changes: list[FileChange], summary: str = "Variants and branches.") -> str:
    return phase_patch(changes, phase=1, name="core", summary=summary, release="0.11.1")


def diff(change: FileChange) -> str:
    """The hunks of the diff, without its header."""
    text = "".join(unified_diff([change], color=False))
    return text[text.index("@@") :]


NUMBERS = b"".join(b"line %d\n" % number for number in range(1, 41))
NOT_UTF_8 = bytes(range(1, 256))

CASES = [
    pytest.param(FileChange("a.rs", NUMBERS, NUMBERS.replace(b"line 20\n", b"line 20\nnew\n")), id="insertion"),
    pytest.param(FileChange("a.rs", NUMBERS, b"first\n" + NUMBERS + b"last\n"), id="both-ends"),
    pytest.param(FileChange("a.rs", NUMBERS, NUMBERS.replace(b"line 3\n", b"").replace(b"9\n", b"9!\n")), id="mixed"),
    pytest.param(FileChange("a.rs", NUMBERS, NUMBERS[::-1]), id="nothing-in-common"),
    pytest.param(FileChange("x/y/new.rs", None, b"//! New.\npub struct A;\n"), id="new"),
    pytest.param(FileChange("x/y/new.rs", None, b""), id="new-and-empty"),
    pytest.param(FileChange("new.rs", None, b"no newline"), id="new-without-newline"),
    pytest.param(FileChange("a.rs", b"", b"x\n"), id="from-empty"),
    pytest.param(FileChange("a.rs", b"x\ny\n", b""), id="to-empty"),
    pytest.param(FileChange("a.rs", b"x\ny", b"x\ny\n"), id="newline-gained"),
    pytest.param(FileChange("a.rs", b"x\ny\n", b"x\ny"), id="newline-lost"),
    pytest.param(FileChange("a.rs", b"x\ny", b"w\nx\ny"), id="newline-missing-in-context"),
    pytest.param(FileChange("a.rs", b"x\ny", b"x\nz"), id="newline-missing-on-both-sides"),
    pytest.param(FileChange("a.rs", b"x", b"x\ny"), id="newline-missing-one-line"),
    pytest.param(FileChange("a.rs", b"\n\n\n", b"\n\n\n\n"), id="blank-lines"),
    pytest.param(FileChange("a.rs", b"a\r\nb\r\nc\r\n", b"a\r\nb\r\nB\r\nc\r\n"), id="crlf"),
    pytest.param(FileChange("a.rs", b"a\r\nb\nc\n", b"a\nb\r\nc\n"), id="mixed-line-ends"),
    pytest.param(FileChange("a.rs", b"a\rb\n\x0bc\x0c\n\x1c\n", b"a\rB\n\x0bc\x0c\n\x1c\n"), id="odd-line-breaks"),
    pytest.param(FileChange("a.rs", "é\u2028ü\n".encode(), "é\u2028ö\x85\n".encode()), id="unicode"),
    pytest.param(FileChange("a.rs", b"\xef\xbb\xbfmod a;\n", b"\xef\xbb\xbfmod b;\n"), id="byte-order-mark"),
    pytest.param(FileChange("a.rs", b"caf\xe9\n", b"caf\xe9\nth\xe9\n"), id="latin-1"),
    pytest.param(FileChange("a.bin", NOT_UTF_8, NOT_UTF_8 * 30), id="binary"),
    pytest.param(FileChange("a.bin", b"text\n", b"text\n\0"), id="text-to-binary"),
    pytest.param(FileChange("new.bin", None, b"\0\xff" * 50), id="new-binary"),
    pytest.param(FileChange("a b/c  d.rs", b"x\n", b"y\n"), id="spaces-in-path"),
    pytest.param(FileChange("a b/n w.rs", None, b"y\n"), id="spaces-in-new-path"),
    pytest.param(FileChange("é/日本.rs", b"x\n", b"y\n"), id="unicode-path"),
    pytest.param(FileChange('q"u\\o\tt\ne.rs', b"x\n", b"y\n"), id="quoted-path"),
    pytest.param(FileChange("é/new 日本.rs", None, b"y\n"), id="new-unicode-path"),
    pytest.param(
        FileChange("a.sql", b"-- a\n-- b\n++ c\n", b"-- a\n++ c\n++ d\n-- \nFrom x\n"), id="lines-like-diff-headers"
    ),
    pytest.param(
        FileChange("a.md", b"x\n", b"x\nFrom a@b Mon Sep 17 00:00:00 2001\nSubject: y\n---\ndiff --git a/x b/x\n"),
        id="lines-like-mail",
    ),
    pytest.param(FileChange("a.rs", b"a  \n\tb \n", b"a \n\tb  \n \n"), id="trailing-blanks"),
]


@requires_git
@pytest.mark.parametrize("change", CASES)
def test_git_am_takes_the_patch(tmp_path: Path, change: FileChange) -> None:
    folder = repository(tmp_path / "tree", [change])

    git(folder, "am", "--quiet", stdin=mail([change]))

    require_state(folder, [change], after=True)
    assert git(folder, "status", "--porcelain") == ""


@requires_git
@pytest.mark.parametrize("change", CASES)
def test_git_apply_takes_the_patch_forwards_and_backwards(tmp_path: Path, change: FileChange) -> None:
    folder = planted(tmp_path / "tree", [change])
    patch = mail([change])

    git(folder, "apply", stdin=patch)
    require_state(folder, [change], after=True)

    git(folder, "apply", "--reverse", stdin=patch)
    require_state(folder, [change], after=False)


@requires_git
@pytest.mark.parametrize("change", CASES)
def test_git_apply_takes_the_diff(tmp_path: Path, change: FileChange) -> None:
    folder = planted(tmp_path / "tree", [change])

    git(folder, "apply", stdin="".join(unified_diff([change], color=False)))

    require_state(folder, [change], after=True)


@requires_git
def test_all_cases_in_one_patch(tmp_path: Path) -> None:
    changes = [
        FileChange(f"{index}/{change.path}", change.before, change.after)
        for index, case in enumerate(CASES)
        for change in [case.values[0]]
        if isinstance(change, FileChange)
    ]
    assert len(changes) == len(CASES)
    folder = repository(tmp_path / "tree", changes)

    git(folder, "am", "--quiet", stdin=mail(changes))

    require_state(folder, changes, after=True)


@requires_git
def test_phases_are_taken_one_after_another(tmp_path: Path) -> None:
    first = [FileChange("a.rs", NUMBERS, NUMBERS + b"0\n"), FileChange("b.rs", None, b"x\n")]
    second = [FileChange("a.rs", first[0].after, b"1\n" + first[0].after), FileChange("b.rs", b"x\n", b"y\n")]
    folder = repository(tmp_path / "tree", first)
    patches = []
    for number, changes in enumerate((first, second)):
        patch = tmp_path / f"{number}.patch"
        patch.write_text(phase_patch(changes, phase=number, name="n", summary="s", release="0.11.1"), newline="")
        patches.append(str(patch))

    git(folder, "am", "--quiet", *patches)

    require_state(folder, second, after=True)
    assert git(folder, "log", "--format=%s", "-2").splitlines() == [
        "ROCm for Candle 0.11.1, phase 1: n",
        "ROCm for Candle 0.11.1, phase 0: n",
    ]


@requires_git
def test_git_am_can_merge_into_a_changed_tree(tmp_path: Path) -> None:
    # `git am --3way` finds what the patch was made from by the blob ids in its `index` lines.
    change = FileChange("a.rs", NUMBERS, NUMBERS.replace(b"line 20\n", b"line 20\nours\n"))
    folder = repository(tmp_path / "tree", [change])
    moved = NUMBERS.replace(b"line 22\n", b"line 22\ntheirs\n")
    (folder / "a.rs").write_bytes(moved)
    git(folder, "commit", "--quiet", "--all", "--message=theirs")

    git(folder, "am", "--quiet", "--3way", stdin=mail([change]))

    assert (folder / "a.rs").read_bytes() == moved.replace(b"line 20\n", b"line 20\nours\n")


# The mail


@requires_git
def test_the_commit_is_neutral_and_fixed(tmp_path: Path) -> None:
    change = FileChange("a.rs", b"x\n", b"y\n", (region(1, 1),))
    folder = repository(tmp_path / "tree", [change])

    git(folder, "am", "--quiet", stdin=mail([change]))

    assert git(folder, "log", "-1", "--format=%an|%ae|%at|%s|%b") == (
        "candle-rocm|candle-rocm@localhost|0|ROCm for Candle 0.11.1, phase 1: core|"
        "Variants and branches.\n\nPlaces written, by rule:\n\n  1  core.dispatch\n\n"
    )


def test_the_whole_text() -> None:
    changes = [
        FileChange("src/lib.rs", b"mod a;\nmod c;\n", b"mod a;\nmod b;\nmod c;\n", (region(2, 2, "core.mod"),)),
        FileChange("src/b.rs", None, b"pub fn b() {}\n", (region(1, 1, "core.files"),)),
    ]

    assert mail(changes) == (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "From: candle-rocm <candle-rocm@localhost>\n"
        "Date: Thu, 1 Jan 1970 00:00:00 +0000\n"
        "Subject: [PATCH] ROCm for Candle 0.11.1, phase 1: core\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=UTF-8\n"
        "Content-Transfer-Encoding: 8bit\n"
        "\n"
        "Variants and branches.\n"
        "\n"
        "Places written, by rule:\n"
        "\n"
        "  1  core.files\n"
        "  1  core.mod\n"
        "\n"
        "---\n"
        " 2 files changed, 2 insertions(+), 0 deletions(-)\n"
        "\n"
        "diff --git a/src/b.rs b/src/b.rs\n"
        "new file mode 100644\n"
        "index 0000000000000000000000000000000000000000..40a8d942126c95841df94f4abc5ace6b265c214c\n"
        "--- /dev/null\n"
        "+++ b/src/b.rs\n"
        "@@ -0,0 +1 @@\n"
        "+pub fn b() {}\n"
        "diff --git a/src/lib.rs b/src/lib.rs\n"
        "index 41d08d39a641c10eaf553f262dc5046a90720731..696832913c87931a0548feedac66a7ef85466280\n"
        "--- a/src/lib.rs\n"
        "+++ b/src/lib.rs\n"
        "@@ -1,2 +1,3 @@\n"
        " mod a;\n"
        "+mod b;\n"
        " mod c;\n"
        "-- \n"
        "candle-rocm\n"
        "\n"
    )


@requires_git
def test_blob_ids_are_those_of_git(tmp_path: Path) -> None:
    (tmp_path / "a.rs").write_bytes(NUMBERS)
    wanted = git(tmp_path, "hash-object", "a.rs").strip()

    assert f"..{wanted}\n" in mail([FileChange("a.rs", None, NUMBERS)])


def test_the_order_of_changes_does_not_matter() -> None:
    changes = [FileChange("b", b"1\n", b"2\n"), FileChange("a", None, b"3\n"), FileChange("c", b"", b"4\n")]

    assert mail(changes) == mail(changes[::-1]) == mail(changes)


def test_rules_are_counted() -> None:
    regions = tuple(region(number, number, "core.dispatch") for number in range(1, 13))
    changes = [
        FileChange("a", NUMBERS, NUMBERS + b"x\n", regions),
        FileChange("b", None, b"x\n", (region(1, 1, "core.files"), region(1, 1, "core.dispatch"))),
    ]

    assert "Places written, by rule:\n\n  13  core.dispatch\n   1  core.files\n\n---\n" in mail(changes)


def test_insertions_and_deletions_are_counted() -> None:
    changes = [
        FileChange("a.sql", b"-- x\n++ y\n", b"++ y\n"),
        FileChange("b.sql", None, b"++ z\n"),
        FileChange("c.bin", b"\0", b"\0\0"),
    ]

    assert "\n 3 files changed, 1 insertions(+), 1 deletions(-)\n" in mail(changes)


def test_nothing_changes_nothing_to_send() -> None:
    assert mail([]) == ""
    assert mail([FileChange("a", b"x", b"x")]) == ""
    assert list(unified_diff([FileChange("a", b"x", b"x")], color=True)) == []


@requires_git
@pytest.mark.parametrize(
    "summary",
    [
        "From: mallory <m@example.org>\nSubject: something else",
        "Subject: something else",
        "[PATCH] something else",
        "From 1234 Mon Sep 17 00:00:00 2001",
        ">From 1234",
        "--- a/x\n+++ b/x",
        "---",
        "before\n\n---\n\nafter",
        "diff --git a/x b/x",
        "Index: x",
        "Content-Type: text/html; charset=UTF-16",
        "Gehört dazu: größer, 日本語",
        "",
        "bell \a and escape \x1b[1m",
        "word " * 60,
    ],
)
def test_no_summary_breaks_the_mail(tmp_path: Path, summary: str) -> None:
    change = FileChange("a.rs", b"x\n", b"y\n", (region(1, 1),))
    folder = repository(tmp_path / "tree", [change])

    git(folder, "am", "--quiet", stdin=mail([change], summary))

    require_state(folder, [change], after=True)
    shown = git(folder, "log", "-1", "--format=%an %at %s%n%b")
    assert shown.startswith("candle-rocm 0 ROCm for Candle 0.11.1, phase 1: core\n")
    assert "Places written, by rule:" in shown
    readable = re.sub(r"[\a\x1b]", "\N{REPLACEMENT CHARACTER}", summary)
    assert readable.split() == shown.partition("\n")[2].partition("Places written")[0].split()
    assert max(map(len, shown.splitlines())) <= 73


@requires_git
def test_a_name_cannot_add_headers(tmp_path: Path) -> None:
    change = FileChange("a.rs", b"x\n", b"y\n")
    folder = repository(tmp_path / "tree", [change])
    patch = phase_patch([change], phase=1, name="Kern\nFrom: größer", summary="s", release="0.11.1")

    git(folder, "am", "--quiet", stdin=patch)

    assert git(folder, "log", "-1", "--format=%an %s") == (
        "candle-rocm ROCm for Candle 0.11.1, phase 1: Kern From: größer\n"
    )


# The diff of one file


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("a/b-c_d.rs", "b/a/b-c_d.rs"),
        ("a b.rs", "b/a b.rs"),
        ('"a".rs', '"b/\\"a\\".rs"'),
        ("a\\b.rs", '"b/a\\\\b.rs"'),
        ("a\tb\nc\rd.rs", '"b/a\\tb\\nc\\rd.rs"'),
        ("\a\b\v\f.rs", '"b/\\a\\b\\v\\f.rs"'),
        ("\x01\x7f.rs", '"b/\\001\\177.rs"'),
        ("é.rs", '"b/\\303\\251.rs"'),
        ("日.rs", '"b/\\346\\227\\245.rs"'),
        (os.fsdecode(b"caf\xe9.rs"), '"b/caf\\351.rs"'),
    ],
)
def test_paths_are_quoted_as_git_does(path: str, quoted: str) -> None:
    header = "".join(unified_diff([FileChange(path, None, b"")], color=False)).splitlines()[0]

    assert header == f"diff --git {quoted.replace('b/', 'a/', 1)} {quoted}"


@requires_git
@pytest.mark.parametrize("path", ["a b.rs", 'q"\\.rs', "tab\t.rs", "é.rs", "\x01.rs", "plain.rs"])
def test_headers_are_those_that_git_writes(tmp_path: Path, path: str) -> None:
    change = FileChange(path, b"x\n", b"y\n")
    folder = repository(tmp_path / "tree", [change])
    (folder / path).write_bytes(change.after)

    written = git(folder, "diff", "--full-index")

    ours = "".join(unified_diff([change], color=False))
    assert ours == re.sub(r"(?m)^(index \S+) 100644$", r"\1", written)


NO_NEWLINE = "\\ No newline at end of file\n"


@pytest.mark.parametrize(
    ("before", "after", "hunk"),
    [
        (b"a", b"b", f"@@ -1 +1 @@\n-a\n{NO_NEWLINE}+b\n{NO_NEWLINE}"),
        (b"a", b"a\n", f"@@ -1 +1 @@\n-a\n{NO_NEWLINE}+a\n"),
        (b"a\n", b"a", f"@@ -1 +1 @@\n-a\n+a\n{NO_NEWLINE}"),
        (b"a\nb", b"c\na\nb", f"@@ -1,2 +1,3 @@\n+c\n a\n b\n{NO_NEWLINE}"),
        (b"", b"a\n", "@@ -0,0 +1 @@\n+a\n"),
        (b"a\nb\n", b"", "@@ -1,2 +0,0 @@\n-a\n-b\n"),
        (b"a\r\n", b"b\r\n", "@@ -1 +1 @@\n-a\r\n+b\r\n"),
        (b"\n", b"\n\n", "@@ -1 +1,2 @@\n \n+\n"),
    ],
)
def test_small_hunks(before: bytes, after: bytes, hunk: str) -> None:
    assert diff(FileChange("a.rs", before, after)) == hunk


@pytest.mark.parametrize("path", ["empty.rs", "a b.rs"])
def test_a_new_empty_file_has_no_hunk(path: str) -> None:
    text = "".join(unified_diff([FileChange(path, None, b"")], color=False))

    assert text == (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n"
        "index 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"
    )


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0", b"caf\xe9\n"])
def test_what_is_no_text_is_a_binary_patch(content: bytes) -> None:
    text = "".join(unified_diff([FileChange("a.bin", b"text\n", content)], color=False))

    assert f"\nGIT binary patch\nliteral {len(content)}\n" in text
    assert "\nliteral 5\n" in text
    assert "@@" not in text
    assert text.isascii()


def test_crlf_is_text_to_a_reader_and_binary_in_a_mail() -> None:
    change = FileChange("a.rs", b"a\r\nb\r\n", b"a\r\nc\r\n")

    assert "GIT binary patch" not in "".join(unified_diff([change], color=False))
    assert "GIT binary patch" in mail([change])
    assert "\r" not in mail([change])


# How the diff reads


def test_an_arm_added_after_its_sibling_is_shown_alone() -> None:
    before = (
        b"match device {\n    Cuda(d) => {\n        d.run();\n    }\n    Metal(d) => {\n        d.run();\n    }\n}\n"
    )
    after = before.replace(b"    Metal", b"    Rocm(d) => {\n        d.run();\n    }\n    Metal")

    assert diff(FileChange("a.rs", before, after)) == (
        "@@ -2,6 +2,9 @@ match device {\n"
        "     Cuda(d) => {\n"
        "         d.run();\n"
        "     }\n"
        "+    Rocm(d) => {\n"
        "+        d.run();\n"
        "+    }\n"
        "     Metal(d) => {\n"
        "         d.run();\n"
        "     }\n"
    )


FUNCTIONS = b"#[cfg(a)]\nfn a() {\n}\n\n#[cfg(a)]\nfn c() {\n}\n"
FUNCTION_B = b"#[cfg(a)]\nfn b() {\n}\n\n"


@pytest.mark.parametrize("first", [5, 4, 3, 2, None])
def test_an_insertion_stands_where_its_region_does(first: int | None) -> None:
    at = FUNCTIONS.index(b"#[cfg(a)]\nfn c")
    after = FUNCTIONS[:at] + FUNCTION_B + FUNCTIONS[at:]
    regions = () if first is None else (region(first, first + 3),)

    added = [line for line in diff(FileChange("a.rs", FUNCTIONS, after, regions)).splitlines() if line[0] == "+"]

    rotations = {
        5: ["+#[cfg(a)]", "+fn b() {", "+}", "+"],
        4: ["+", "+#[cfg(a)]", "+fn b() {", "+}"],
        3: ["+}", "+", "+#[cfg(a)]", "+fn b() {"],
        # Not a place that gives the same text, and no wish at all: as the matching left it.
        2: ["+fn b() {", "+}", "+", "+#[cfg(a)]"],
        None: ["+fn b() {", "+}", "+", "+#[cfg(a)]"],
    }
    assert added == rotations[first]


def test_an_insertion_may_move_to_either_end_of_the_file() -> None:
    at_start = FileChange("a", b"x\nx\n", b"x\nx\nx\n", (region(1, 1),))
    at_end = FileChange("a", b"x\nx\n", b"x\nx\nx\n", (region(3, 3),))

    assert diff(at_start) == "@@ -1,2 +1,3 @@\n+x\n x\n x\n"
    assert diff(at_end) == "@@ -1,2 +1,3 @@\n x\n x\n+x\n"


def test_hunks_whose_contexts_touch_are_one() -> None:
    lines = [f"{number}\n" for number in range(1, 30)]

    def hunks(distance: int) -> int:
        changed = list(lines)
        changed[5], changed[5 + distance] = "x\n", "y\n"
        return diff(FileChange("a", "".join(lines).encode(), "".join(changed).encode())).count("@@ -")

    assert [hunks(distance) for distance in (1, 6, 7, 8, 9)] == [1, 1, 1, 2, 2]


def test_a_hunk_names_the_item_above_it() -> None:
    body = "".join(f"    step{number}();\n" for number in range(12))
    before = f"fn first() {{\n{body}}}\n\nfn second() {{\n{body}}}\n"
    after = before.replace("    step6();\n", "    step6();\n    extra();\n")

    assert re.findall(r"@@ .* @@.*", diff(FileChange("a.rs", before.encode(), after.encode()))) == [
        "@@ -6,6 +6,7 @@ fn first() {",
        "@@ -21,6 +22,7 @@ fn second() {",
    ]


def test_a_second_hunk_in_an_item_names_it_too() -> None:
    before = "fn only() {\n" + "".join(f"    step{number}();\n" for number in range(40)) + "}\n"
    after = before.replace("    step6();\n", "    six();\n").replace("    step30();\n", "    thirty();\n")

    assert re.findall(r"@@ .* @@.*", diff(FileChange("a.rs", before.encode(), after.encode()))) == [
        "@@ -5,7 +5,7 @@ fn only() {",
        "@@ -29,7 +29,7 @@ fn only() {",
    ]


def test_a_hunk_at_the_top_names_nothing() -> None:
    assert diff(FileChange("a.rs", b"mod a;\n", b"mod a;\nmod b;\n")).startswith("@@ -1 +1,2 @@\n mod a;\n")


def test_two_insertions_of_one_place_stay_apart_and_right() -> None:
    before = "".join(f"{letter}\n}}\n" for letter in "abcdef").encode()
    after = before.replace(b"b\n}\n", b"b\n}\nB\n}\n").replace(b"c\n}\n", b"c\n}\nC\n}\n")
    # The insertions begin with lines 5 and 9; the matching takes the brace before `d` for an old one.
    change = FileChange("a.rs", before, after, (region(5, 6), region(9, 10)))

    without = FileChange("a.rs", before, after)

    assert diff(change) == diff(without) == ("@@ -2,8 +2,12 @@ a\n }\n b\n }\n+B\n+}\n c\n }\n+C\n+}\n d\n }\n e\n")


def test_colors_are_those_of_git_and_nothing_else_differs() -> None:
    changes = [FileChange("a b.sql", b"1\n-- x\n2", b"1\n++ y\n2\n"), FileChange("c", None, b"")]
    plain = "".join(unified_diff(changes, color=False))

    colored = "".join(unified_diff(changes, color=True))

    assert re.sub(r"\x1b\[\d*m", "", colored) == plain
    assert "\x1b" not in plain
    lines = colored.splitlines()
    assert "\x1b[1m--- a/a b.sql\t\x1b[m" in lines
    assert "\x1b[31m--- x\x1b[m" in lines
    assert "\x1b[32m+++ y\x1b[m" in lines
    assert "\x1b[36m@@ -1,3 +1,3 @@\x1b[m" in lines
    assert "\\ No newline at end of file" in lines
    assert " 1" in lines


def test_the_diff_comes_line_by_line() -> None:
    lines = list(unified_diff([FileChange("a", NUMBERS, NUMBERS + b"x")], color=True))

    assert all(line.count("\n") == 1 and line.endswith("\n") for line in lines)


# Laws

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "}", "  x", "fn f() {"]), max_size=25)
ENDS = st.sampled_from(["", "\n"])


@st.composite
def edited(draw: st.DrawFn) -> FileChange:
    """A file with few different lines, a few edits to it, and regions that may or may not be where the edits are."""
    lines = draw(LINES)
    changed = list(lines)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(changed)))
        end = draw(st.integers(start, min(len(changed), start + 4)))
        changed[start:end] = draw(st.lists(st.sampled_from(["a", "b", "new", "}", "", "é"]), max_size=5))
    regions = tuple(region(first, first) for first in draw(st.lists(st.integers(1, 30), max_size=4)))
    before = "\n".join(lines) + draw(ENDS)
    return FileChange("a.rs", before.encode(), ("\n".join(changed) + draw(ENDS)).encode(), regions)


@settings(max_examples=120, deadline=None)
@given(edited())
def test_hunks_say_what_they_do(change: FileChange) -> None:
    """A strict reader of unified diffs: every number, every context line and every removed line must fit."""
    assert change.before is not None
    if change.before == change.after:
        return
    old, new = change.before.decode().splitlines(keepends=True), change.after.decode().splitlines(keepends=True)
    lines = list(unified_diff([change], color=False))[4:]
    built: list[str] = []
    at = 0
    for number, line in enumerate(lines):
        text = line[1:]
        if number + 1 < len(lines) and lines[number + 1].startswith("\\"):
            text = text[:-1]
        if line.startswith("@@"):
            start, count = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+.*\n", line).groups()  # type: ignore[union-attr]
            upto = int(start) - (count != "0")
            built += old[at:upto]
            at = upto
        elif line.startswith("+"):
            built.append(text)
        elif line.startswith((" ", "-")):
            assert old[at] == text
            at += 1
            if line.startswith(" "):
                built.append(text)
    assert built + old[at:] == new


@requires_git
@settings(max_examples=25, deadline=None)
@given(st.lists(edited(), min_size=1, max_size=8))
def test_git_apply_gives_exactly_what_was_planned(edits: list[FileChange]) -> None:
    changes = [FileChange(f"{i}.rs", edit.before, edit.after, edit.regions) for i, edit in enumerate(edits)]
    patch = mail(changes)
    if not patch:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = planted(Path(folder) / "tree", changes)
        git(root, "apply", "--whitespace=nowarn", stdin=patch)
        require_state(root, changes, after=True)


@requires_git
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=80), st.binary(max_size=80)), min_size=1, max_size=8))
def test_git_apply_takes_any_bytes(contents: list[tuple[bytes, bytes]]) -> None:
    changes = [FileChange(f"{i}.bin", before, after) for i, (before, after) in enumerate(contents)]
    patch = mail(changes)
    if not patch:
        return
    with tempfile.TemporaryDirectory() as folder:
        root = planted(Path(folder) / "tree", changes)
        git(root, "apply", "--whitespace=nowarn", stdin=patch)
        require_state(root, changes, after=True)


@requires_git
@settings(max_examples=15, deadline=None)
@given(st.lists(edited(), min_size=3, max_size=6))
def test_phases_on_top_of_one_another_give_the_last_state(edits: list[FileChange]) -> None:
    """Every `after` is the next phase's `before`; the patches in order lead from the first to the last."""
    states = [edit.after for edit in edits]
    phases = [FileChange("a.rs", one, two) for one, two in pairwise(states)]
    with tempfile.TemporaryDirectory() as folder:
        root = planted(Path(folder) / "tree", phases[:1])
        patches = [patch for patch in (mail([phase]) for phase in phases) if patch]
        for patch in patches:
            git(root, "apply", "--whitespace=nowarn", stdin=patch)
        assert (root / "a.rs").read_bytes() == states[-1]
        for patch in reversed(patches):
            git(root, "apply", "--reverse", "--whitespace=nowarn", stdin=patch)
        assert (root / "a.rs").read_bytes() == states[0]


def large(seed: int) -> FileChange:
    """3000 lines, most of them not unique, with 25 edits as the generator makes them."""
    chance = random.Random(seed)
    lines = [chance.choice(["    }", "", "    ) -> Result<()> {", f"    let x{n} = {n};", "}"]) for n in range(3000)]
    changed = list(lines)
    for _ in range(20):
        at = chance.randrange(25, len(changed))
        changed[at:at] = [line.replace("x", "rocm") for line in changed[at - 20 : at]]
    for _ in range(5):
        changed[chance.randrange(len(changed))] += " // new"
    return FileChange(f"{seed}.rs", "\n".join(lines).encode(), "\n".join(changed).encode())


def test_large_files_are_fast_and_their_diffs_small() -> None:
    changes = [large(seed) for seed in range(30)]

    start = time.process_time()
    patch = mail(changes)

    # Of the processor, 0.1 s on a machine to itself. difflib alone would take most of a minute.
    assert time.process_time() - start < 10
    removed = sum(line.startswith("-") and not line.startswith("---") for line in patch.splitlines())
    added = sum(line.startswith("+") and not line.startswith("+++") for line in patch.splitlines())
    assert removed <= 30 * 5 * 2
    assert added <= 30 * (20 * 20 + 5 * 2)
