"""TOML files read with errors that say file, line and column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from codegen.errors import Location, NotACandleTree, Problem

if TYPE_CHECKING:
    from codegen.errors import CandleRocmError

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

LARGEST = 512 << 10
"""Characters; Candle's largest manifest has 4,000. tomllib and tomlkit take seconds for a megabyte."""
MOST_PARTS = 32
"""Of a dotted key, all of whose beginnings are kept: 20,000 parts take two gigabytes."""
_QUOTED = re.compile(r"""\"\"\"(?:\\.|[^\\])*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+'|\#[^\n]*+""", re.DOTALL)
"""Strings and comments."""
_LONG_KEY = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MOST_PARTS},}}")

BROKEN_MANIFEST = "correct the file, or restore it from its release"


def decode(content: bytes, file: str, *, error: type[CandleRocmError] = NotACandleTree) -> str:
    """The text of a file, line endings untouched.

    Raises:
        CandleRocmError: an `error` that gives the line, when the bytes are not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise error(Problem("the file is not UTF-8", Location(file, line)), remedy=BROKEN_MANIFEST) from cause


def load(text: str, file: str, *, error: type[CandleRocmError] = NotACandleTree) -> dict[str, Any]:
    """The content of a TOML text; `file` is the name that messages give.

    Raises:
        CandleRocmError: an `error` that shows the broken line, or says why the text would take too long.
    """
    import tomllib

    if len(text) > LARGEST:
        raise error(Problem(f"the file has more than {LARGEST >> 10} KiB", Location(file, 1)), remedy=BROKEN_MANIFEST)
    plain = _QUOTED.sub(_unquoted, text)
    if (long := _LONG_KEY.search(plain)) is not None:
        line = plain.count("\n", 0, long.start()) + 1
        raise error(Problem(f"a key has more than {MOST_PARTS} parts", Location(file, line)), remedy=BROKEN_MANIFEST)
    try:
        return tomllib.loads(text)
    except RecursionError as cause:
        raise error(
            Problem("tables or arrays are nested too deeply", Location(file, 1)), remedy=BROKEN_MANIFEST
        ) from cause
    except ValueError as cause:  # TOMLDecodeError, or Python's own about a number of 5,000 digits
        message = str(cause)
        position = _POSITION.search(message)
        ended = text.rstrip()
        line, column = ended.count("\n") + 1, len(ended) - (ended.rfind("\n") + 1) + 1
        if position is not None:
            message = message[: position.start()]
            if position[1]:
                line, column = int(position[1]), int(position[2])
        raise error(
            Problem(f"broken TOML: {message}", Location.in_text(file, text, line, column)), remedy=BROKEN_MANIFEST
        ) from cause


def _unquoted(quoted: re.Match[str]) -> str:
    """A quoted key is a part like any other, a comment is none; lines stay where they are."""
    return ("" if quoted[0].startswith("#") else "q") + "\n" * quoted[0].count("\n")


def line_of_key(text: str, key: str) -> int:
    """The first line that starts with `key` (bare or quoted) and an equals sign, or 1."""
    pattern = re.compile(rf"""^\s*["']?{re.escape(key)}["']?\s*=""", re.MULTILINE)
    match = pattern.search(text)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1
