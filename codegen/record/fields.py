"""The record and the journal are JSON that somebody else may have written: each value is what we would write, or else.

Everything here raises `ValueError` with a text that names the value, shortened and in ASCII; `decode_json` and
`corrupt` turn that into a `Conflict` with its place. Nothing else in this package reads such a file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

from codegen.errors import Conflict, Location, Problem
from codegen.patch.undo import LARGEST_FILE, MOST_TEXT, Undo
from codegen.tree_path import FOLDER, is_tree_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LARGEST_DOCUMENT = 4 << 20
"""Bytes; the record of all phases of a release has 0.1 million."""
LARGEST_PHASE = 99
LONGEST_WORD = 255
_DIGEST = re.compile("[0-9a-f]{64}")
_SHOWN = 60


def decode_json(content: bytes, source: Path) -> dict[str, Any]:
    """The JSON object that `content` spells. Raises `Conflict`, located in `source`."""
    text = content.decode("utf-8", errors="replace")
    try:
        document = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        corrupt(Problem(error.msg, Location.in_text(str(source), text, error.lineno, error.colno)), source)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets nested as deep
        corrupt(Problem(str(error), start_of(source)), source)
    if not isinstance(document, dict):
        corrupt(Problem("not a JSON object", start_of(source)), source)
    return document


def corrupt(problem: Problem, source: Path) -> NoReturn:
    """Raises the `Conflict` of a file of the record that is not as candle-rocm wrote it."""
    raise Conflict(
        Problem(f"corrupt: {problem.message}", problem.location),
        remedy=f"restore {source.name} from git or a backup (git log {FOLDER}/record.json); without one, put pristine "
        f"Candle's files back by hand, then delete {FOLDER}",
    )


def start_of(source: Path) -> Location:
    """The place of an error that is nowhere in particular."""
    return Location(str(source), 1)


def take(document: object, key: str, kind: type) -> Any:
    """`document[key]`, which must be of `kind`."""
    if not isinstance(document, dict) or key not in document:
        raise ValueError(f"'{key}' is missing")
    value = document[key]
    if type(value) is not kind:
        raise ValueError(f"'{key}' is {shown(value)}, not of type {kind.__name__}")
    return value


def take_optional(document: object, key: str, kind: type) -> Any:
    """As `take`, and None where the value is null."""
    if isinstance(document, dict) and key in document and document[key] is None:
        return None
    return take(document, key, kind)


def only(document: object, *keys: str) -> None:
    """The document must be an object with no other keys than these."""
    if not isinstance(document, dict):
        raise ValueError(f"{shown(document)} is not an object")
    if unknown := sorted(document.keys() - set(keys)):
        raise ValueError(f"{shown(unknown[0])} is not a key that candle-rocm writes")


def one_of(document: object, key: str, words: Sequence[str]) -> str:
    """`document[key]`, which must be one of `words`."""
    value = take(document, key, str)
    if value not in words:
        raise ValueError(f"'{key}' is {shown(value)}, not one of {', '.join(words)}")
    return str(value)


def matching(document: object, key: str, pattern: re.Pattern[str], what: str) -> str:
    """`document[key]`, which must match the pattern, called `what`."""
    value = take(document, key, str)
    if len(value) > LONGEST_WORD or not value.isascii() or pattern.fullmatch(value) is None:
        raise ValueError(f"'{key}' is {shown(value)}, not {what}")
    return str(value)


def checked_digest(value: object) -> str:
    """A SHA-256 in hexadecimal."""
    if not isinstance(value, str) or _DIGEST.fullmatch(value) is None:
        raise ValueError(f"{shown(value)} is not a SHA-256 in hexadecimal")
    return value


def checked_phase(number: object) -> int:
    """The number of a phase."""
    if type(number) is not int or not 0 <= number <= LARGEST_PHASE:
        raise ValueError(f"{shown(number)} is not the number of a phase")
    return number


def checked_path(path: object) -> str:
    """`path` when it names something below a tree and outside of the folders of the record and of git."""
    if not isinstance(path, str):
        raise ValueError(f"{shown(path)} is not a path in the tree")
    if not is_tree_path(path):
        raise ValueError(f"'{shown(path)[1:-1]}' is not a path in the tree")
    return path


def distinct(values: Sequence[Any], what: str) -> None:
    """The values, which are called `what`, must be ascending, and none there twice."""
    if list(values) != sorted(set(values)):
        raise ValueError(f"{what} are not in ascending order")


def checked_undo(value: object) -> Undo | None:
    """Edits as the record spells them, null for none known. Raises `ValueError` for what `undo_edits` never makes."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise ValueError(f"'undo' is {shown(value)}, not a list")
    edits = tuple(_checked_edit(item) for item in value)
    end = size = 0
    for offset, length, text in edits:
        if offset < end:
            raise ValueError(f"the edits of 'undo' are not in ascending order: {offset} comes before {end}")
        end = offset + length
        size += len(text.encode())
    if end > LARGEST_FILE or size > MOST_TEXT:
        raise ValueError("the edits of 'undo' are larger than candle-rocm makes them")
    return edits


def _checked_edit(item: Any) -> tuple[int, int, str]:
    if not isinstance(item, list) or [type(each) for each in item] != [int, int, str]:
        raise ValueError(f"'undo' has {shown(item)}, not an offset, a length and a text")
    offset, length, text = item
    if offset < 0 or length < 0 or not (length or text):
        raise ValueError(f"'undo' has {shown(item)}, which is no edit")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"'undo' has {shown(item)}, which is no text") from error
    return offset, length, text


def shown(value: object) -> str:
    """A value as part of a message: as JSON in ASCII, shortened."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "[..."
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"{shown(key)} is there twice")
    return document


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")
