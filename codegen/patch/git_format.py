"""Patches: the text that `git apply`, `git am` and a reader take, made from file changes.

Format: the output of `git format-patch` (git-diff(1), "Generating patch text with -p"; git-format-patch(1)), with fixed
author, date and commit id, so that the same plan always gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING

from codegen.patch.hunks import hunks
from codegen.patch.replacements import replacements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codegen.patch.changes import FileChange

__all__ = ["AUTHOR", "DATE", "phase_patch", "replacements", "unified_diff"]

AUTHOR = "candle-rocm <candle-rocm@localhost>"
DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
_WIDTH = 72
_NULL_ID = "0" * 40
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
# What makes `git mailinfo` believe that the message has ended, or that its headers go on.
_MAIL_SYNTAX = re.compile(r"---|diff -|Index: |>?From |(?:From|Date|Subject|MIME-Version|Content-[\w-]+):|\[PATCH")
_HEADER = re.compile(r"diff |index |new file |--- |\+\+\+ |GIT binary")
_COLORS = {"h": "\x1b[1m", "@": "\x1b[36m", "+": "\x1b[32m", "-": "\x1b[31m"}
_RESET = "\x1b[m"


def phase_patch(changes: Sequence[FileChange], *, phase: int, name: str, summary: str, release: str) -> str:
    """One phase as a mail that both `git am` and `git apply` take; the empty string when no file changes.

    To be written as UTF-8 without translation of line ends. Files that are not UTF-8, and those with CRLF (which
    `git am` strips from mails), are given as git's binary patches: exact, if not readable.
    """
    changed = _changed(changes)
    if not changed:
        return ""
    body = [marked for change in changed for marked in _marked_lines(_file_patch(change, mail=True))]
    marks = Counter(mark for mark, _ in body)
    count = f"{len(changed)} file{'s' * (len(changed) != 1)} changed"
    return "".join(
        [
            f"From {_NULL_ID} Mon Sep 17 00:00:00 2001\n",
            f"From: {AUTHOR}\n",
            f"Date: {DATE}\n",
            f"Subject: [PATCH] {_one_line(f'ROCm for Candle {release}, phase {phase}: {name}')}\n",
            "MIME-Version: 1.0\n",
            "Content-Type: text/plain; charset=UTF-8\n",
            "Content-Transfer-Encoding: 8bit\n\n",
            *(f"{line}\n" for line in _message(summary, changes)),
            "---\n",
            f" {count}, {marks['+']} insertions(+), {marks['-']} deletions(-)\n\n",
            *(line for _, line in body),
            "-- \ncandle-rocm\n\n",
        ]
    )


def unified_diff(changes: Iterable[FileChange], *, color: bool, show: Callable[[str], str] = str) -> Iterator[str]:
    """The changes as a diff in git's format, line by line (each with its line end), coloured as git does.

    `show` makes of a line what a person is to see; `git apply` takes the diff as it is.
    """
    for change in _changed(changes):
        for mark, line in _marked_lines(_file_patch(change, mail=False)):
            seen = show(line)
            yield f"{_COLORS[mark]}{seen[:-1]}{_RESET}\n" if color and mark in _COLORS else seen


def _changed(changes: Iterable[FileChange]) -> list[FileChange]:
    return sorted((change for change in changes if change.before != change.after), key=lambda change: change.path)


# The mail around the diffs


def _message(summary: str, changes: Iterable[FileChange]) -> Iterator[str]:
    import textwrap

    for paragraph in re.split(r"\n\s*\n", summary.strip()):
        for line in textwrap.wrap(_printable(paragraph), _WIDTH, break_long_words=False, break_on_hyphens=False):
            yield f" {line}" if _MAIL_SYNTAX.match(line) else line
        yield ""
    rules = Counter(region.origin.rule for change in changes for region in change.regions)
    if rules:
        yield "Places written, by rule:"
        yield ""
        width = len(str(max(rules.values())))
        for rule, count in sorted(rules.items()):
            yield f"  {count:{width}}  {_one_line(rule)}"
        yield ""


def _one_line(text: str) -> str:
    return " ".join(_printable(text).split())


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


# One file


def _file_patch(change: FileChange, *, mail: bool) -> Iterator[str]:
    old_name, new_name = _quoted("a/", change.path), _quoted("b/", change.path)
    yield f"diff --git {old_name} {new_name}\n"
    if change.before is None:
        yield "new file mode 100644\n"
    old_id = _NULL_ID if change.before is None else _blob_id(change.before)
    yield f"index {old_id}..{_blob_id(change.after)}\n"
    before, after = _text(change.before or b"", mail=mail), _text(change.after, mail=mail)
    if before is None or after is None:
        yield "GIT binary patch\n"
        yield from _literal(change.after)
        yield from _literal(change.before or b"")
        return
    if not before and not after:
        return
    yield f"--- {'/dev/null' if change.before is None else _with_tab(old_name)}\n"
    yield f"+++ {_with_tab(new_name)}\n"
    starts = {region.first - 1 for region in change.regions}
    yield from hunks(before, after, starts)


def _marked_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line of a diff with what it is: `+`, `-`, `@`, `h` for a header, a blank for the rest."""
    in_hunks = False
    for line in lines:
        in_hunks = line.startswith("@@") or (in_hunks and not line.startswith("diff "))
        if in_hunks:
            yield (line[0] if line[0] in "+-@" else " "), line
        else:
            yield ("h" if _HEADER.match(line) else " "), line


def _text(content: bytes, *, mail: bool) -> str | None:
    """None where the content must not stand in a diff as it is."""
    if b"\0" in content or (mail and b"\r\n" in content):
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _quoted(side: str, path: str) -> str:
    """A path as git writes it with core.quotePath: in C syntax where it holds anything unusual."""
    name = os.fsencode(side + path)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in name):
        return name.decode()
    return '"' + "".join(_ESCAPES.get(c) or (chr(c) if 0x20 <= c < 0x7F else f"\\{c:03o}") for c in name) + '"'


def _with_tab(name: str) -> str:
    """Git ends an unquoted name with blanks by a tab, or readers take what follows the blank for a date."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _literal(content: bytes) -> Iterator[str]:
    """A whole content in a binary patch: deflated, base85, 52 bytes a line, the first letter giving their number."""
    yield f"literal {len(content)}\n"
    packed = zlib.compress(content, 9)
    for at in range(0, len(packed), 52):
        piece = packed[at : at + 52]
        size = chr(ord("A") + len(piece) - 1) if len(piece) <= 26 else chr(ord("a") + len(piece) - 27)
        yield f"{size}{base64.b85encode(piece, pad=True).decode()}\n"
    yield "\n"
