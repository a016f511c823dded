"""Edits of cargo's TOML files that leave every other byte alone.

Each function takes a file's text and returns the new one; nothing is written. An entry that is already there as wanted
leaves the text as it is, so every edit can be made twice. New entries take one line, in the file's own line endings,
after the sibling they belong to. `file` is the name that errors give.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codegen.candle import toml_text
from codegen.errors import Conflict, Location, NotACandleTree, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tomlkit import TOMLDocument
    from tomlkit.items import Item, Key

    from codegen.errors import CandleRocmError

    Body = list[tuple[Key | None, Item]]

_CONFIG_FILE = ".cargo/config.toml"


def add_feature(text: str, name: str, entries: Iterable[str], *, after: str = "cuda", file: str = "Cargo.toml") -> str:
    """The manifest with the feature `name`, placed after the feature `after` where there is one.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: the feature is there with other entries.
    """
    return _with_entry(text, ("features",), name, list(entries), after=after, file=file)


def add_workspace_dependency(
    text: str,
    name: str,
    version: str,
    *,
    default_features: bool = True,
    features: Sequence[str] = (),
    after: str | None = None,
    file: str = "Cargo.toml",
) -> str:
    """The root manifest with `name` in [workspace.dependencies], after the entry `after` or else in sorted place.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: the dependency is there with another version or other features.
    """
    entry: dict[str, Any] = {"version": version}
    if not default_features:
        entry["default-features"] = False
    if features:
        entry["features"] = list(features)
    value = version if len(entry) == 1 else entry
    return _with_entry(text, ("workspace", "dependencies"), name, value, after=after, file=file)


def add_optional_dependency(text: str, name: str, *, after: str | None = "cudarc", file: str = "Cargo.toml") -> str:
    """The manifest with `name = { workspace = true, optional = true }` in [dependencies].

    It stands after the entry `after` where there is one, else in sorted place.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: the dependency is there in another form.
    """
    entry = {"workspace": True, "optional": True}
    return _with_entry(text, ("dependencies",), name, entry, after=after, file=file)


def extend_feature(text: str, name: str, entries: Iterable[str], *, file: str = "Cargo.toml") -> str:
    """The manifest with the feature `name`, and these entries in it beside those that it has.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: the features are written in a form that is not edited here.
    """
    content = toml_text.load(text, file)
    known = content.get("features", {}).get(name)
    if known is None:
        return add_feature(text, name, entries, file=file)
    missing = [entry for entry in entries if entry not in known]
    if not missing:
        return text
    document = _document(text)
    features: Any = document["features"]
    for entry in missing:
        features[name].append(entry)
        content["features"][name].append(entry)
    changed = document.as_string()
    assert toml_text.load(changed, file) == content, "the entries are added, and nothing else"
    return changed


def add_patch(text: str, source: str, crate: str, path: str, *, file: str = "Cargo.toml") -> str:
    """The root manifest with `crate = { path = "PATH" }` in [patch.SOURCE]; `crates-io`, or the URL of a repository.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: the crate is patched in another way.
    """
    return _with_entry(text, ("patch", source), crate, {"path": path}, file=file)


def add_target(
    text: str,
    name: str,
    required_features: Iterable[str],
    *,
    kind: str = "example",
    after: str | None = None,
    file: str = "Cargo.toml",
) -> str:
    """The manifest with an [[example]] (or [[`kind`]]) that needs features.

    It stands after the target `after` of that kind, else after the last of that kind, else at the end.

    Raises:
        NotACandleTree: the manifest is not TOML.
        Conflict: a target of that name is there in another form.
    """
    content = toml_text.load(text, file)
    wanted = {"name": name, "required-features": list(required_features)}
    targets = content.setdefault(kind, [])
    if name in _names(content, kind):
        if wanted not in targets:
            raise _occupied(text, file, kind, f'[[{kind}]] "{name}" is there in another form')
        return text
    block = f"[[{kind}]]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in wanted.items())
    changed = _with_target_after(text, kind, block, after) or _appended(text, block)
    added = toml_text.load(changed, file)
    assert added[kind].count(wanted) == 1, "the target is added"
    added[kind].remove(wanted)
    assert added == content, "and nothing else"
    return changed


def set_config(
    text: str | None, table: str, key: str, value: str, *, comment: str = "", file: str = _CONFIG_FILE
) -> str:
    """cargo's configuration with a string in one of its tables, such as `[env] KEY = "value"`.

    `text` is None where there is no such file yet. A new key is the last of its table; `comment` stands above it.

    Raises:
        Conflict: the file is not TOML, or the key is there with another value.
    """
    text = "" if text is None else text
    content = toml_text.load(text, file, error=Conflict)
    scope = content.get(table, {})
    if not isinstance(scope, dict):
        raise _occupied(text, file, table, f"`{table}` is no table")
    known = scope.get(key)
    if isinstance(known, dict) and known.get("value") == value:  # `{ value = "1", force = true }`
        return text
    return _with_entry(text, (table,), key, value, file=file, comment=comment, error=Conflict, ordered=False)


def _with_entry(
    text: str,
    table: tuple[str, ...],
    key: str,
    value: Any,
    *,
    file: str,
    after: str | None = None,
    comment: str = "",
    error: type[CandleRocmError] = NotACandleTree,
    ordered: bool = True,
) -> str:
    """The text with one more entry in a table, which is appended to the file where it does not exist."""
    content = toml_text.load(text, file, error=error)
    scope: Any = content
    for part in table:
        scope = scope.setdefault(part, {})
    name = _dotted(table)
    if key in scope:
        if scope[key] != value:
            raise _occupied(text, file, key, f"`{key}` is in [{name}] with another value: {_value(scope[key])}")
        return text
    lines = "".join(f"# {line}\n" for line in comment.splitlines()) + f"{_key(key)} = {_value(value)}\n"
    start, end = _extent(text, table, scope)
    document = _document(text[start:end])
    body = _body(document.body, table)
    if body is not None:
        _insert(body, _position(body, key, after, ordered=ordered), lines, _newline(text))
        changed = text[:start] + document.as_string() + text[end:]
    elif scope:
        raise _occupied(text, file, table[-1], f"[{name}] is written in a form that candle-rocm does not edit")
    else:
        changed = _appended(text, f"[{name}]\n{lines}")
    scope[key] = value
    assert toml_text.load(changed, file) == content, "the entry is added, and nothing else"
    return changed


def _extent(text: str, table: tuple[str, ...], entries: Any) -> tuple[int, int]:
    """Where the lines of a table begin and end, of the whole text where they do not lie together.

    tomlkit takes milliseconds for each kilobyte, and most manifests get several entries.
    """
    import tomllib

    header = re.search(rf"^\[{re.escape(_dotted(table))}\]", text, re.MULTILINE)
    if header is not None:
        following = re.compile(r"^\[", re.MULTILINE).search(text, header.end())
        start, end = header.start(), following.start() if following is not None else len(text)
        with suppress(tomllib.TOMLDecodeError):
            found: Any = tomllib.loads(text[start:end])
            for part in table:
                found = found[part]
            if found == entries:
                return start, end
    return 0, len(text)


def _document(text: str) -> TOMLDocument:
    import tomlkit

    document = tomlkit.parse(text)
    assert document.as_string() == text, "tomlkit gives back what it read"
    return document


def _body(body: Body, table: tuple[str, ...]) -> Body | None:
    """The entries below the header of a table; None where no header spells it."""
    from tomlkit.items import Table

    for key, item in body:
        if key is None or key.key != table[0] or not isinstance(item, Table) or key.is_dotted():
            continue
        if len(table) > 1:
            inner = _body(item.value.body, table[1:])
            if inner is not None:
                return inner
        elif not item.is_super_table():
            return item.value.body
    return None


def _position(body: Body, key: str, after: str | None, *, ordered: bool) -> int:
    """Where in `body` a new entry goes: after its sibling, or in sorted place, or last."""
    from tomlkit.items import AoT, Table

    entries = {
        known.key: index for index, (known, item) in enumerate(body) if known and not isinstance(item, (Table, AoT))
    }
    if after in entries:
        return entries[after] + 1
    if not ordered:
        return max(entries.values(), default=-1) + 1
    smaller = [known for known in entries if known < key]
    if smaller:
        return entries[max(smaller)] + 1
    return min(entries.values(), default=0)


def _insert(body: Body, index: int, lines: str, newline: str) -> None:
    """Put lines between two entries of a table, or after the last one when the file ends without a line end."""
    import tomlkit

    new = list(tomlkit.parse(lines.replace("\n", newline)).body)
    if index > 0:
        previous = body[index - 1][1]
        if "\n" not in previous.trivia.trail:
            previous.trivia.trail += newline
            new[-1][1].trivia.trail = ""
    body[index:index] = new


def _with_target_after(text: str, kind: str, block: str, after: str | None) -> str | None:
    """The text with a block after one of the [[`kind`]] targets, or None where there are none."""
    import tomlkit
    from tomlkit.items import AoT, Whitespace

    document = _document(text)
    arrays = [item for key, item in document.body if key is not None and key.key == kind and isinstance(item, AoT)]
    if not arrays:
        return None
    targets = next((array for array in arrays if after in [each.get("name") for each in array.body]), arrays[-1]).body
    index = next((i for i, target in enumerate(targets) if target.get("name") == after), len(targets) - 1)
    newline = _newline(text)
    previous = targets[index].value.body
    if previous and isinstance(previous[-1][1], Whitespace):
        block += "\n"  # the blank line before the new target is there; this is the one after it
        gap = ""
    else:
        gap = newline
    array = next(item for _, item in tomlkit.parse(block.replace("\n", newline)).body if isinstance(item, AoT))
    new = array.body[0]
    new.trivia.indent = gap
    if previous and gap and previous[-1][1].trivia.trail == "":
        previous[-1][1].trivia.trail = newline
        new.value.body[-1][1].trivia.trail = ""
    targets.insert(index + 1, new)
    return document.as_string()


def _appended(text: str, block: str) -> str:
    newline = _newline(text)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    return text + gap + block.replace("\n", newline)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _names(content: dict[str, Any], kind: str) -> list[str]:
    return [str(target.get("name")) for target in content.get(kind, [])]


def _occupied(text: str, file: str, key: str, message: str) -> Conflict:
    location = Location.in_text(file, text, toml_text.line_of_key(text, key))
    return Conflict(Problem(message, location), remedy="remove it, or start from pristine Candle")


def _dotted(table: Iterable[str]) -> str:
    return ".".join(map(_key, table))


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "")
    return key if bare.isascii() and bare.isalnum() else json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    """A TOML value on one line; JSON's strings, numbers and booleans are TOML's."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
